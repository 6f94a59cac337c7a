"""Processes without a home directory, as for a bare user number in a container, and without a place to stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import ROW, SFT, python
from synth_train.adapters.user_paths import expanded

WITHOUT_A_HOME = """\
import os, pwd, sys

def nobody(_):
    raise KeyError

pwd.getpwuid = pwd.getpwnam = nobody
for name in ("HOME", "SYNTH_AI_HOME"):
    os.environ.pop(name, None)
os.environ |= {"SYNTH_API_KEY": "sk-abcdefghijkl", "BACKEND_BASE_URL": "http://127.0.0.1:9"}
from synth_train.__main__ import main
sys.stderr = sys.stdout
print(int(main(sys.argv[1:])))
"""

IN_A_FOLDER_THAT_IS_GONE = """\
import os, sys
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
from synth_train.__main__ import main
sys.stderr = sys.stdout
print(int(main(sys.argv[1:])))
"""

pytest.importorskip("pwd", reason="homes of users are POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sft.toml").write_text(SFT)
    (tmp_path / "train.jsonl").write_text(ROW)
    return tmp_path


@pytest.mark.parametrize(
    "argv",
    [
        ["train", "--config", "sft.toml", "--dry-run"],
        ["train", "--dry-run"],
        ["config", "check", "sft.toml"],
        ["data", "check", "train.jsonl"],
    ],
    ids=" ".join,
)
def test_what_keeps_nothing_needs_no_home(folder: Path, argv: list[str]) -> None:
    said = python(WITHOUT_A_HOME, *argv, cwd=folder).stdout.splitlines()

    assert said[-1] == ("2" if argv == ["train", "--dry-run"] else "0")
    assert not [line for line in said if "bug" in line]
    assert not list(folder.glob("~*"))


@pytest.mark.parametrize(
    "argv",
    [
        ["train", "--config", "sft.toml", "--backend", "local"],
        ["jobs", "list", "--backend", "local"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_what_keeps_something_says_how_to_name_a_place_for_it(folder: Path, argv: list[str]) -> None:
    *_, error, hint, code = python(WITHOUT_A_HOME, *argv, cwd=folder).stdout.splitlines()

    assert error == "error: there is no place for our own files: no home directory is known for ~"
    assert hint == "  Set SYNTH_AI_HOME, or HOME, to a directory that can be written to."
    assert code == "2"
    assert not list(folder.glob("~*"))


def test_a_folder_that_is_gone_is_said(folder: Path) -> None:
    said = python(IN_A_FOLDER_THAT_IS_GONE, "train", "--dry-run", "--output", "json", cwd=folder).stdout.splitlines()

    assert "the working directory is gone, or closed to us" in json.loads(said[0])["error"]["message"]
    assert said[-1] == "2"


def test_the_home_of_nobody_is_left_as_it_was_written() -> None:
    assert expanded("~no-such-user/models") == Path("~no-such-user/models")
