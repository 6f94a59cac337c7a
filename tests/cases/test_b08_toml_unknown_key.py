"""B08: a misspelt config key is ignored.

The rule (docs, design §4): an unknown key within edit distance 2 of a known one that is absent is an error, any other
a warning; `--strict` makes all of them errors, `--allow-unknown` warnings.
"""

from __future__ import annotations

import re

import pytest

from cases.harness import KEYS, Workspace, lines_with
from cases.scripted_server import ScriptedServer, sft

TYPOS = {"hyperparameters.n_epoch": "n_epochs", "hyperparameters.learning_rte": "learning_rate", "hyperparametres": ""}


def assert_each_typo_is_reported_once(stderr: str) -> None:
    for path, known in TYPOS.items():
        (line,) = [line for line in stderr.splitlines() if re.search(rf"\b{re.escape(path)}(?![\w.])", line)]
        assert known in line
        assert re.search(r"typo\.toml:\d+: ", line)


@pytest.mark.parametrize("extra", [[], ["--dry-run"], ["--strict"]], ids=["run", "dry-run", "strict"])
def test_typos_are_reported_before_anything_is_sent(workspace: Workspace, extra: list[str]) -> None:
    workspace.put("B08/typo.toml", "common/train.jsonl")
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "typo.toml", "--backend", server.base, *extra, env=KEYS)

    assert ran.code == 3
    assert_each_typo_is_reported_once(ran.err)
    assert not re.search(r"\bvalid\b|\bOK\b", ran.both)
    assert ran.out == ""
    assert server.log == []


def test_config_check_reports_the_same(workspace: Workspace) -> None:
    workspace.put("B08/typo.toml", "common/train.jsonl")
    ran = workspace.run("config", "check", "typo.toml")

    assert ran.code == 3
    assert_each_typo_is_reported_once(ran.both)
    assert not re.search(r"\bvalid\b|\bOK\b", ran.both)


def test_allowed_unknown_keys_are_warnings_and_the_job_runs(workspace: Workspace) -> None:
    workspace.put("B08/typo.toml", "common/train.jsonl")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "typo.toml", "--backend", server.base, "--allow-unknown", "--no-poll", env=KEYS
        )

    assert ran.code == 0, ran.err
    assert_each_typo_is_reported_once(ran.err)
    assert len(lines_with(ran.err.lower(), "warning")) >= len(TYPOS)


def test_free_tables_are_not_searched(workspace: Workspace) -> None:
    workspace.put("B08/free.toml", "common/train.jsonl")
    ran = workspace.run("train", "--config", "free.toml", "--dry-run", "--strict")

    assert ran.code == 0, ran.err
    assert "metadata" not in ran.err
    assert "owner_note" not in ran.err
