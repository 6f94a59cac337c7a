"""Ctrl-C and SIGTERM, as one exception that knows which it was."""

from __future__ import annotations

import os
import signal
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """The user, or the system, wants us to end. `exit_code` is 128 and the signal's number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.exit_code = 128 + signum


class Signals:
    """While entered, the first SIGINT or SIGTERM raises `Interrupted` in the main thread. A second one means that
    even the last words take too long: it ends the process on the spot, and so it does until the process is over.

    A signal that the parent has switched off (`nohup`, a job in the background) stays off.
    """

    def __init__(self) -> None:
        self._before: dict[int, object] = {}
        self._interrupted = False

    def __enter__(self) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._first)

    def __exit__(self, *_: object) -> None:
        if not self._interrupted:
            for signum, handler in self._before.items():
                signal.signal(signum, handler)  # type: ignore[arg-type]

    def _first(self, signum: int, _: FrameType | None) -> None:
        self._interrupted = True
        for other in self._before:
            signal.signal(other, self._second)
        raise Interrupted(signum)

    def _second(self, signum: int, _: FrameType | None) -> None:  # pragma: no cover - ends the process that measures
        os._exit(128 + signum)
