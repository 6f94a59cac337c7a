"""Rows as columns, and curves as blocks."""

from __future__ import annotations

from math import inf, nan

import pytest

from synth_train.adapters.console.tables import sparkline, table


def test_columns_are_as_wide_as_their_widest_cells() -> None:
    assert table([("A", "LONG", "X"), ("aaa", "b", "")]) == ["A    LONG  X", "aaa  b"]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([3.0], "▁"),
        ([2.0, 2.0], "▁▁"),
        ([0.0, 1.0, 2.0], "▁▅█"),
        ([0.0, 0.0, 1.0, 1.0, 2.0, 2.0], "▁▅█"),
        ([float(at) for at in range(99)], "▁▅█"),
        ([0.0, nan, 2.0], "▁ █"),
        ([0.0, nan, nan, inf, 2.0, nan], "▁ █"),
        ([nan], " "),
    ],
)
def test_a_curve_is_drawn_from_its_lowest_to_its_highest_value(values: list[float], line: str) -> None:
    assert sparkline(values, width=3) == line
