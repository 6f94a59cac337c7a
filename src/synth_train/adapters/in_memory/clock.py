"""A clock that moves only when told to, or when somebody sleeps on it."""

from __future__ import annotations

from synth_train.ports.clock import ClockPort


class ManualClock(ClockPort):
    """ClockPort without time. Move it with `advance`; read `slept` to see who waited and for how long."""

    def __init__(self, *, now: float = 1_700_000_000.0) -> None:
        self.slept: list[float] = []
        self._monotonic = 0.0
        self._began = now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._monotonic += seconds

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> float:
        return self._began + self._monotonic

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            self.advance(seconds)
