"""What a backend tells of a job: what happened to it, and how its metrics went."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened to a job (wire-contract §4.2)."""

    seq: int
    """From 1, one more each time."""
    type: str
    """Lower-case, dotted."""
    message: str
    created_at: float
    """Seconds since 1970."""
    level: str = "info"
    """`info`, `warning` or `error`."""
    data: Mapping[str, object] = {}


class Point(Struct, frozen=True, kw_only=True):
    """The value of one metric at one step (wire-contract §4.3)."""

    name: str
    step: int
    """From 1; all metrics of a job share one axis."""
    value: float
    """nan where the training made no number; infinite only without a wire, which has no word for it."""
    created_at: float
    """Seconds since 1970."""
    phase: str | None = None
