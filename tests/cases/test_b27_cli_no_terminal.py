"""B27: a question is asked where nobody can answer."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cases.harness import KEYS, Ran, Workspace
from cases.scripted_server import ScriptedServer, sft
from cases.terminals import on_terminal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")

AT_ONCE = 5.0
PIPED = b"y\ny\n1\n"


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    """Two configs and two env files, so that there is something to choose, and no keys."""
    sft_config, rl_config = workspace.put("common/sft.toml"), workspace.put("common/rl.toml")
    sft_config.rename(workspace.cwd / "a.toml")
    rl_config.rename(workspace.cwd / "b.toml")
    workspace.put("common/train.jsonl")
    workspace.write("one/.env", "OTHER=1\n")
    workspace.write("two/.env", "OTHER=2\n")
    return workspace


@contextmanager
def pipe_holding(content: bytes) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """A pipe to read from, which stays open, and a way to see what is left in it."""
    read, write = os.pipe()
    os.write(write, content)

    def left() -> bytes:
        os.set_blocking(read, False)
        try:
            return os.read(read, 100)
        except BlockingIOError:
            return b""

    try:
        yield read, left
    finally:
        os.close(read)
        os.close(write)


def with_nothing(workspace: Workspace, *args: str) -> Ran:
    return workspace.run(*args)


def with_silence(workspace: Workspace, *args: str) -> Ran:
    with pipe_holding(b"") as (stdin, _):
        return workspace.start(*args, stdin=stdin).end()


def with_piped_lines(workspace: Workspace, *args: str) -> Ran:
    with pipe_holding(PIPED) as (stdin, left):
        ran = workspace.start(*args, stdin=stdin).end()
        assert left() == PIPED, "the piped lines were read"
    return ran


def with_terminal_in_and_pipe_out(workspace: Workspace, *args: str) -> Ran:
    ours, theirs = pty.openpty()
    try:
        return workspace.start(*args, stdin=theirs).end()
    finally:
        os.close(ours)
        os.close(theirs)


def on_terminal_in_ci(workspace: Workspace, *args: str) -> Ran:
    return on_terminal(workspace, *args, env={"CI": "true"}, within=20)


WAYS = [with_nothing, with_silence, with_piped_lines, with_terminal_in_and_pipe_out, on_terminal_in_ci]
ways = pytest.mark.parametrize("way", WAYS)


@ways
def test_a_choice_of_configs_is_not_asked_for(project: Workspace, way: Callable[..., Ran]) -> None:
    ran = way(project, "train")

    assert ran.code == 2
    assert ran.seconds < AT_ONCE
    assert "--config" in ran.both


@ways
def test_a_missing_key_is_not_asked_for(project: Workspace, way: Callable[..., Ran]) -> None:
    with ScriptedServer(sft()) as server:
        ran = way(project, "train", "--config", "a.toml", "--backend", server.base)

    assert ran.code in (2, 4)
    assert ran.seconds < AT_ONCE
    assert "SYNTH_API_KEY" in ran.both
    assert "--env-file" in ran.both
    assert server.log == []


@ways
def test_with_everything_given_nothing_is_asked_and_nothing_is_read(
    project: Workspace, way: Callable[..., Ran]
) -> None:
    project.env.update(KEYS)
    with ScriptedServer(sft()) as server:
        ran = way(project, "train", "--config", "a.toml", "--backend", server.base, "--no-poll")

    assert ran.code == 0, ran.both
    assert ran.seconds < AT_ONCE
    assert len(server.seen("POST /api/learning/jobs")) == 1
