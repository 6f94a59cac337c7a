"""B21: status 200 with a page, a reply without the id, a reply cut in the middle."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cases.harness import Ran, Workspace
from cases.scripted_server import PAGE, Script, ScriptedServer, sft

CUT = {"json": {"job_id": "job_1", "status": "running", "pad": "x" * 200}, "drop": "mid_body"}


def train(workspace: Workspace, script: Script) -> tuple[Ran, ScriptedServer]:
    workspace.sft()
    with ScriptedServer(sft(script)) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.2")
    return ran, server


@pytest.mark.parametrize("route", ["POST /api/files", "POST /api/learning/jobs"], ids=["upload", "create"])
def test_a_page_in_place_of_json_is_shown_for_what_it_is(workspace: Workspace, route: str) -> None:
    ran, server = train(workspace, {route: [PAGE]})

    assert ran.code in (6, 7)
    method, path = route.split()
    for part in (f"{method} {server.origin}{path}", "200", "text/html", "Please sign in to the network."):
        assert part in ran.err
    assert server.seen("GET /api/learning/jobs/*") == []


def test_at_most_200_characters_of_a_body_are_shown_and_no_control_character(workspace: Workspace) -> None:
    page = {"text": "\x1b[31mred\x07\r" + "y" * 5000, "headers": {"Content-Type": "text/html"}}
    ran, _ = train(workspace, {"POST /api/learning/jobs": [page]})

    assert ran.code in (6, 7)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", ran.both)
    assert "y" * 100 in ran.err
    assert "y" * 201 not in ran.err


@pytest.mark.parametrize(
    ("reply", "keys"),
    [
        ({"ok": True}, ["ok"]),
        ([], []),
        ({"job_id": None}, ["job_id"]),
        ({"job_id": ""}, ["job_id"]),
        ({"job_id": 7, "at": 1}, ["job_id", "at"]),
        ({"job_id": {"x": 1}}, ["job_id"]),
    ],
    ids=["no-id", "list", "null", "empty", "number", "object"],
)
def test_a_create_reply_without_an_id_is_said_and_never_asked_for(
    workspace: Workspace, reply: Any, keys: list[str]
) -> None:
    ran, server = train(workspace, {"POST /api/learning/jobs": [{"status": 201, "json": reply}]})

    assert ran.code == 7
    (said,) = [line for line in ran.err.splitlines() if "reply has no job id" in line]
    for key in keys:
        assert key in said
    assert server.seen("* /api/learning/jobs/*") == []


def test_one_page_while_polling_is_one_failed_poll(workspace: Workspace) -> None:
    good = {"json": {"job_id": "job_1", "status": "succeeded"}}
    ran, server = train(workspace, {"GET /api/learning/jobs/job_1": [PAGE, good]})

    assert ran.code == 0, ran.err
    assert len(server.seen("GET /api/learning/jobs/job_1")) == 2


def test_one_cut_reply_while_polling_is_one_failed_poll(workspace: Workspace) -> None:
    good = {"json": {"job_id": "job_1", "status": "succeeded"}}
    ran, _ = train(workspace, {"GET /api/learning/jobs/job_1": [CUT, good]})

    assert ran.code == 0, ran.err


def test_a_cut_create_reply_is_asked_for_again_under_the_same_key(workspace: Workspace) -> None:
    again = {"status": 201, "json": {"job_id": "job_1", "status": "queued"}}
    ran, server = train(workspace, {"POST /api/learning/jobs": [{**CUT, "status": 201}, again]})

    assert ran.code == 0, ran.err
    first, second = server.seen("POST /api/learning/jobs")
    assert first.header("Idempotency-Key")
    assert first.header("Idempotency-Key") == second.header("Idempotency-Key")
    assert first.body == second.body
    assert "job_1" in ran.out


def test_json_under_another_type_is_json_and_id_is_an_id(workspace: Workspace) -> None:
    reply = {"status": 201, "text": '{"id":"job_1","status":"queued"}', "headers": {"Content-Type": "text/plain"}}
    ran, server = train(workspace, {"POST /api/learning/jobs": [reply]})

    assert ran.code == 0, ran.err
    assert server.seen("GET /api/learning/jobs/job_1")


def test_an_id_does_not_change_the_path(workspace: Workspace) -> None:
    strange = "a/../b?c#d"
    ran, server = train(
        workspace,
        {
            "POST /api/learning/jobs": [{"status": 201, "json": {"job_id": strange}}],
            "GET /api/learning/jobs/*": [{"json": {"job_id": strange, "status": "succeeded"}}],
        },
    )

    assert ran.code == 0, ran.err
    after = {row.path for row in server.log if row.path.startswith("/api/learning/jobs/")}
    job = "/api/learning/jobs/a%2F..%2Fb%3Fc%23d"
    assert after == {job, f"{job}/start", f"{job}/events", f"{job}/metrics"}
