"""Bytes that are read once, from the first to the last."""

from __future__ import annotations

from typing import Protocol


class Readable(Protocol):
    """An open stream. Whoever opened it closes it."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, empty at the end; all that is left for a negative size."""
        ...

    def close(self) -> None:
        """Let go of what it reads from."""
        ...
