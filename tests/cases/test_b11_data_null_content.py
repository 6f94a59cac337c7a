"""B11: an assistant message that only calls a tool has no text."""

from __future__ import annotations

from cases.harness import Workspace
from cases.rows import check


def test_a_call_needs_no_text(workspace: Workspace) -> None:
    checked = check(workspace, "B11/ok.jsonl")

    assert checked.ran.code == 0, checked.ran.both
    assert checked.errors == {}


def test_every_other_message_does(workspace: Workspace) -> None:
    checked = check(workspace, "B11/bad.jsonl")

    assert checked.paths == {
        1: {"messages[1].content"},
        2: {"messages[0].content"},
        3: {"messages[1].content"},
        4: {"messages[2].content"},
    }
    assert sum(map(len, checked.errors.values())) == 4
