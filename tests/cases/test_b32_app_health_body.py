"""B32: status 200 is taken for health."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.harness import Ran, Running, Workspace
from cases.scripted_server import PAGE, Reply, Script, ScriptedServer, rl

HEALTHY: Reply = {"json": {"healthy": True}}
LONGEST_PROBE = 30.0
TO_SLASH: Reply = {"status": 307, "headers": {"Location": "/health/"}}


def train(workspace: Workspace, script: Script, path: str = "") -> tuple[Ran, ScriptedServer]:
    workspace.rl()
    with ScriptedServer(rl(script)) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin + path,
            "--poll-interval", "0.2",
        )  # fmt: skip
    return ran, server


@pytest.fixture(scope="module", autouse=True)
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, ScriptedServer]]:
    """A run against an app that never answers; it takes half a minute, and the other tests pass meanwhile."""
    workspace = Workspace(Path(tmp_path_factory.mktemp("hanging")))
    workspace.rl()
    with ScriptedServer(rl({"GET /health": [{**HEALTHY, "delay": 120}]})) as server:
        running = workspace.start("train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin)
        yield running, server
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()


@pytest.mark.parametrize(
    ("health", "tries"),
    [
        ([HEALTHY], 1),
        ([{"json": {}}], 1),
        ([{"json": {"status": "ok"}}], 1),
        ([{"status": 503, "text": ""}, HEALTHY], 2),
    ],
    ids=["good", "empty-object", "status-ok", "503-then-good"],
)
def test_a_healthy_app_gets_its_job(workspace: Workspace, health: list[Reply], tries: int) -> None:
    ran, server = train(workspace, {"GET /health": health})

    assert ran.code == 0, ran.err
    assert "Task app healthy" in ran.out
    assert len(server.seen("POST /api/rl/jobs")) == 1
    assert len(server.seen("GET /health")) == tries


def test_a_redirect_to_the_slash_is_followed(workspace: Workspace) -> None:
    ran, server = train(workspace, {"GET /health": [TO_SLASH], "GET /health/": [HEALTHY]})

    assert ran.code == 0, ran.err
    assert len(server.seen("POST /api/rl/jobs")) == 1


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"GET /health": [{"json": {"healthy": False, "detail": "not loaded"}}]}, ["/health", "200", "not loaded"]),
        ({"GET /health": [{"json": {"ok": False, "detail": "warming"}}]}, ["/health", "200", "warming"]),
        ({"GET /health": [{"json": {"status": "unhealthy", "detail": "db down"}}]}, ["/health", "200", "db down"]),
        ({"GET /health": [{"json": {"status": "Error"}}]}, ["/health", "200"]),
        ({"GET /health": [{"json": {"status": "down"}}]}, ["/health", "200"]),
        ({"GET /health": [{"json": {"status": "failing"}}]}, ["/health", "200"]),
        ({"GET /health": [PAGE]}, ["/health", "200", "text/html"]),
        ({"GET /health": [{"json": []}]}, ["/health", "200"]),
        ({"GET /health": [TO_SLASH], "GET /health/": [TO_SLASH]}, ["/health"]),
        (
            {"GET /health*": [{"status": 401, "json": {"detail": "bad key"}}]},
            ["/health", "401", "bad key", "ENVIRONMENT_API_KEY"],
        ),
        ({"GET /task_info": [PAGE]}, ["/task_info", "200", "text/html"]),
        ({"GET /task_info": [{"status": 404, "json": {"detail": "not found"}}]}, ["/task_info", "404", "not found"]),
        ({"GET /task_info": [{"json": [1]}]}, ["/task_info", "200"]),
    ],
    ids=[
        "says-no", "ok-false", "unhealthy", "status-error", "status-down", "status-failing", "page", "list",
        "slash-loop", "401", "info-page", "info-404", "info-list",
    ],
)  # fmt: skip
def test_an_unhealthy_app_gets_none_and_the_reason_is_said(
    workspace: Workspace, script: Script, said: list[str]
) -> None:
    ran, server = train(workspace, script)

    assert ran.code == 5
    assert server.seen("POST /api/rl/jobs") == []
    assert server.origin in ran.err
    for words in said:
        assert words in ran.err
    assert len(server.seen("GET /health*")) <= 3 * 4, "at most 3 tries of at most 3 redirects"


@pytest.mark.parametrize("path", ["", "/", "//"])
def test_a_slash_at_the_end_of_the_url_does_not_count(workspace: Workspace, path: str) -> None:
    ran, server = train(workspace, {}, path)

    assert ran.code == 0, ran.err
    assert [row.target for row in server.log if "health" in row.path and "/api" not in row.path] == ["/health"]


@pytest.mark.parametrize("path", ["/app", "/app/"])
def test_a_path_in_the_url_is_kept(workspace: Workspace, path: str) -> None:
    ran, server = train(
        workspace, {"GET /app/health": [HEALTHY], "GET /app/task_info": [{"json": {"task": {"id": "demo"}}}]}, path
    )

    assert ran.code == 0, ran.err
    assert len(server.seen("GET /app/health")) == 1
    assert server.seen("GET /health") == []


def test_an_app_that_never_answers_is_given_up_in_time(hanging: tuple[Running, ScriptedServer]) -> None:
    running, server = hanging
    server.wait_for("GET /health")
    ran = running.end()

    assert ran.code == 5
    assert ran.seconds < LONGEST_PROBE + 20  # the start of the command and the backend's own look come on top
    assert server.seen("POST /api/rl/jobs") == []
    assert f"{server.origin}/health" in ran.err
