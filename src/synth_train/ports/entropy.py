"""Randomness for keys and ids. In memory: `adapters.in_memory.entropy.CountingEntropy`."""

from __future__ import annotations

from typing import Protocol


class EntropyPort(Protocol):
    """The only source of chance."""

    def token(self, size: int) -> str:
        """`size` random bytes, fit for keys, as `2 * size` lower-case hex digits."""
        ...
