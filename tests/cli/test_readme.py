"""The README says what is true."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cases.harness import SYNTH_KEY, Workspace
from cases.scripted_server import ScriptedServer, sft
from synth_train.entrypoints.exit_codes import MEANINGS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_its_exit_codes_are_those_of_the_command() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE)

    assert [(int(code), meaning) for code, meaning in rows] == list(MEANINGS.items())


def test_every_option_it_names_exists(workspace: Workspace) -> None:
    on_jobs: list[list[str]] = [[], ["list"], ["watch"], ["logs"], ["metrics"], ["retry"], ["download"], ["open"]]
    commands = (["train"], ["config", "check"], ["data", "check"], ["serve"], *(["jobs", *one] for one in on_jobs))
    known = "".join(workspace.run(*command, "--help").out for command in commands)
    of_others = {"--from", "--env-file", "--port", "--task"}
    for text in (README, EXAMPLES):
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - of_others:
            assert re.search(rf"{option}(?![\w-])", known), option


def test_every_make_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README + contributing, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_its_config_is_valid(workspace: Workspace) -> None:
    (config,) = blocks("toml")
    workspace.write("sft.toml", config)
    workspace.put("common/train.jsonl")
    (workspace.cwd / "train.jsonl").rename(workspace.cwd / "chats.jsonl")
    ran = workspace.run("train", "--config", "sft.toml", "--dry-run", "--strict")

    assert ran.code == 0, ran.err
    assert "warning" not in ran.err


def test_its_library_lines_run(workspace: Workspace) -> None:
    (config,), (lines,) = blocks("toml"), blocks("python")
    workspace.write("sft.toml", config)
    workspace.put("common/train.jsonl")
    (workspace.cwd / "train.jsonl").rename(workspace.cwd / "chats.jsonl")
    with ScriptedServer(sft()) as server:
        program = lines.replace("https://api.usesynth.ai", server.base)
        assert program != lines
        ran = workspace.run("-c", program, command=(sys.executable,), env={"SYNTH_API_KEY": SYNTH_KEY})

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == ["3 rows, 0 warnings", "job_1 succeeded None"]
