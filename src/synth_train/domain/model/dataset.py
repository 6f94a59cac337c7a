"""Chat datasets: what a row must be, and what a whole file was found to hold."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.places import Problem


class Part(Struct, frozen=True):
    """A stretch of a file: the bytes from `start` up to `stop`."""

    path: Path
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.start


class DatasetReport(Struct, frozen=True, kw_only=True):
    """What one pass over a dataset found."""

    part: Part
    """What would be uploaded: the file without a byte-order mark, or its first `examples` rows."""
    rows: int
    turns: int
    """Messages of all rows together."""
    roles: dict[str, int]
    """Messages by role."""
    longest_row: int
    """Bytes of the longest line."""
    longest_line: int
    """Where that line stands."""
    problems: tuple[Problem, ...] = ()
    """The first ones, errors and warnings, in the order of the file."""
    errors: int = 0
    warnings: int = 0
    by_reason: dict[str, int] = {}
    """How often each kind of problem was found, the shown ones included."""
