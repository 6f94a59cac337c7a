"""B15: messages in an order that cannot be trained on, and an error without a line."""

from __future__ import annotations

import re

from cases.harness import DATA, Workspace
from cases.rows import check, read_report


def test_each_bad_order_is_an_error_with_its_line(workspace: Workspace) -> None:
    checked = check(workspace, "B15/order.jsonl")

    assert checked.ran.code == 3
    assert set(checked.errors) - {5} == {2, 3, 4, 6, 7, 8, 9}
    assert 5 in checked.errors or 5 in checked.warnings
    assert checked.in_order == sorted(checked.in_order)
    for line in (2, 3, 4, 6, 8, 9):
        assert all(path.startswith("messages") for path in checked.paths[line])


def test_the_first_twenty_are_shown_and_the_rest_counted(workspace: Workspace) -> None:
    good, bad = (DATA / "B15/order.jsonl").read_bytes().splitlines()[:2]
    workspace.write("many.jsonl", b"\n".join([good, *[bad] * 33]))
    ran = workspace.run("data", "check", "many.jsonl")

    assert ran.code == 3
    assert list(read_report(ran, "many.jsonl").errors) == list(range(2, 22))
    assert re.search(r"\b(13|33)\b", ran.both), "the number of those not shown, or of all"
