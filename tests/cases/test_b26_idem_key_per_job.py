"""B26: a new Idempotency-Key for every attempt."""

from __future__ import annotations

import pytest

from cases.harness import Ran, Workspace
from cases.scripted_server import Reply, Script, ScriptedServer, Seen, rl, sft

LOST: Reply = {"drop": "before_reply"}
TAKEN: Reply = {"status": 201, "json": {"job_id": "job_1", "status": "queued"}}
SHAKY: list[Reply] = [LOST, {"status": 504, "text": "gateway timeout"}, TAKEN]
CREATE = {"sft": "POST /api/learning/jobs", "rl": "POST /api/rl/jobs"}


def run(workspace: Workspace, kind: str, create: list[Reply], *args: str) -> tuple[Ran, ScriptedServer]:
    workspace.sft()
    workspace.put("common/rl.toml")
    script: Script = {"sft": sft, "rl": rl}[kind]({CREATE[kind]: create})
    with ScriptedServer(script) as server:
        task = ["--task-url", server.origin] if kind == "rl" else []
        ran = workspace.run("train", "--config", f"{kind}.toml", "--backend", server.base, "--no-poll", *task, *args)
    return ran, server


def keys(creates: list[Seen]) -> set[str | None]:
    return {create.header("Idempotency-Key") for create in creates}


@pytest.mark.parametrize("kind", ["sft", "rl"])
@pytest.mark.parametrize("given", [None, "K-77"], ids=["own-key", "given-key"])
def test_all_attempts_carry_one_key_and_one_body(workspace: Workspace, kind: str, given: str | None) -> None:
    ran, server = run(workspace, kind, SHAKY, *(["--idempotency", given] if given else []))

    assert ran.code == 0, ran.err
    creates = server.seen(CREATE[kind])
    assert len(creates) == 3
    (key,) = keys(creates)
    assert key
    assert key == given or (given is None and len(key) >= 21), "122 random bits take 21 characters at least"
    assert len({create.sha256 for create in creates}) == 1
    assert len(server.seen("POST /api/files")) == (1 if kind == "sft" else 0)


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_two_good_runs_never_share_a_key(workspace: Workspace, kind: str) -> None:
    used = [keys(run(workspace, kind, [TAKEN])[1].seen(CREATE[kind])) for _ in range(2)]

    assert len(used[0] | used[1]) == 2


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_an_unknown_outcome_is_said_with_its_key_and_the_next_run_takes_it_up(workspace: Workspace, kind: str) -> None:
    workspace.sft()
    workspace.put("common/rl.toml")
    script: Script = {"sft": sft, "rl": rl}[kind]({CREATE[kind]: [*[LOST] * 5, TAKEN]})
    with ScriptedServer(script) as server:
        task = ["--task-url", server.origin] if kind == "rl" else []
        command = ("train", "--config", f"{kind}.toml", "--backend", server.base, "--no-poll", *task)
        first = workspace.run(*command)
        (key,) = keys(server.seen(CREATE[kind]))
        second = workspace.run(*command)

    assert first.code == 7
    assert key
    assert key in first.err
    assert "may" in first.err
    assert "again" in first.err
    assert second.code == 0, second.err
    assert key in second.both
    creates = server.seen(CREATE[kind])
    assert keys(creates) == {key}
    assert len({create.sha256 for create in creates}) == 1
    assert len(server.seen("POST /api/files")) == (1 if kind == "sft" else 0)


@pytest.mark.parametrize("key", ["", "two\nlines", "carriage\rreturn", "Schlüssel", " "], ids=repr)
def test_a_key_that_is_none_is_a_usage_error(workspace: Workspace, key: str) -> None:
    ran, server = run(workspace, "sft", [TAKEN], "--idempotency", key)

    assert ran.code == 2
    assert "--idempotency" in ran.err
    assert server.log == []


@pytest.mark.parametrize("status", [400, 402, 403, 404, 410, 422])
def test_a_refusal_is_not_tried_again(workspace: Workspace, status: int) -> None:
    ran, server = run(workspace, "sft", [{"status": status, "json": {"detail": "no"}}, TAKEN])

    assert ran.code == (4 if status == 403 else 6)
    assert len(server.seen(CREATE["sft"])) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_a_busy_backend_is_asked_again(workspace: Workspace, status: int) -> None:
    ran, server = run(workspace, "sft", [{"status": status, "json": {"detail": "later"}}, TAKEN])

    assert ran.code == 0, ran.err
    assert len(server.seen(CREATE["sft"])) == 2
