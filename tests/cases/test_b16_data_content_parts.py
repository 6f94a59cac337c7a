"""B16: content given as a list of parts."""

from __future__ import annotations

from cases.harness import Workspace
from cases.rows import check


def test_parts_are_checked_one_by_one(workspace: Workspace) -> None:
    checked = check(workspace, "B16/parts.jsonl")

    assert checked.ran.code == 3
    assert checked.paths == {
        3: {"messages[0].content[1].image_url"},
        4: {"messages[0].content[0].type"},
        5: {"messages[0].content[0]"},
        6: {"messages[0].content[0].text"},
        7: {"messages[0].content"},
    }
