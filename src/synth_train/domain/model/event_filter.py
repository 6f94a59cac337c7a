"""Which events somebody wants to read."""

from __future__ import annotations

import re

from msgspec import Struct

from synth_train.domain.model.events import Event
from synth_train.domain.model.replies import time_in

LEVELS = ("info", "warning", "error")
"""From the least to the most alarming."""

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def since(text: str, now: float) -> float:
    """The time that `text` means, in seconds since 1970: `90s`, `10m`, `2h` or `1d` ago, an ISO time or such seconds.

    Raises:
        ValueError: it means none. The message fits behind the text.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return now - float(ago[1]) * _SECONDS[ago[2]]
    time = time_in(text)
    if time is None:
        raise ValueError("is neither a time ago (90s, 10m, 2h, 1d) nor an ISO time")
    return time


class EventFilter(Struct, frozen=True, kw_only=True):
    """What is not said does not count."""

    level: str = LEVELS[0]
    """This one, or a more alarming one."""
    since: float | None = None
    """Seconds since 1970."""
    search: str = ""
    """A part of the message or of the type, whatever its case."""

    def admits(self, event: Event) -> bool:
        """Whether the event is wanted. A level that is none of ours is alarming enough."""
        rank = LEVELS.index(event.level) if event.level in LEVELS else len(LEVELS)
        return (
            rank >= LEVELS.index(self.level)
            and (self.since is None or event.created_at >= self.since)
            and self.search.casefold() in f"{event.type} {event.message}".casefold()
        )
