"""The models of the catalogue, as the command and the page list them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import CommandLine
from synth_train.domain.model.catalog import MODELS
from synth_train.domain.model.jobs import Kind

PAGE = Path(__file__).parents[2] / "docs/models.md"


@pytest.fixture
def synth_ai(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.mark.parametrize(("argv", "kinds"), [((), set(Kind)), (("rl",), {Kind.RL}), (("sft",), {Kind.SFT})])
def test_the_models_of_a_kind_are_listed_once_each(
    synth_ai: CommandLine, argv: tuple[str, ...], kinds: set[Kind]
) -> None:
    ran = synth_ai("config", "models", *argv)
    heading, *lines = ran.out.splitlines()
    assert (ran.code, heading.split()) == (0, ["MODEL", "KINDS", "EXPERIMENTAL"])
    assert [line.split()[0] for line in lines] == [m.id for m in MODELS if any(map(m.trains, kinds))]


def test_json_tells_kinds_and_gates(synth_ai: CommandLine) -> None:
    models = {one["id"]: one for one in json.loads(synth_ai("config", "models", "--output", "json").out)["models"]}
    assert models["Qwen/Qwen3-32B"] == {
        "id": "Qwen/Qwen3-32B",
        "kinds": ["sft"],
        "experimental": False,
        "thinking": False,
    }
    assert {name for name, one in models.items() if one["experimental"]} == {m.id for m in MODELS if m.experimental}


def test_the_page_lists_what_the_catalogue_holds() -> None:
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert rows == [
        [
            model.id,
            ", ".join(kind.value for kind in Kind if model.trains(kind)),
            "yes" if model.experimental else "",
            "yes" if model.thinking else "",
        ]
        for model in MODELS
    ]
