"""B01: a .env that starts with a byte-order mark."""

from __future__ import annotations

from cases.harness import SYNTH_KEY, Workspace
from cases.scripted_server import ScriptedServer, sft
from synth_train.adapters.dotenv_env import DotenvEnv


def test_a_mark_at_the_start_of_the_env_file_does_not_hide_its_first_key(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "common/train.jsonl")
    workspace.put_env("B01/dot-env.txt")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train",
            "--type",
            "sft",
            "--config",
            "sft.toml",
            "--env-file",
            ".env",
            "--backend",
            server.base,
            "--no-poll",
        )

    assert ran.code == 0, ran.err
    assert {row.header("Authorization") for row in server.log} == {f"Bearer {SYNTH_KEY}"}


def test_an_env_file_of_a_mark_alone_is_an_empty_file(workspace: Workspace) -> None:
    workspace.put("common/sft.toml", "common/train.jsonl")
    workspace.put_env("B01/dot-env-only-bom.txt")
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train",
            "--type",
            "sft",
            "--config",
            "sft.toml",
            "--env-file",
            ".env",
            "--backend",
            server.base,
            "--no-poll",
        )

    assert ran.code == 4
    assert "SYNTH_API_KEY not found" in ran.err
    assert server.log == []


def test_a_mark_anywhere_else_stays(workspace: Workspace) -> None:
    path = workspace.write(".env", "\ufeffFIRST=one\nSECOND=t\ufeffwo\n")

    assert DotenvEnv().read(path).values == {"FIRST": "one", "SECOND": "t\ufeffwo"}
