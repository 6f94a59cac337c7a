"""B05: a line of .env that cannot be read is dropped."""

from __future__ import annotations

import re

import pytest

from cases.harness import DATA, Workspace
from cases.scripted_server import ScriptedServer, rl
from synth_train.adapters.dotenv_env import DotenvEnv


def test_unreadable_lines_are_named_and_never_shown(workspace: Workspace) -> None:
    workspace.put("common/rl.toml")
    workspace.put_env("B05/dot-env.txt", to="keys.env")
    with ScriptedServer(rl()) as server:
        ran = workspace.run(
            "train",
            "--config",
            "rl.toml",
            "--env-file",
            "keys.env",
            "--backend",
            server.base,
            "--task-url",
            server.origin,
        )

    assert ran.code == 4
    assert "keys.env:2" in ran.err
    assert "keys.env:3" in ran.err
    assert "keys.env:4" not in ran.err
    (missing,) = [line for line in ran.err.splitlines() if "SYNTH_API_KEY not found" in line]
    assert re.search(r"lines 2 and 3 of \S*keys\.env could not be read", missing)
    assert "fake-" not in ran.both
    assert server.log == []


def test_an_open_quote_does_not_swallow_the_next_line() -> None:
    read = DotenvEnv().read(DATA / "B05/dot-env.txt")

    assert read.values["TASK_APP_URL"] == "http://127.0.0.1:9901"
    assert read.unreadable_lines == (2, 3)


@pytest.mark.parametrize("content", ["A=1\n\n", "# note\nA=1\n", "A=1", "A=1\n  \t\n  # note"])
def test_blanks_comments_and_a_last_line_without_an_end_are_not_bad(workspace: Workspace, content: str) -> None:
    read = DotenvEnv().read(workspace.write(".env", content))

    assert read.values == {"A": "1"}
    assert read.unreadable_lines == ()
