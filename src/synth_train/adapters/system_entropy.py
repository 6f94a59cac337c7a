"""Chance from the operating system."""

from __future__ import annotations

import os

from synth_train.ports.entropy import EntropyPort


class SystemEntropy(EntropyPort):
    """EntropyPort over `os.urandom`."""

    def token(self, size: int) -> str:
        return os.urandom(size).hex()
