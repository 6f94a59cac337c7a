"""B13: tool arguments that are not a JSON text."""

from __future__ import annotations

from cases.harness import Workspace
from cases.rows import check


def test_arguments_must_be_the_json_of_an_object(workspace: Workspace) -> None:
    checked = check(workspace, "B13/args.jsonl")

    assert checked.ran.code == 3
    arguments = "messages[1].tool_calls[0].function.arguments"
    assert {line: checked.paths[line] for line in (3, 4, 5, 6)} == {
        3: {arguments},
        4: {arguments},
        5: {arguments},
        6: {"messages[1].tool_calls[0].function.name"},
    }
    assert set(checked.errors) <= {3, 4, 5, 6, 7, 8}
    assert set(checked.errors) | set(checked.warnings) == {3, 4, 5, 6, 7, 8}
    assert any("call_9" in said for said in (checked.errors | checked.warnings)[7])
