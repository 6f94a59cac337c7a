"""B22: the uploaded file fails on the server, and the job is created all the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cases.harness import Ran, Workspace, lines_with
from cases.scripted_server import Reply, ScriptedServer, sft

READY: Reply = {"json": {"id": "file_1", "status": "ready"}}
PROCESSING: Reply = {"json": {"id": "file_1", "status": "processing"}}


def train(workspace: Workspace, *states: Reply, timeout: str = "30") -> tuple[Ran, ScriptedServer]:
    workspace.sft()
    with ScriptedServer(sft({"GET /api/files/*": states})) as server:
        ran = workspace.run(
            "train",
            "--config",
            "sft.toml",
            "--backend",
            server.base,
            "--poll-interval",
            "0.2",
            "--poll-timeout",
            timeout,
        )
    return ran, server


def assert_no_job(server: ScriptedServer) -> None:
    assert server.seen("POST /api/learning/jobs*") == []


@pytest.mark.parametrize(
    "states",
    [
        [PROCESSING, {"json": {"id": "file_1", "status": "error", "status_details": "line 1273 is not JSON"}}],
        [
            {
                "json": {
                    "id": "file_1",
                    "status": "INVALID_FORMAT",
                    "processing_status": "INVALID_FORMAT",
                    "validation_report": {"line": 1273, "reason": "not JSON"},
                }
            }
        ],
        [{"json": {"id": "file_1", "processing_status": "INVALID_FORMAT", "validation_report": {"line": 1273}}}],
    ],
    ids=["text", "object", "other-name"],
)
def test_a_file_that_failed_stops_the_submission_with_the_reason(workspace: Workspace, states: list[Reply]) -> None:
    ran, server = train(workspace, *states)

    assert ran.code == 6
    assert "1273" in ran.err
    assert "file_1" in ran.err
    assert_no_job(server)


@pytest.mark.parametrize("word", ["ERROR", "Failed", "invalid_format", "cancelled", " Deleted "])
def test_every_bad_word_stops_in_any_case(workspace: Workspace, word: str) -> None:
    ran, server = train(workspace, {"json": {"id": "file_1", "status": word}})

    assert ran.code == 6
    assert len(server.seen("GET /api/files/*")) == 1
    assert_no_job(server)


@pytest.mark.parametrize(
    "word", ["Ready", "uploaded", "STORED", "complete", "completed", "processed", "Succeeded", None]
)
def test_every_good_word_goes_on_and_so_does_no_word(workspace: Workspace, word: str | None) -> None:
    state: dict[str, Any] = {"id": "file_1"} if word is None else {"id": "file_1", "status": word}
    ran, server = train(workspace, {"json": state})

    assert ran.code == 0, ran.err
    assert len(server.seen("POST /api/learning/jobs")) == 1


def test_another_word_is_shown_once_and_waited_on(workspace: Workspace) -> None:
    strange: Reply = {"json": {"id": "file_1", "status": "marinating"}}
    ran, server = train(workspace, strange, strange, READY)

    assert ran.code == 0, ran.err
    assert len(lines_with(ran.both, "marinating")) == 1
    assert len(server.seen("GET /api/files/*")) == 3


def test_the_wait_ends_at_its_limit_without_a_job(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft({"GET /api/files/*": [PROCESSING]})) as server:
        running = workspace.start("train", "--config", "sft.toml", "--backend", server.base, "--poll-timeout", "3")
        (first, *_) = server.wait_for("GET /api/files/*")
        ran = running.end()
        waited = time.monotonic() - first.at

    assert ran.code == 9
    assert "file_1" in ran.err
    assert 2.5 < waited < 4.5  # the limit is 3 s, and the process has to end as well
    assert_no_job(server)


def test_a_file_that_is_visible_late_is_waited_for(workspace: Workspace) -> None:
    missing: Reply = {"status": 404, "json": {"detail": "not found"}}
    ran, server = train(workspace, missing, missing, READY)

    assert ran.code == 0, ran.err
    assert len(server.seen("GET /api/files/*")) == 3


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_ends_the_wait_at_once(workspace: Workspace, status: int) -> None:
    ran, server = train(workspace, {"status": status, "json": {"detail": "who are you"}}, READY)

    assert ran.code == 4
    assert len(server.seen("GET /api/files/*")) == 1
    assert_no_job(server)
