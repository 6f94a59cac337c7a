"""B02: the # sign inside a value."""

from __future__ import annotations

from cases.harness import DATA, Workspace
from cases.scripted_server import ScriptedServer, sft
from synth_train.adapters.dotenv_env import DotenvEnv


def test_a_hash_begins_a_comment_only_after_a_blank_outside_quotes() -> None:
    read = DotenvEnv().read(DATA / "B02/dot-env.txt")

    assert read.values == {
        "SYNTH_API_KEY": "fake#synth#key-0001",
        "ENVIRONMENT_API_KEY": "fake # env key-0002",
        "TASK_APP_URL": "http://127.0.0.1:9901/app#frag",
        "EXTRA_A": "#ff0000",
        "EXTRA_B": "",
        "EXTRA_C": "it is",
    }
    assert read.unreadable_lines == ()


def test_a_key_with_hashes_is_sent_whole(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "common/train.jsonl")
    workspace.put_env("B02/dot-env.txt", to="keys.env")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--env-file", "keys.env", "--backend", server.base, "--no-poll"
        )

    assert ran.code == 0, ran.err
    assert {row.header("Authorization") for row in server.log} == {"Bearer fake#synth#key-0001"}
