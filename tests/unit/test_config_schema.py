"""The JSON Schema of both kinds of TOML."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from synth_train.domain.model.config.check import check
from synth_train.domain.model.config.schema import json_schema
from synth_train.domain.model.jobs import Kind

SFT: dict[str, Any] = {
    "type": "sft",
    "algorithm": {"type": "offline", "method": "sft", "variety": "lora"},
    "job": {"model": "Qwen/Qwen3-4B", "data": "rows.jsonl"},
    "hyperparameters": {"n_epochs": 1.0, "learning_rate": 1, "parallelism": {"bf16": True}},
    "lora": {"r": 8, "target_modules": "all-linear", "anything": {}},
    "metadata": {"anything": ["goes"]},
    "unknown": {"section": 1},
}


@pytest.mark.parametrize("kind", Kind)
def test_it_is_a_valid_schema_and_says_what_it_describes(kind: Kind) -> None:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"synth-ai {kind.name} config"


def test_a_good_config_fits() -> None:
    assert list(Draft202012Validator(json_schema(Kind.SFT)).iter_errors(SFT)) == []


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("hyperparameters", "n_epochs", "1"),
        ("hyperparameters", "n_epochs", 1.5),
        ("hyperparameters", "n_epochs", True),
        ("hyperparameters", "learning_rate", 0),
        ("hyperparameters", "warmup_ratio", 2),
        ("job", "model", 3),
        ("job", "data", []),
        ("lora", "target_modules", 3),
        ("training", "use_qlora", "true"),
    ],
)
def test_editor_and_check_find_fault_with_the_same_values(section: str, key: str, value: object) -> None:
    table = SFT | {section: {**SFT.get(section, {}), key: value}}
    assert list(Draft202012Validator(json_schema(Kind.SFT)).iter_errors(table))
    assert any(found.path == (section, key) for found in check(table, Kind.SFT).findings)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(("word", "fits"), [("rl", True), (" SFT ", True), ("sfft", False), ("", False)])
def test_the_type_at_the_top_is_a_kind_in_any_case(kind: Kind, word: str, fits: bool) -> None:
    assert Draft202012Validator(json_schema(kind)).is_valid({"type": word}) is fits
    assert (not check({"type": word}, kind).findings) is fits


@pytest.mark.parametrize("model", [{"base": "a"}, {"source": "a"}, {}])
def test_one_model_is_enough_and_none_may_come_from_the_command_line(model: dict[str, str]) -> None:
    assert Draft202012Validator(json_schema(Kind.RL)).is_valid({"model": model})


def test_base_and_source_together_do_not_fit() -> None:
    assert not Draft202012Validator(json_schema(Kind.RL)).is_valid({"model": {"base": "a", "source": "b"}})


@pytest.mark.parametrize("kind", Kind)
def test_every_section_is_explained(kind: Kind) -> None:
    assert [name for name, table in json_schema(kind)["$defs"].items() if not table.get("description")] == []
