"""B23: one bad poll ends the watch."""

from __future__ import annotations

import re

from cases.harness import Workspace, lines_with
from cases.scripted_server import PAGE, Reply, ScriptedServer, sft

RUNNING: Reply = {"json": {"job_id": "job_1", "status": "running"}}
BAD_GATEWAY: Reply = {"status": 502, "text": "<html>502 Bad Gateway</html>", "headers": {"Content-Type": "text/html"}}


def test_short_failures_do_not_end_the_watch(workspace: Workspace) -> None:
    workspace.sft()
    polls: list[Reply] = [
        RUNNING,
        BAD_GATEWAY,
        {"drop": "reset"},
        RUNNING,
        {"status": 503, "text": ""},
        {"drop": "before_reply"},
        RUNNING,
        {"status": 429, "headers": {"Retry-After": "1"}, "json": {"detail": "slow down"}},
        {"status": 408},
        PAGE,
        {"json": {"job_id": "job_1", "status": "succeeded"}},
    ]
    with ScriptedServer(sft({"GET /api/learning/jobs/job_1": polls})) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2", "--poll-timeout", "30"
        )

    assert ran.code == 0, ran.err
    assert len(server.seen("GET /api/learning/jobs/job_1")) == len(polls)
    failures = len(polls) - 4
    assert len(ran.err.splitlines()) <= failures + 5, "each failure is at most one line"


def test_a_lasting_failure_ends_at_the_timeout_with_the_job_and_the_way_on(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft({"GET /api/learning/jobs/job_1": [RUNNING, BAD_GATEWAY]})) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2", "--poll-timeout", "4"
        )

    assert ran.code == 9
    last_words = ran.err[-600:]
    assert "job_1" in last_words
    assert "502" in last_words
    assert re.search(r"watch", last_words)
    assert not re.search(r"RetryError|Future at", ran.both)
    polls = server.seen("GET /api/learning/jobs/job_1")
    assert polls[-1].at - polls[0].at < 4.2, "a poll was sent after the deadline"
    assert len(lines_with(ran.err, "502")) <= len(polls)
