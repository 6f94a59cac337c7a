"""Rows as columns, and curves as a line of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def sparkline(values: Sequence[float], *, width: int) -> str:
    """Finite values as at most `width` blocks, from the lowest to the highest; each block is a mean of its stretch."""
    count = min(width, len(values))
    edges = [len(values) * at // count for at in range(count + 1)] if count else []
    means = [sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges)]
    if not means:
        return ""
    low, high = min(means), max(means)
    span = high - low
    return "".join(BLOCKS[round((len(BLOCKS) - 1) * (mean - low) / span) if span else 0] for mean in means)
