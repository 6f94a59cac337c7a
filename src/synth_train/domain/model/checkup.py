"""What a check has found, point by point, and what to do about it."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Outcome(str, Enum):
    """What became of one point."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Finding(Struct, frozen=True, kw_only=True):
    """One point, and whether it is as it should be."""

    rule: str
    """Its name: words with hyphens."""
    outcome: Outcome
    what: str = ""
    """What was found; empty when all is well and there is nothing to say."""
    remedy: str = ""
