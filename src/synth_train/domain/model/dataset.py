"""Chat datasets as a whole: which bytes they are, and what one pass over them found.

What a single row must be is in `dataset_rules`; the quick way to see that it is so, in `dataset_fast`.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.places import Problem


class Stamp(Struct, frozen=True):
    """What a file looked like at one moment, to notice that it has changed since."""

    size: int
    """Bytes."""
    modified: int
    """Time of the last change, in nanoseconds."""


class Part(Struct, frozen=True):
    """A stretch of a file: the bytes from `start` up to `stop`."""

    path: Path
    start: int
    stop: int
    stamp: Stamp | None = None
    """The file when these bytes were looked at; None when a change since then does not matter."""

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
    """Messages by role, known roles only."""
    longest_row: int
    """Bytes of the longest row, its line end not counted."""
    longest_line: int
    """Where that row stands: a physical line, counted from 1."""
    problems: tuple[Problem, ...] = ()
    """The first 20 errors and the first 20 warnings, in the order of the file."""
    errors: int = 0
    warnings: int = 0
    by_reason: dict[str, int] = {}
    """How often each kind of problem was found, the shown ones included."""
