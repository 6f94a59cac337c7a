"""Which kind of job a table describes, and which algorithm."""

from __future__ import annotations

from typing import Any

import pytest

from synth_train.domain.model.config.algorithm import TRIPLES, default_for, kind_of, wrong_with
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import dotted


def algorithm(type: str = "", method: str = "", variety: str = "") -> dict[str, Any]:
    given = {"type": type, "method": method, "variety": variety}
    return {"algorithm": {key: value for key, value in given.items() if value}}


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({"type": "rl"}, Kind.RL),
        ({"type": " SFT "}, Kind.SFT),
        ({"type": "sft", **algorithm("online", "policy_gradient", "gspo")}, Kind.SFT),
        (algorithm(method="policy_gradient"), Kind.RL),
        (algorithm(method="PPO"), Kind.RL),
        (algorithm(method="reinforce", type="offline"), Kind.RL),
        (algorithm(type="online"), Kind.RL),
        (algorithm(variety="gspo"), Kind.RL),
        (algorithm(variety="grpo", method="sft"), Kind.RL),
        (algorithm(variety="ppo"), Kind.RL),
        (algorithm(method="supervised_finetune"), Kind.SFT),
        (algorithm(method="sft"), Kind.SFT),
        (algorithm(type="offline"), Kind.SFT),
        (algorithm(variety="fft"), Kind.SFT),
        ({"job_type": "rl"}, Kind.RL),
        ({"job_type": "rl", **algorithm(type="offline")}, Kind.SFT),
        ({"services": {"task_url": ""}}, Kind.RL),
        ({"services": {"environment": "crafter"}}, Kind.RL),
        ({"services": {"judge_url": "http://j"}}, None),
        ({"services": "http://t"}, None),
        ({"training": {"mode": "sft_offline"}}, Kind.SFT),
        ({"training": {"mode": "lora"}}, None),
        ({"training": "sft"}, None),
        ({"hyperparameters": {"train_kind": "fft"}}, Kind.SFT),
        ({"hyperparameters": {"train_kind": "peft"}}, None),
        (algorithm(variety="lora"), None),
        ({"type": "prompt_learning", "job": {}}, None),
        ({"type": 3, "algorithm": "online"}, None),
        ({}, None),
    ],
)
def test_the_first_mark_that_is_found_decides_the_kind(table: dict[str, Any], kind: Kind | None) -> None:
    assert kind_of(table) is kind


@pytest.mark.parametrize("triple", TRIPLES, ids=str)
def test_the_four_triples_pass_in_any_case(triple: Any) -> None:
    table = algorithm(triple.type.upper(), f" {triple.method} ", triple.variety)
    assert wrong_with(table, triple.kind) is None
    assert kind_of(table) is triple.kind


def said(table: dict[str, Any], kind: Kind) -> str:
    finding = wrong_with(table, kind)
    assert finding is not None
    return f"{dotted(finding.path)}: {finding.what}"


@pytest.mark.parametrize(
    ("table", "kind", "problem"),
    [
        (
            algorithm("online", "policy_gradient", "grpo"),
            Kind.RL,
            'algorithm.variety: "grpo" is not trained by RL jobs; GRPO is not offered; write variety = "gspo",'
            " its successor",
        ),
        (
            algorithm("online", "policy_gradient", "ppo"),
            Kind.RL,
            'algorithm.variety: "ppo" is not trained by RL jobs; PPO is not offered; write variety = "gspo"',
        ),
        (
            algorithm("online", "reinforce", "gspo"),
            Kind.RL,
            'algorithm.method: "reinforce" is not trained by RL jobs; write method = "policy_gradient"',
        ),
        (
            algorithm("offline", "sft", "qlora"),
            Kind.SFT,
            'algorithm.variety: "qlora" is not trained by SFT jobs; write variety = "lora", and use_qlora = true'
            " in [training]",
        ),
        (
            algorithm("offline", "sft", "full"),
            Kind.SFT,
            'algorithm.variety: "full" is not trained by SFT jobs; write variety = "fft" or "lora"',
        ),
    ],
)
def test_a_word_that_no_job_trains_is_named_with_what_to_write(table: dict[str, Any], kind: Kind, problem: str) -> None:
    assert said(table, kind) == problem


def test_a_triple_of_the_other_kind_names_the_kind_that_is_expected() -> None:
    assert said(algorithm("online", "policy_gradient", "gspo"), Kind.SFT) == (
        "algorithm: this is an algorithm of RL in an SFT config; write "
        'type = "offline", method = "supervised_finetune", variety = "fft", or '
        'type = "offline", method = "sft", variety = "fft", or type = "offline", method = "sft", variety = "lora";'
        ' or make it an RL config: type = "rl" at the top, or --type'
    )


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            algorithm("online", "sft", "lora"),
            'algorithm: type = "online" is of RL, but method = "sft" and variety = "lora" are of SFT;'
            ' for RL write method = "policy_gradient" and variety = "gspo", for SFT write type = "offline"',
        ),
        (
            algorithm("offline", "policy_gradient", "gspo"),
            'algorithm: method = "policy_gradient" and variety = "gspo" are of RL, but type = "offline" is of SFT;'
            ' for RL write type = "online", for SFT write method = "supervised_finetune" and variety = "fft"',
        ),
        (
            algorithm(method="sft", variety="grpo"),
            'algorithm: variety = "grpo" is of RL, but method = "sft" is of SFT; for RL write type = "online" and'
            ' method = "policy_gradient" and variety = "gspo", for SFT write type = "offline" and variety = "fft"',
        ),
    ],
)
def test_words_of_both_kinds_are_told_apart_with_the_way_out_for_either(
    table: dict[str, Any], problem: str, kind: Kind
) -> None:
    assert said(table, kind) == problem


def test_missing_words_are_named() -> None:
    assert said(algorithm("online"), Kind.RL) == (
        'algorithm: method and variety missing; write type = "online", method = "policy_gradient", variety = "gspo"'
    )


def test_words_that_do_not_go_together_are_told_which_do() -> None:
    assert said(algorithm("offline", "supervised_finetune", "lora"), Kind.SFT).startswith(
        "algorithm: there is no such algorithm; write type = "
    )


@pytest.mark.parametrize(
    ("kind", "table", "variety"),
    [
        (Kind.RL, {}, "gspo"),
        (Kind.SFT, {}, "fft"),
        (Kind.SFT, {"training": {"mode": "sft_offline", "use_qlora": False}}, "fft"),
        (Kind.SFT, {"training": {"mode": "LoRA"}}, "lora"),
        (Kind.SFT, {"training": {"use_qlora": True}}, "lora"),
        (Kind.SFT, {"lora": {"r": 8}}, "lora"),
    ],
)
def test_a_config_without_algorithm_gets_the_one_of_its_kind(kind: Kind, table: dict[str, Any], variety: str) -> None:
    triple = default_for(kind, table)
    assert triple.variety == variety
    assert wrong_with({"algorithm": triple.as_table()}, kind) is None
