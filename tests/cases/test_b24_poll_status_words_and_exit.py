"""B24: status words in another case, unknown words, and exit status 0 for a failed job."""

from __future__ import annotations

from typing import Any

import pytest

from cases.harness import Ran, Workspace, lines_with
from cases.scripted_server import ScriptedServer, sft

GOOD, FAILED, GAVE_UP = 0, 8, 9


def watch(workspace: Workspace, *polls: dict[str, Any]) -> Ran:
    workspace.sft()
    replies = [{"json": {"job_id": "job_1", **poll}} for poll in polls]
    with ScriptedServer(sft({"GET /api/learning/jobs/job_1": replies})) as server:
        return workspace.run(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2", "--poll-timeout", "2"
        )


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("SUCCEEDED", GOOD),
        (" Succeeded ", GOOD),
        ("completed", GOOD),
        ("success", GOOD),
        ("FAILED", FAILED),
        ("error", FAILED),
        ("Cancelled", FAILED),
        ("canceled", FAILED),
        ("stopped", FAILED),
        ("expired", FAILED),
        ("timed_out", FAILED),
        ("queued", GAVE_UP),
        ("cancelling", GAVE_UP),
        ("quantum_flux", GAVE_UP),
        (None, GAVE_UP),
        (7, GAVE_UP),
    ],
)
def test_a_word_means_what_the_table_says(workspace: Workspace, word: object, code: int) -> None:
    ran = watch(workspace, {"status": "running"}, {"status": word})

    assert ran.code == code, ran.err
    assert ran.seconds < 4 + 2  # the case allows 4 s; two more for a busy machine
    last_lines = [text.rstrip().splitlines()[-1] for text in (ran.out, ran.err) if text.strip()]
    assert any("job_1" in line and str(word).strip().lower() in line.lower() for line in last_lines) or word in (
        None,
        7,
    )
    assert any("job_1" in line for line in last_lines)


def test_state_stands_in_for_status(workspace: Workspace) -> None:
    assert watch(workspace, {"state": "running"}, {"state": "Completed"}).code == GOOD


def test_an_unknown_word_is_shown_once_and_made_safe(workspace: Workspace) -> None:
    ran = watch(workspace, {"status": "quan\x1b[31mtum"}, {"status": "quan\x1b[31mtum"}, {"status": "succeeded"})

    assert ran.code == GOOD, ran.err
    assert "\x1b" not in ran.both
    assert len(lines_with(ran.out, "quan")) == 1


@pytest.mark.parametrize("name", ["error", "message", "detail"])
def test_the_reason_of_a_bad_end_is_shown(workspace: Workspace, name: str) -> None:
    ran = watch(workspace, {"status": "failed", name: "out of memory at step 7"})

    assert ran.code == FAILED
    assert "out of memory at step 7" in ran.both


def test_failed_timed_out_and_not_submitted_have_three_numbers_and_help_has_them(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft({"POST /api/learning/jobs": [{"status": 422, "json": {"detail": "no"}}]})) as server:
        not_submitted = workspace.run("train", "--config", "sft.toml", "--backend", server.base).code
    text = workspace.run("train", "--help").out

    assert not_submitted == 6
    assert len({not_submitted, FAILED, GAVE_UP, GOOD, 2}) == 5
    table = text[text.lower().rindex("exit") :]
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130, 143):
        assert str(code) in table
