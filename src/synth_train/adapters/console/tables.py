"""Rows as columns, and curves as a line of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

BLOCKS = "▁▂▃▄▅▆▇█"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def sparkline(values: Sequence[float], *, width: int) -> str:
    """Values as at most `width` blocks, from the lowest to the highest: each block is a mean of its stretch, and a gap
    where that has no number."""
    count = min(width, len(values))
    edges = [len(values) * at // count for at in range(count + 1)] if count else []
    means = [_mean([value for value in values[begin:end] if isfinite(value)]) for begin, end in pairwise(edges)]
    numbers = [mean for mean in means if mean is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    span = high - low
    return "".join(
        " " if mean is None else BLOCKS[round((len(BLOCKS) - 1) * (mean - low) / span) if span else 0] for mean in means
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
