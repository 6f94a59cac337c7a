"""Chance that can be foretold."""

from __future__ import annotations

from synth_train.ports.entropy import EntropyPort


class CountingEntropy(EntropyPort):
    """EntropyPort that counts: every token differs from all before, and a test can write it down."""

    def __init__(self) -> None:
        self._count = 0

    def token(self, size: int) -> str:
        self._count += 1
        return f"{self._count:0{2 * size}x}"
