"""B17: half of a surrogate pair in a string."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cases.harness import DATA, KEYS, SYNTH_KEY, Workspace, uploaded
from cases.rows import check
from cases.scripted_server import ScriptedServer, sft
from support.served import served

LINES = (DATA / "B17/surrogates.jsonl").read_bytes().splitlines(keepends=True)


def test_a_lone_surrogate_is_reported_with_its_place(workspace: Workspace) -> None:
    checked = check(workspace, "B17/surrogates.jsonl")

    reported = checked.errors | checked.warnings
    assert set(reported) == {2}
    assert reported[2][0].startswith("messages[0].content: ")


def test_raw_surrogate_bytes_are_not_utf8(workspace: Workspace) -> None:
    checked = check(workspace, "B17/raw_surrogate.jsonl")

    assert checked.ran.code == 3
    assert set(checked.errors) == {2}
    assert "UTF-8" in checked.errors[2][0]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_first_rows_go_out_unchanged_or_not_at_all(workspace: Workspace, count: int) -> None:
    workspace.put("common/sft.toml", "B17/surrogates.jsonl")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--dataset", "surrogates.jsonl", "--examples", str(count), "--backend",
            server.base, "--no-poll", env=KEYS,
        )  # fmt: skip

    if count == 1:
        assert ran.code == 0, ran.err
    if ran.code == 0:
        assert uploaded(server.seen("POST /api/files")[0]).content == b"".join(LINES[:count])
    else:
        assert ran.code == 3
        assert server.log == []


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_a_quoted_half_never_ends_in_a_crash(workspace: Workspace, encoding: str) -> None:
    row = b'{"messages":[{"role":"m\\udcb2","content":"x"},{"role":"assistant","content":"ok"}]}\n'
    workspace.write("role.jsonl", row)
    ran = workspace.run("data", "check", "role.jsonl", env={"PYTHONIOENCODING": encoding, "LC_ALL": "C"})

    assert ran.code == 3
    assert "role.jsonl:1: messages[0].role" in ran.both


@pytest.mark.parametrize("name", ["surrogates.jsonl", "raw_surrogate.jsonl"])
def test_the_backend_of_this_machine_keeps_such_a_file_as_it_came_and_says_what_is_wrong(
    tmp_path: Path, name: str
) -> None:
    content = (DATA / "B17" / name).read_bytes()
    form = {"files": {"file": (name, content)}, "data": {"purpose": "fine-tune"}}
    with served(tmp_path, env={"SYNTH_SERVE_TOKEN": SYNTH_KEY}) as server:
        reply = server.ask("POST", "/api/files", key=SYNTH_KEY, **form)
        assert reply.status_code == 201
        file = server.ask("GET", f"/api/files/{reply.json()['id']}", key=SYNTH_KEY).json()

    assert file["status"] == "rejected"
    assert file["status_details"].startswith(f"{name}:2: ")
    assert file["sha256"] == hashlib.sha256(content).hexdigest()
