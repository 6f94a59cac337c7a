"""B28: output cut by head, and escape codes in log files."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from cases.harness import Ran, Workspace, lines_with
from cases.scripted_server import Script, ScriptedServer, sft
from cases.terminals import on_terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")

RUNNING = {"json": {"job_id": "job_1", "status": "running"}}
THIRTY_POLLS: Script = {
    "GET /api/learning/jobs/job_1": [*[RUNNING] * 30, {"json": {"job_id": "job_1", "status": "succeeded"}}]
}
SIGPIPE = (0, 141, -signal.SIGPIPE)
"""A shell calls death by SIGPIPE 141."""


def assert_quiet(ran: Ran) -> None:
    assert ran.code in SIGPIPE
    assert not re.search(r"Traceback|BrokenPipeError|Exception ignored", ran.err)


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_a_reader_that_goes_away_leaves_no_half_submission(workspace: Workspace, lines: int) -> None:
    workspace.sft()
    read, write = os.pipe()
    with ScriptedServer(sft(THIRTY_POLLS)) as server:
        running = workspace.start(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.1",
            env={"PYTHONUNBUFFERED": "1"}, stdout=write,
        )  # fmt: skip
        os.close(write)
        with os.fdopen(read, "rb", buffering=0) as head:
            for _ in range(lines):
                while head.read(1) not in (b"\n", b""):
                    pass
        ran = running.end()

    assert_quiet(ran)
    created = server.seen("POST /api/learning/jobs")
    if created:
        assert "job_1" in ran.err
    else:
        assert server.seen("POST /api/learning/jobs/*/start") == []


@pytest.mark.parametrize("args", [["--help"], ["train", "--help"], ["--version"]], ids=" ".join)
def test_help_into_a_closed_pipe_is_quiet(workspace: Workspace, args: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    running = workspace.start(*args, stdout=write)
    os.close(write)

    assert_quiet(running.end())


def test_log_files_hold_plain_lines_and_each_status_once(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft(THIRTY_POLLS)) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.1")

    assert ran.code == 0, ran.err
    for stream in (ran.stdout, ran.stderr):
        assert not set(stream) & set(b"\x1b\r\b")
    assert len([line for line in ran.out.splitlines() if re.fullmatch(r"\[\d\d:\d\d\] running", line)]) == 1
    assert len(lines_with(ran.both, "] running")) == 1
    assert re.search(r"^\[\d\d:\d\d\] succeeded", ran.out, re.MULTILINE)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_a_terminal_that_wants_no_colour_gets_none(workspace: Workspace, env: dict[str, str]) -> None:
    workspace.sft()
    with ScriptedServer(sft(THIRTY_POLLS)) as server:
        ran = on_terminal(
            workspace, "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.1", env=env
        )

    assert ran.code == 0, ran.out
    assert not re.search(r"\x1b\[[0-9;]*m", ran.out)
    if "TERM" in env:
        assert "\x1b" not in ran.out


def test_scripts_read_stdout_and_people_stderr(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft(THIRTY_POLLS)) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.1", "--output", "json"
        )

    assert ran.code == 0, ran.err
    assert "job_1" in json.dumps(json.loads(ran.out))
