"""B19: a redirect turns the POST into a GET. Redirects of POSTs are not followed (design §4)."""

from __future__ import annotations

import pytest

from cases.harness import KEYS, Ran, Workspace
from cases.scripted_server import Script, ScriptedServer, sft


def train(workspace: Workspace, server: ScriptedServer) -> Ran:
    workspace.sft()
    return workspace.run("train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("route", "elsewhere", "there"),
    [
        ("POST /api/files", "/api/v2/files", {"id": "file_old"}),
        ("POST /api/learning/jobs", "/api/v2/jobs", {"job_id": "job_other", "status": "succeeded"}),
    ],
    ids=["upload", "create"],
)
def test_a_redirected_post_stops_and_says_where_to(
    workspace: Workspace, status: int, route: str, elsewhere: str, there: dict[str, str]
) -> None:
    script: Script = {
        route: [{"status": status, "headers": {"Location": f"http://127.0.0.1:{{{{PORT}}}}{elsewhere}"}}],
        f"* {elsewhere}": [{"status": 200, "json": there}],
    }
    with ScriptedServer(sft(script)) as server:
        ran = train(workspace, server)

    assert ran.code in (6, 7)
    assert str(status) in ran.err
    assert f"{server.origin}{elsewhere}" in ran.err
    assert "--backend" in ran.err
    assert "file_old" not in ran.both
    assert "job_other" not in ran.both
    assert server.seen(f"* {elsewhere}") == []
    assert server.seen("GET /api/learning/jobs/*") == []


def test_a_loop_ends(workspace: Workspace) -> None:
    loop: Script = {
        "POST /api/learning/jobs": [
            {"status": 308, "headers": {"Location": "http://127.0.0.1:{{PORT}}/api/learning/jobs"}}
        ]
    }
    with ScriptedServer(sft(loop)) as server:
        ran = train(workspace, server)

    assert ran.code in (6, 7)
    assert "308" in ran.err
    assert "same address again" in ran.err
    assert "--backend" not in ran.err, "to change to what it is already"
    assert len(server.seen("POST /api/learning/jobs")) <= 10


def test_a_poll_may_be_redirected_on_its_own_origin(workspace: Workspace) -> None:
    moved: Script = {
        "GET /api/learning/jobs/job_1": [{"status": 307, "headers": {"Location": "/api/v2/jobs/job_1"}}],
        "GET /api/v2/jobs/job_1": [{"json": {"job_id": "job_1", "status": "succeeded"}}],
    }
    with ScriptedServer(sft(moved)) as server:
        ran = train(workspace, server)

    assert ran.code == 0, ran.err


def test_no_key_is_carried_to_another_origin(workspace: Workspace) -> None:
    with ScriptedServer({"GET *": [{"json": {"job_id": "job_1", "status": "succeeded"}}]}) as other:
        away = {"GET /api/learning/jobs/job_1": [{"status": 307, "headers": {"Location": f"{other.base}/stolen"}}]}
        workspace.sft()
        with ScriptedServer(sft(away)) as server:
            ran = workspace.run(
                "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2", "--poll-timeout",
                "1", env=KEYS,
            )  # fmt: skip

    assert ran.code not in (0, 1)
    assert other.log == []
