"""B30: an option that does not exist is taken for another."""

from __future__ import annotations

import pytest

from cases.harness import Workspace
from cases.scripted_server import ScriptedServer, sft


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (["--idem", "K"], "--idempotency"),
        (["--example", "5"], "--examples"),
        (["--poll-t", "5"], "--poll-timeout"),
        (["--no-pol"], "--no-poll"),
        (["--dat", "train.jsonl"], "--dataset"),
        (["--env", ".env"], "--env-file"),
        (["--confi", "sft.toml"], "--config"),
        (["--config"], "--config"),
        (["extra"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_option_is_a_usage_error(workspace: Workspace, typed: list[str], near: str | None) -> None:
    workspace.sft()
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config=sft.toml", "--backend", server.base, "--no-poll", *typed)

    assert ran.code == 2
    assert typed[0] in ran.err
    if near:
        assert near in ran.err.replace("usage:", "", 1)
        (said,) = [line for line in ran.err.splitlines() if "error:" in line or "did you mean" in line.lower()][:1]
        assert typed[0] in said
    assert server.log == []


def test_both_ways_to_give_a_value_are_the_same(workspace: Workspace) -> None:
    workspace.sft()
    apart = workspace.run("train", "--config", "sft.toml", "--dry-run")
    together = workspace.run("train", "--config=sft.toml", "--dry-run")

    assert (apart.code, together.code) == (0, 0)
    assert apart.stdout == together.stdout


@pytest.mark.parametrize("option", ["--poll-timeout", "--poll-interval"])
@pytest.mark.parametrize("value", ["abc", "nan", "-1", "inf", ""])
def test_what_is_no_duration_is_a_usage_error(workspace: Workspace, option: str, value: str) -> None:
    workspace.sft()
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, option, value)

    assert ran.code == 2
    assert option in ran.err
    assert server.log == []
