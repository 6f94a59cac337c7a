"""B10: a data file with a mark, in UTF-16, or compressed."""

from __future__ import annotations

import hashlib

import pytest

from cases.harness import DATA, KEYS, Workspace, uploaded
from cases.scripted_server import ScriptedServer, sft


def test_a_mark_is_left_out_of_the_upload_and_nothing_else(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "B10/bom.jsonl")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--dataset", "bom.jsonl", "--backend", server.base, "--no-poll", env=KEYS
        )

    assert ran.code == 0, ran.err
    assert "rows=2" in ran.out
    (upload,) = server.seen("POST /api/files")
    expected = hashlib.sha256((DATA / "B10/bom.jsonl").read_bytes()[3:]).hexdigest()
    assert hashlib.sha256(uploaded(upload).content).hexdigest() == expected


def test_the_first_rows_of_a_file_with_a_mark_come_without_it(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "B10/bom.jsonl")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--dataset", "bom.jsonl", "--examples", "1", "--backend", server.base,
            "--no-poll", env=KEYS,
        )  # fmt: skip

    assert ran.code == 0, ran.err
    (upload,) = server.seen("POST /api/files")
    assert uploaded(upload).content == (DATA / "B10/bom.jsonl").read_bytes()[3:].splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("utf16le.jsonl", ["utf16le.jsonl", "UTF-16"]),
        ("utf16be.jsonl", ["utf16be.jsonl", "UTF-16"]),
        ("gzipped.jsonl", ["gzipped.jsonl", "gzip"]),
        ("latin1.jsonl", ["latin1.jsonl:2", "UTF-8"]),
    ],
)
def test_what_is_not_utf8_text_is_named_and_not_uploaded(workspace: Workspace, name: str, said: list[str]) -> None:
    workspace.put("common/sft.toml", f"B10/{name}")
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--dataset", name, "--backend", server.base, env=KEYS)

    assert ran.code == 3
    for words in said:
        assert words in ran.err
    assert server.log == []


def test_windows_line_ends_are_fine(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "B10/crlf.jsonl")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--dataset", "crlf.jsonl", "--backend", server.base, "--no-poll", env=KEYS
        )

    assert ran.code == 0, ran.err
    assert "rows=2" in ran.out
    (upload,) = server.seen("POST /api/files")
    assert uploaded(upload).content == (DATA / "B10/crlf.jsonl").read_bytes()


def test_an_env_file_in_utf16_is_refused_by_name(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "common/train.jsonl")
    workspace.put_env("B10/dot-env-utf16.txt", to="keys.env")
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--env-file", "keys.env", "--backend", server.base)

    assert ran.code not in (0, 1)
    assert "keys.env" in ran.err
    assert "UTF-16" in ran.err
    assert server.log == []
