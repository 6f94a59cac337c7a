"""`synth-ai`: from argv to an exit code. What a command does stands in the module of its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from synth_train.adapters.console.screen import OutputClosed, Screen
from synth_train.entrypoints.cli.parser import Answered, parse, wants_json
from synth_train.entrypoints.cli.report import Report
from synth_train.entrypoints.cli.signals import Interrupted, Signals
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Build

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, build: Build | None = None) -> int:
    """Run one command and return its exit code. Nothing is raised.

    Args:
        argv: the words after the program's name; None takes those of this process.
        build: gives the app, told of progress through its argument; None takes the real adapters, tests give others.
    """
    argv = sys.argv[1:] if argv is None else argv
    screen = Screen(sys.stdout, sys.stderr, environ=os.environ)
    report = Report(screen, as_json=wants_json(argv))
    try:
        with Signals() as signals:
            return _run(argv, screen, report, build, signals)
    except OutputClosed as closed:
        return report.output_lost(closed.trouble)
    finally:
        screen.close()


def _run(argv: Sequence[str], screen: Screen, report: Report, build: Build | None, signals: Signals) -> int:
    try:
        args = parse(argv)
        report.verbose = args.verbose
        # The rest is loaded only now: `--help` must not wait for it.
        with signals.held():
            from synth_train.entrypoints.cli.session import Session, command

            run = command(args)
            session = Session(args, screen, report, build)
        return run(session)
    except Answered as answered:
        screen.data(answered.text.encode())
        return ExitCode.OK
    except Interrupted as stop:
        return report.interruption(stop.exit_code)
    except OutputClosed:
        raise
    except Exception as error:  # noqa: BLE001 - here every error becomes words and a number
        return report.failure(error)
