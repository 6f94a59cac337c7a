"""Ctrl-C and SIGTERM, as one exception that knows which it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """The user, or the system, wants us to end. `exit_code` is 128 and the signal's number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 128 + signum


class Signals:
    """While entered, the first SIGINT or SIGTERM raises `Interrupted` in the main thread. A second one means that even
    the last words take too long: it ends the process on the spot.

    A signal that the parent has switched off (`nohup`, a job in the background) stays off.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._interrupted = False
        self._holding = False
        self._held: int | None = None

    def __enter__(self) -> Signals:
        for signum in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._first)
        return self

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a signal back until the end, while modules are loaded: an exception in the midst of a C extension's
        own imports comes out of it as some other error, or as a crash."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._held is not None:
            raise Interrupted(self._held)

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            # After an interruption the process is about to end with its own code; the interpreter, on its way out,
            # would let a second signal kill it, but leaves one alone that is ignored.
            signal.signal(signum, signal.SIG_IGN if self._interrupted else handler)

    def _first(self, signum: int, _: FrameType | None) -> None:
        self._interrupted = True
        for other in self._before:
            signal.signal(other, self._second)
        if self._holding:
            self._held = signum
        else:
            raise Interrupted(signum)

    def _second(self, signum: int, _: FrameType | None) -> None:  # pragma: no cover - ends the process that measures
        os._exit(128 + signum)
