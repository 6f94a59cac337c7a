"""B09: a relative path in the config is looked up from the wrong directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cases.harness import DATA, KEYS, Ran, Workspace, uploaded
from cases.scripted_server import ScriptedServer, sft


@pytest.fixture
def tree(workspace: Workspace) -> Path:
    return shutil.copytree(DATA / "B09/tree", workspace.cwd / "tree")


def train(workspace: Workspace, cwd: Path, *args: str) -> tuple[Ran, bytes | None]:
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", *args, "--backend", server.base, "--no-poll", cwd=cwd, env=KEYS)
    uploads = server.seen("POST /api/files")
    if not uploads:
        assert server.log == []
        return ran, None
    (upload,) = uploads
    return ran, uploaded(upload).content


@pytest.mark.parametrize(
    ("directory", "args", "taken"),
    [
        ("proj", ["--config", "configs/sft.toml"], "proj/data/train.jsonl"),
        ("proj/configs", ["--config", "sft.toml"], "proj/data/train.jsonl"),
        ("/", ["--config", "{tree}/proj/configs/sft.toml"], "proj/data/train.jsonl"),
        ("proj", ["--config", "configs/sft.toml", "--dataset", "../data/train.jsonl"], "data/train.jsonl"),
    ],
    ids=["a-beside-decoy", "b-beside-config", "c-from-root", "d-command-line"],
)
def test_a_path_is_taken_from_where_it_is_written(
    workspace: Workspace, tree: Path, directory: str, args: list[str], taken: str
) -> None:
    ran, sent = train(workspace, tree / directory, *(arg.format(tree=tree) for arg in args))

    assert ran.code == 0, ran.err
    assert sent == (DATA / "B09/tree" / taken).read_bytes()
    assert str(tree / taken) in ran.both


def test_a_doubtful_path_is_made_visible_with_both_files(workspace: Workspace, tree: Path) -> None:
    ran, _ = train(workspace, tree / "proj", "--config", "configs/sft.toml")

    assert any(
        str(tree / "proj/data/train.jsonl") in line and str(tree / "data/train.jsonl") in line
        for line in ran.both.splitlines()
    )


def test_a_path_that_only_fits_the_working_directory_is_used_and_said(workspace: Workspace, tree: Path) -> None:
    real = tree / "proj/data/train.jsonl"
    real.unlink()
    ran, sent = train(workspace, tree / "proj", "--config", "configs/sft.toml")

    assert ran.code == 0, ran.err
    assert sent == (tree / "data/train.jsonl").read_bytes()
    assert str(tree / "data/train.jsonl") in ran.both


def test_a_home_directory_is_expanded(workspace: Workspace, tree: Path) -> None:
    config = tree / "proj/configs/sft.toml"
    config.write_text(config.read_text().replace("../data/train.jsonl", "~/mine.jsonl"))
    shutil.copyfile(DATA / "common/train.jsonl", workspace.home / "mine.jsonl")
    ran, sent = train(workspace, tree, "--config", "proj/configs/sft.toml")

    assert ran.code == 0, ran.err
    assert sent == (DATA / "common/train.jsonl").read_bytes()
    assert str(workspace.home / "mine.jsonl") in ran.both


def test_a_missing_file_is_refused_with_both_places_tried(workspace: Workspace, tree: Path) -> None:
    (tree / "proj/data/train.jsonl").unlink()
    (tree / "data/train.jsonl").unlink()
    ran, sent = train(workspace, tree / "proj", "--config", "configs/sft.toml")

    assert ran.code == 3
    assert str(tree / "proj/data/train.jsonl") in ran.err
    assert str(tree / "data/train.jsonl") in ran.err
    assert sent is None
