"""B14: the old function_call form, and the weight field."""

from __future__ import annotations

from cases.harness import KEYS, Workspace, uploaded
from cases.rows import check
from cases.scripted_server import ScriptedServer, sft


def test_weights_are_0_or_1_and_the_old_form_is_fine(workspace: Workspace) -> None:
    checked = check(workspace, "B14/legacy_weight.jsonl")

    assert checked.ran.code == 3
    assert set(checked.errors) == {6, 7, 8}
    for line in (6, 7, 8):
        assert checked.paths[line] == {"messages[1].weight"}
    assert 5 in checked.warnings
    assert set(checked.warnings) <= {1, 5}


def test_unknown_keys_are_uploaded_unchanged(workspace: Workspace) -> None:
    row = b'{"messages":[{"role":"user","content":"q","mood":1},{"role":"assistant","content":"a"}],"source":[null]}\n'
    workspace.put("common/sft.toml")
    workspace.write("extra.jsonl", row)
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--dataset", "extra.jsonl", "--backend", server.base, "--no-poll", env=KEYS
        )

    assert ran.code == 0, ran.err
    assert uploaded(server.seen("POST /api/files")[0]).content == row
