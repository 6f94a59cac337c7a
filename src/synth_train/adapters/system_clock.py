"""Time as this machine keeps it."""

from __future__ import annotations

import time

from synth_train.ports.clock import ClockPort


class SystemClock(ClockPort):
    """ClockPort over `time`."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)
