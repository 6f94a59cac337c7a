"""B12: blank lines in the data file."""

from __future__ import annotations

import pytest

from cases.harness import DATA, KEYS, Ran, Workspace, uploaded
from cases.rows import check
from cases.scripted_server import ScriptedServer, sft

RECORDS = [line for line in (DATA / "B12/blanks.jsonl").read_bytes().splitlines(keepends=True) if line.strip()]


def train(workspace: Workspace, dataset: str, *args: str) -> tuple[Ran, bytes | None]:
    workspace.put("common/sft.toml")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train",
            "--config",
            "sft.toml",
            "--dataset",
            dataset,
            "--backend",
            server.base,
            "--no-poll",
            *args,
            env=KEYS,
        )
    if ran.code != 0:
        assert server.log == []
        return ran, None
    (upload,) = server.seen("POST /api/files")
    return ran, uploaded(upload).content


def test_blank_lines_are_no_records_and_the_last_one_counts_without_an_end(workspace: Workspace) -> None:
    workspace.put("B12/blanks.jsonl")
    ran, sent = train(workspace, "blanks.jsonl")

    assert ran.code == 0, ran.err
    assert "rows=3" in ran.out
    assert sent == (DATA / "B12/blanks.jsonl").read_bytes()


def test_examples_counts_records(workspace: Workspace) -> None:
    workspace.put("B12/blanks.jsonl")
    ran, sent = train(workspace, "blanks.jsonl", "--examples", "2")

    assert ran.code == 0, ran.err
    assert sent is not None
    assert [line for line in sent.splitlines(keepends=True) if line.strip()] == RECORDS[:2]


def test_more_examples_than_there_are_is_said(workspace: Workspace) -> None:
    workspace.put("B12/blanks.jsonl")
    ran, sent = train(workspace, "blanks.jsonl", "--examples", "10")

    assert ran.code == 0, ran.err
    assert sent is not None
    assert [line for line in sent.splitlines(keepends=True) if line.strip()] == RECORDS
    assert any("10" in line and "3" in line for line in ran.err.splitlines())


@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_a_number_of_examples_that_is_none_is_a_usage_error(workspace: Workspace, count: str) -> None:
    workspace.put("B12/blanks.jsonl")
    ran, sent = train(workspace, "blanks.jsonl", "--examples", count)

    assert ran.code == 2
    assert "--examples" in ran.err
    assert sent is None


def test_errors_give_the_line_of_the_editor(workspace: Workspace) -> None:
    assert set(check(workspace, "B12/blanks_bad.jsonl").errors) == {3}


@pytest.mark.parametrize("content", [(DATA / "B12/only_blank.jsonl").read_bytes(), b""], ids=["blank", "nothing"])
def test_a_file_without_records_is_refused(workspace: Workspace, content: bytes) -> None:
    workspace.write("empty.jsonl", content)
    ran, sent = train(workspace, "empty.jsonl")

    assert ran.code == 3
    assert "no examples" in ran.err
    assert sent is None
