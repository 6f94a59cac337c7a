"""What every command works with: its options, the two streams, and the app, told of progress in the form asked for."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from synth_train.adapters.console.events import Events
from synth_train.adapters.console.transcript import Transcript
from synth_train.domain.model.moments import ConfigFailed, Moment, WatchFailed
from synth_train.entrypoints.cli.report import Report
from synth_train.entrypoints.cli.standing import Standing
from synth_train.entrypoints.wiring import App, build_app
from synth_train.ports.progress import ProgressPort

if TYPE_CHECKING:
    from synth_train.adapters.console.screen import Screen

Build = Callable[[ProgressPort], App]


class Session:
    """One run of one command."""

    def __init__(self, args: Namespace, screen: Screen, report: Report, build: Build | None) -> None:
        self.args = args
        self.screen = screen
        self.report = report
        self._events = _events(args, screen)
        report.command = _name(args)
        if self._events is not None:
            report.warnings = self._events.warnings
        shown = _Announcing(self._events or _shown(args, screen), report)
        report.standing = self.progress = Standing(shown, creates=args.command == "train")
        self.app = (build or build_app)(self.progress)
        report.secrets = lambda: self.app.secrets(self.progress.env_files)

    @property
    def as_json(self) -> bool:
        """Whether a program reads what we write."""
        return self._events is not None

    def document(self, code: int, **fields: object) -> None:
        """Write the one JSON document of this run on stdout."""
        self.report.document(code, **fields)


def _events(args: Namespace, screen: Screen) -> Events | None:
    """What tells a program, if one reads."""
    if args.output != "json":
        return None
    if _name(args) != "jobs watch":
        return Events(screen)
    from synth_train.adapters.console.ndjson import Ndjson

    return Ndjson(screen)


def _shown(args: Namespace, screen: Screen) -> ProgressPort:
    """What tells a person."""
    transcript = Transcript(screen, monotonic=time.monotonic, aside=_is_data(args))
    if getattr(args, "stream_format", "") != "chart" or not screen.can_draw:
        return transcript
    from synth_train.adapters.console.panel import Panel

    return Panel(transcript, screen, monotonic=time.monotonic)


def _is_data(args: Namespace) -> bool:
    """Whether stdout is for a program although no JSON was asked for."""
    return getattr(args, "dry_run", False) or getattr(args, "csv", False)


class _Announcing(ProgressPort):
    """Reports what is wrong with one of several configs or jobs as soon as it is known, and hands all else on."""

    def __init__(self, inner: ProgressPort, report: Report) -> None:
        self._inner = inner
        self._report = report

    def tell(self, moment: Moment) -> None:
        if isinstance(moment, ConfigFailed):
            self._report.error(moment.error, config=moment.config)
        elif isinstance(moment, WatchFailed):
            self._report.error(moment.error)
        else:
            self._inner.tell(moment)


def command(args: Namespace) -> Callable[[Session], int]:
    """The function that runs a command: `run` in the module of its name, such as `train` or `config_check`."""
    module = import_module(f"synth_train.entrypoints.cli.{_name(args).replace(' ', '_').replace('-', '_')}")
    return cast("Callable[[Session], int]", module.run)


def _name(args: Namespace) -> str:
    return f"{args.command} {args.action}" if "action" in args else str(args.command)
