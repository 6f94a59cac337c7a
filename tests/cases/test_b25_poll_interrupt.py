"""B25: Ctrl-C while the job runs."""

from __future__ import annotations

import signal
import time

import pytest

from cases.harness import Ran, Workspace
from cases.scripted_server import Reply, Script, ScriptedServer, sft

RUNS_FOR_EVER: Script = {"GET /api/learning/jobs/job_1": [{"json": {"job_id": "job_1", "status": "running"}}]}


def interrupt(
    workspace: Workspace,
    script: Script,
    at: str,
    *args: str,
    times: int,
    numbers: list[signal.Signals],
    pause: float = 0.0,
) -> tuple[Ran, float, ScriptedServer]:
    """Start, wait until a route was asked for, signal; gives also the seconds from the first signal to the end."""
    workspace.sft()
    with ScriptedServer(sft(script)) as server:
        running = workspace.start(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2", *args
        )
        server.wait_for(at, times=times)
        time.sleep(pause)
        signalled = time.monotonic()
        for number in numbers:
            running.signal(number)
            time.sleep(0.05)
        ran = running.end(within=10)
        took = time.monotonic() - signalled
    return ran, took, server


@pytest.mark.parametrize(
    ("numbers", "code"),
    [([signal.SIGINT], 130), ([signal.SIGTERM], 143), ([signal.SIGINT, signal.SIGINT], 130)],
    ids=["SIGINT", "SIGTERM", "SIGINT-twice"],
)
def test_an_interrupt_leaves_the_job_running_and_says_how_to_go_on(
    workspace: Workspace, numbers: list[signal.Signals], code: int
) -> None:
    ran, took, server = interrupt(workspace, RUNS_FOR_EVER, "GET /api/learning/jobs/job_1", times=2, numbers=numbers)

    assert ran.code == code
    assert took < 1.0 + 0.5 * len(numbers)
    assert not [row for row in server.log if "cancel" in row.path]
    if len(numbers) == 1:
        assert "job_1" in ran.err
        assert "still running" in ran.err
        assert "synth-ai" in ran.err
        assert "watch" in ran.err


def test_an_interrupt_during_the_upload_says_that_there_is_no_job(workspace: Workspace) -> None:
    slow: Reply = {"json": {"id": "file_1", "status": "ready"}, "delay": 10}
    ran, took, server = interrupt(
        workspace, {"POST /api/files": [slow]}, "POST /api/files", "--examples", "2", times=1,
        numbers=[signal.SIGINT], pause=0.5,
    )  # fmt: skip

    assert ran.code == 130
    assert took < 1.5
    assert "no job was created" in ran.err.lower()
    assert server.seen("POST /api/learning/jobs*") == []
    assert list(workspace.temp.iterdir()) == []
    assert {path.name for path in workspace.cwd.iterdir()} == {"sft.toml", "train.jsonl", ".env"}


def test_an_interrupt_during_the_creation_says_that_the_job_may_exist_and_gives_the_key(workspace: Workspace) -> None:
    slow: Reply = {"status": 201, "json": {"job_id": "job_1"}, "delay": 10}
    ran, took, server = interrupt(
        workspace, {"POST /api/learning/jobs": [slow]}, "POST /api/learning/jobs", times=1,
        numbers=[signal.SIGINT], pause=0.5,
    )  # fmt: skip

    assert ran.code == 130
    assert took < 1.5
    assert "may" in ran.err
    (create,) = server.seen("POST /api/learning/jobs")
    key = create.header("Idempotency-Key")
    assert key
    assert key in ran.err
