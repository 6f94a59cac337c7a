"""Time. In memory: `adapters.in_memory.clock.ManualClock`."""

from __future__ import annotations

from typing import Protocol


class ClockPort(Protocol):
    """The only source of time. Seconds throughout."""

    def monotonic(self) -> float:
        """A clock that never goes back; only differences mean something."""
        ...

    def now(self) -> float:
        """Seconds since 1970, for timestamps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`; at once for zero or less."""
        ...
