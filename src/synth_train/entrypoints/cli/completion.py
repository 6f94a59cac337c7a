"""`synth-ai completion`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import shtab

from synth_train.entrypoints.cli.parser import build_parser
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_PATHS = {"FILE": shtab.FILE, "FOLDER": shtab.DIRECTORY}
"""What is completed in the place of an argument that is shown so."""


def run(session: Session) -> int:
    """Print the completion script of one shell."""
    parser = build_parser()
    for action in _actions(parser):
        if action.metavar in _PATHS:
            action.complete = _PATHS[action.metavar]  # type: ignore[attr-defined]
    session.screen.data(shtab.complete(parser, session.args.shell).encode())
    return ExitCode.OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All options of a command and of those below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
