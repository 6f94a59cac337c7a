"""How far something long has come: a bar where the cursor can be moved, a line at every tenth where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from synth_train.adapters.console.words import size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from synth_train.adapters.console.screen import Screen

QUIET_FOR = 0.5
"""Seconds that something may take before its progress is shown at all."""
REFRESH = 0.1
"""Seconds between two drawings of a bar."""


class Meter(Protocol):
    """Shows one thing at a time."""

    def show(self, what: str, done: int, total: int) -> None:
        """`done` of `total` bytes; the same `what` again moves on, another one begins anew."""
        ...


class LineMeter(Meter):
    """One line each time another tenth is complete."""

    def __init__(self, screen: Screen, monotonic: Callable[[], float]) -> None:
        self._screen = screen
        self._monotonic = monotonic
        self._what = ""
        self._begun = 0.0
        self._done = 0
        self._tenth = 0

    def show(self, what: str, done: int, total: int) -> None:
        if what != self._what or done < self._done:
            self._what, self._begun, self._tenth = what, self._monotonic(), 0
        self._done = done
        tenth = 10 * done // total if total else 10
        if tenth > self._tenth and self._monotonic() - self._begun >= QUIET_FOR:
            self._tenth = tenth
            self._screen.err(f"{what}: {10 * tenth} % ({size(done)} of {size(total)})")


class BarMeter(Meter):
    """A bar drawn by rich, which is loaded when the first bar is due. Any line written takes the bar away."""

    def __init__(self, screen: Screen, monotonic: Callable[[], float]) -> None:
        self._screen = screen
        self._monotonic = monotonic
        self._what = ""
        self._begun = 0.0
        self._drawn = 0.0
        self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def show(self, what: str, done: int, total: int) -> None:
        now = self._monotonic()
        if what != self._what or done < self._done:
            self.stop()
            self._what, self._begun, self._drawn = what, now, now
        self._done = done
        if now - self._begun < QUIET_FOR or (now - self._drawn < REFRESH and done < total):
            return
        self._drawn = now
        if self._bar is None:
            self._begin(what)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, refresh=True)

    def stop(self) -> None:
        """Take the bar away."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def _begin(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        stream = self._screen.err_stream
        if stream is None:
            return
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream, color_system="auto" if self._screen.colour else None),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bar.start()
        self._task = self._bar.add_task(what, total=None)
        self._screen.overlay(self)
