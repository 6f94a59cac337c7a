"""Raw tables against what is known of configs."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth_train.domain.model.config.check import DEEPEST, check, clues, view_of
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import Severity, dotted


def said(table: dict[str, Any], kind: Kind = Kind.SFT, unknown: UnknownKeys = UnknownKeys.BY_LIKENESS) -> list[str]:
    """What the check says, warnings marked."""
    return [
        f"{'warning: ' if found.severity is Severity.WARNING else ''}{dotted(found.path)}: {found.what}"
        for found in check(table, kind, unknown).findings
    ]


def one(table: dict[str, Any], kind: Kind = Kind.SFT, unknown: UnknownKeys = UnknownKeys.BY_LIKENESS) -> str:
    (only,) = said(table, kind, unknown)
    return only


def hyper(**values: Any) -> dict[str, Any]:
    return {"hyperparameters": values}


# -- types


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (hyper(n_epochs=True), "hyperparameters.n_epochs: expected a whole number, got true"),
        (hyper(n_epochs=1.5), "hyperparameters.n_epochs: expected a whole number, got the number 1.5"),
        (
            hyper(n_epochs=" 1 "),
            'hyperparameters.n_epochs: expected a whole number, got the text " 1 "; write 1 without quotes',
        ),
        (hyper(n_epochs="1.5"), 'hyperparameters.n_epochs: expected a whole number, got the text "1.5"'),
        (hyper(n_epochs="two"), "hyperparameters.n_epochs: expected a whole number, got text"),
        (hyper(n_epochs=[1]), "hyperparameters.n_epochs: expected a whole number, got a list"),
        (hyper(n_epochs=math.inf), "hyperparameters.n_epochs: expected a whole number, got the number inf"),
        (
            hyper(learning_rate="5e-6"),
            'hyperparameters.learning_rate: expected a number, got the text "5e-6"; write 5e-6 without quotes',
        ),
        (hyper(learning_rate={}), "hyperparameters.learning_rate: expected a number, got a table"),
        (hyper(learning_rate=date(2025, 1, 1)), "hyperparameters.learning_rate: expected a number, got a date or time"),
        (
            hyper(train_kind=10**5000),
            "hyperparameters.train_kind: expected text, got a number that does not fit in 64 bits; put it in quotes",
        ),
        (hyper(train_kind=1), "hyperparameters.train_kind: expected text, got the number 1; put it in quotes"),
        (
            {"training": {"use_qlora": "True"}},
            'training.use_qlora: expected true or false, got the text "True"; write true without quotes',
        ),
        ({"training": {"use_qlora": 1}}, "training.use_qlora: expected true or false, got the number 1"),
        ({"job": "Qwen/Qwen3-4B"}, "job: expected a table, got text"),
        (
            {"job": [{"model": "Qwen/Qwen3-4B"}]},
            "job: expected a table, got a list of tables; write its header as [job], in single brackets",
        ),
        ({"job": [1]}, "job: expected a table, got a list"),
        ({"tags": "fast"}, "tags: expected a table, got text"),
        (
            {"lora": {"target_modules": 3}},
            "lora.target_modules: expected a list or text, got the number 3; put it in [ ]",
        ),
        (
            {"lora": {"target_modules": ["q", 3]}},
            "lora.target_modules[1]: expected text, got the number 3; put it in quotes",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_described_with_what_to_write_instead(table: dict[str, Any], problem: str) -> None:
    assert one(table) == problem


def test_text_in_place_of_a_number_is_not_repeated_since_it_may_be_a_secret() -> None:
    assert "hunter2" not in one(hyper(batch_size="hunter2hunter2"))


def test_a_whole_float_is_an_integer_and_is_sent_as_one() -> None:
    checked = check(hyper(n_epochs=2.0), Kind.SFT)
    assert not checked.findings
    assert msgspec.json.encode(checked.table) == b'{"hyperparameters":{"n_epochs":2}}'


def test_an_integer_is_a_number_and_is_sent_as_it_was_written() -> None:
    checked = check({"lora": {"r": 8, "alpha": 16}}, Kind.SFT)
    assert not checked.findings
    assert msgspec.json.encode(checked.table) == b'{"lora":{"r":8,"alpha":16}}'


@pytest.mark.parametrize("value", ["all-linear", ["q_proj", "v_proj"]])
def test_either_of_two_types_will_do_where_both_are_usual(value: object) -> None:
    assert said({"lora": {"target_modules": value}}) == []


def test_items_of_lists_and_typed_tables_are_looked_at_one_by_one() -> None:
    assert said({"evaluation": {"seeds": [1, 2.0, "3", True]}}, Kind.RL) == [
        'evaluation.seeds[2]: expected a whole number, got the text "3"; write 3 without quotes',
        "evaluation.seeds[3]: expected a whole number, got true",
    ]
    assert said({"judge": {"options": {"weights": {"process": 0.5, "outcome": "much"}}}}, Kind.RL) == [
        "judge.options.weights.outcome: expected a number, got text"
    ]


# -- bounds


@pytest.mark.parametrize(
    ("table", "kind", "problem"),
    [
        (hyper(n_epochs=0), Kind.SFT, "hyperparameters.n_epochs: must be at least 1, not 0"),
        (hyper(learning_rate=0), Kind.SFT, "hyperparameters.learning_rate: must be more than 0, not 0"),
        (hyper(learning_rate=-1e-5), Kind.SFT, "hyperparameters.learning_rate: must be more than 0, not -1e-05"),
        (hyper(warmup_ratio=1.5), Kind.SFT, "hyperparameters.warmup_ratio: must be at most 1, not 1.5"),
        (hyper(warmup_ratio=-0.1), Kind.SFT, "hyperparameters.warmup_ratio: must be at least 0, not -0.1"),
        ({"training": {"group_size": 1}}, Kind.RL, "training.group_size: must be at least 2, not 1"),
        ({"training": {"batch_size": 0}}, Kind.RL, "training.batch_size: must be at least 1, not 0"),
        (
            hyper(sequence_length=2**63),
            Kind.SFT,
            "hyperparameters.sequence_length: this number does not fit in 64 bits",
        ),
        (
            hyper(sequence_length=1e300),
            Kind.SFT,
            "hyperparameters.sequence_length: this number does not fit in 64 bits",
        ),
        (
            hyper(learning_rate=math.nan),
            Kind.SFT,
            "hyperparameters.learning_rate: nan cannot be sent: JSON has no such number",
        ),
    ],
)
def test_a_number_out_of_bounds_is_told_the_bound(table: dict[str, Any], kind: Kind, problem: str) -> None:
    assert one(table, kind) == problem


@pytest.mark.parametrize("value", [0, 1, 0.03])
def test_both_ends_of_a_range_are_in_it(value: float) -> None:
    assert said(hyper(warmup_ratio=value)) == []


# -- what JSON can carry


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not_are_refused_wherever_they_stand(value: float) -> None:
    assert "cannot be sent" in one({"metadata": {"deep": [{"x": value}]}})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_integers_over_64_bits_are_refused_wherever_they_stand(value: int) -> None:
    assert one({"metadata": {"x": value}}) == "metadata.x: this number does not fit in 64 bits"


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_the_largest_64_bit_integers_are_kept(value: int) -> None:
    assert check({"metadata": {"x": value}}, Kind.SFT).table == {"metadata": {"x": value}}


def test_dates_and_times_are_sent_as_rfc_3339() -> None:
    when = datetime(1979, 5, 27, 7, 32, tzinfo=timezone.utc)
    table = {"metadata": {"on": when, "day": date(1979, 5, 27), "at": [time(7, 32)]}}
    assert check(table, Kind.RL).table == {
        "metadata": {"on": "1979-05-27T07:32:00+00:00", "day": "1979-05-27", "at": ["07:32:00"]}
    }


def test_bottomless_tables_are_refused_before_they_exhaust_the_stack() -> None:
    table: dict[str, Any] = {}
    for _ in range(5000):
        table = {"a": table}
    assert "levels" in one({"metadata": table})


def test_a_table_of_the_greatest_depth_can_be_encoded() -> None:
    table: Any = 1
    for _ in range(DEEPEST - 1):
        table = [table]
    assert msgspec.json.encode(check({"metadata": {"a": table}}, Kind.SFT).table) != b""
    assert said({"metadata": {"a": table}}) == []


# -- unknown keys


def test_a_misspelt_key_is_an_error_that_names_the_known_one() -> None:
    assert one(hyper(n_epoch=3)) == "hyperparameters.n_epoch: unknown key; did you mean n_epochs?"


def test_a_misspelt_section_is_an_error_when_the_known_one_is_not_there() -> None:
    assert one({"hyperparametres": {}}) == "hyperparametres: unknown section; did you mean hyperparameters?"


def test_an_abbreviated_section_is_an_error_and_not_silently_left_out() -> None:
    assert one({"hyperparams": {"n_epochs": 3}}) == "hyperparams: unknown section; did you mean hyperparameters?"


@pytest.mark.parametrize(
    ("table", "kind", "problem"),
    [
        (
            {"hyperparameters": {"n_epochs": 1}, "hyperparameter": {"n_epochs": 2}},
            Kind.SFT,
            "hyperparameter: unknown section; it looks like hyperparameters, which is there as well",
        ),
        (
            hyper(n_epochs=1, n_epoch=2),
            Kind.SFT,
            "hyperparameters.n_epoch: unknown key; it looks like n_epochs, which is there as well",
        ),
        (
            {"rollout": {}, "rolout": {}},
            Kind.RL,
            "rolout: unknown section; it looks like rollout, which is there as well",
        ),
    ],
)
def test_a_key_like_one_that_is_there_is_a_warning_that_names_it(
    table: dict[str, Any], kind: Kind, problem: str
) -> None:
    assert one(table, kind).startswith(f"warning: {problem}; ")
    assert one(table, kind, UnknownKeys.ERRORS) == problem


def test_an_unknown_key_that_was_typed_just_now_is_an_error_unless_such_are_let_through() -> None:
    table = hyper(world_size=8)
    typed = [check(table, Kind.SFT, unknown, lambda _: True).findings[0].severity for unknown in UnknownKeys]
    assert dict(zip(UnknownKeys, typed, strict=True)) == {
        UnknownKeys.BY_LIKENESS: Severity.ERROR,
        UnknownKeys.ERRORS: Severity.ERROR,
        UnknownKeys.WARNINGS: Severity.WARNING,
    }


@pytest.mark.parametrize(
    ("word", "meant"),
    [("sfft", '; did you mean "sft"?'), ("prompt_learning", ""), ("", ""), ("r l", '; did you mean "rl"?')],
)
@pytest.mark.parametrize("kind", Kind)
def test_a_type_that_is_no_kind_is_an_error(kind: Kind, word: str, meant: str) -> None:
    assert one({"type": word}, kind) == f'type: "{word}" is none of "rl", "sft"{meant}'


def test_case_and_blanks_do_not_count_in_a_type() -> None:
    assert said({"type": " SFT "}) == []


def test_clues_are_sections_that_are_misspelt_for_either_kind_and_a_type_that_is_none() -> None:
    table = {"type": "sfft", "algoritm": {}, "hyperparamters": {}, "rolout": {}, "rollout": {"ops": 3}, "note": 1}
    assert {f"{dotted(clue.path)}: {clue.what}" for clue in clues(table)} == {
        'type: "sfft" is none of "rl", "sft"; did you mean "sft"?',
        "algoritm: unknown section; did you mean algorithm?",
        "hyperparamters: unknown section; did you mean hyperparameters?",
    }


def test_a_key_like_nothing_is_a_warning_that_says_what_becomes_of_it() -> None:
    assert one(hyper(world_size=8)) == (
        "warning: hyperparameters.world_size: unknown key; hosted backends do not get it"
    )
    assert one({"training": {"reward_positive": 1.0}}, Kind.RL) == (
        "warning: training.reward_positive: unknown key; it is sent as it is"
    )


def test_a_key_that_only_another_table_has_is_told_where_it_belongs() -> None:
    assert one({"n_epochs": 3}) == (
        "warning: n_epochs: unknown key; it belongs to [hyperparameters]; hosted backends do not get it"
    )


def test_a_key_that_several_tables_have_is_not_told_where_it_belongs() -> None:
    assert "belongs" not in one({"evaluation": {"max_turns": 3}}, Kind.RL)


def test_a_top_level_name_inside_a_table_is_not_told_to_move() -> None:
    assert "belongs" not in one({"job": {"compute": {}}})


def test_strict_makes_every_unknown_key_an_error() -> None:
    assert one(hyper(world_size=8), unknown=UnknownKeys.ERRORS) == "hyperparameters.world_size: unknown key"


def test_allow_unknown_makes_every_unknown_key_a_warning() -> None:
    assert one(hyper(n_epoch=8), unknown=UnknownKeys.WARNINGS).startswith("warning: hyperparameters.n_epoch")


@pytest.mark.parametrize("unknown", UnknownKeys)
@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ({"metadata": {"n_epoch": 1}}, Kind.SFT),
        ({"tags": {"n_epoch": 1}}, Kind.SFT),
        ({"local": {"treads": 1}}, Kind.SFT),
        ({"vllm": {"max_model_length": 1}}, Kind.RL),
        ({"rubric": {"evnt": {}}}, Kind.RL),
        ({"rollout": {"env_config": {"a": 1}, "policy_config": {"b": 1}}}, Kind.RL),
        ({"topology": {"gpus": 1}, "reference": {"tpp": 1}, "lora": {"rank": 8}}, Kind.RL),
        ({"smoke": {"anything": 1}}, Kind.RL),
    ],
)
def test_free_tables_are_not_searched(table: dict[str, Any], kind: Kind, unknown: UnknownKeys) -> None:
    assert said(table, kind, unknown) == []


def test_unknown_keys_are_kept() -> None:
    assert check({"data": {"split": "train"}}, Kind.RL).table == {"data": {"split": "train"}}


# -- all of it together


def test_every_problem_is_found_in_the_order_of_the_table() -> None:
    table = {"job": {"model": 1}, "hyperparameters": {"n_epoch": 3, "batch_size": "1", "learning_rate": 0}}
    assert [dotted(found.path) for found in check(table, Kind.SFT).findings] == [
        "job.model",
        "hyperparameters.n_epoch",
        "hyperparameters.batch_size",
        "hyperparameters.learning_rate",
    ]


def test_what_is_unfit_is_left_out_and_known_to_be() -> None:
    checked = check({"job": {"model": 1, "data": "x"}, "training": 3, "wrld": 1}, Kind.SFT)
    assert checked.table == {"job": {"data": "x"}, "wrld": 1}
    assert checked.unfit("job", "model")
    assert checked.unfit("training", "mode")
    assert not checked.unfit("job", "data")
    assert not checked.unfit("wrld")


def test_every_form_of_the_contract_is_known() -> None:
    rl = {
        "type": "rl",
        "job_type": "rl",
        "algorithm": {"type": "online", "method": "policy_gradient", "variety": "gspo"},
        "services": {"task_url": "http://t", "judge_url": "http://j", "environment": "e"},
        "model": {"base": "b", "source": "s", "trainer_mode": "lora", "label": "l"},
        "policy": {
            "model_name": "m",
            "source": "s",
            "trainer_mode": "lora",
            "label": "l",
            "max_tokens": 512,
            "temperature": 0.7,
            "top_p": 0.95,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "stop_sequences": ["</s>"],
            "inference_url": "http://i",
        },
        "compute": {
            "gpu_type": "H100",
            "gpu_count": 2,
            "nodes": 1,
            "topology": {"type": "single_node_split", "gpus_for_vllm": 1, "gpus_for_training": 1, "gpus_for_ref": 0},
        },
        "topology": {"tensor_parallel": 1},
        "vllm": {"tensor_parallel_size": 1, "max_model_len": 4096},
        "reference": {"placement": "none", "port": 8002, "tp": 1},
        "lora": {"r": 16, "alpha": 32, "dropout": 0.05, "target_modules": ["all-linear"]},
        "rollout": {
            "env_name": "e",
            "policy_name": "p",
            "max_turns": 1,
            "episodes_per_batch": 8,
            "max_concurrent_rollouts": 4,
            "batches_per_step": 1,
            "ops": ["agent", "env"],
            "env_config": {},
            "policy_config": {},
        },
        "training": {
            "num_epochs": 1,
            "iterations_per_epoch": 2,
            "max_turns": 1,
            "batch_size": 4,
            "group_size": 4,
            "learning_rate": 5e-5,
            "gradient_accumulation_steps": 1,
            "max_accumulated_minibatch": 1,
            "log_interval": 1,
            "weight_sync_interval": 1,
            "step_rewards_enabled": True,
            "step_rewards_mode": "off",
            "step_rewards_strategy": "simple",
            "event_rewards_kind": "unique",
            "step_rewards_indicator_lambda": 1.0,
            "step_rewards_beta": 0.0,
            "weight_sync": {
                "enable": True,
                "direct": True,
                "targets": ["policy"],
                "mode": "direct",
                "verify_every_k": 0,
                "interval": 1,
            },
            "lora": {"r": 8},
            "rewards": {"step_rewards_enabled": True},
        },
        "evaluation": {"instances": 8, "every_n_iters": 2, "seeds": [0, 1]},
        "judge": {
            "type": "gemini",
            "timeout_s": 45,
            "enabled": True,
            "reward_blend": {"env": 0.5, "event": 0.2, "outcome": 0.3},
            "options": {
                "event": True,
                "outcome": True,
                "provider": "openai",
                "model": "m",
                "rubric_id": "r",
                "rubric_overrides": {},
                "tracks": ["process"],
                "weights": {"process": 1},
                "max_concurrency": 4,
            },
        },
        "rubric": {"anything": 1},
        "tags": {"anything": 1},
    }
    sft = {
        "type": "sft",
        "algorithm": {"type": "offline", "method": "sft", "variety": "lora"},
        "job": {"model": "m", "data": "d", "data_path": "d", "poll_seconds": 5},
        "compute": {"gpu_type": "H100", "gpu_count": 1, "nodes": 1},
        "data": {"topology": {"container_count": 1}, "validation_path": "v"},
        "training": {
            "mode": "lora",
            "use_qlora": True,
            "validation": {
                "enabled": True,
                "evaluation_strategy": "steps",
                "eval_steps": 20,
                "save_best_model_at_end": True,
                "metric_for_best_model": "val.loss",
                "greater_is_better": False,
            },
        },
        "hyperparameters": {
            "n_epochs": 1,
            "batch_size": 1,
            "global_batch": 8,
            "per_device_batch": 1,
            "gradient_accumulation_steps": 8,
            "sequence_length": 2048,
            "learning_rate": 5e-6,
            "warmup_ratio": 0.03,
            "weight_decay": 0.01,
            "train_kind": "peft",
            "parallelism": {
                "use_deepspeed": True,
                "fsdp": False,
                "bf16": True,
                "fp16": False,
                "activation_checkpointing": True,
                "deepspeed_stage": 2,
                "tensor_parallel_size": 1,
                "pipeline_parallel_size": 1,
            },
        },
        "tags": {},
        "metadata": {},
        "lora": {"r": 8},
        "local": {"seed": 0, "threads": 1, "device": "cpu"},
        "smoke": {},
    }
    assert said(rl, Kind.RL, UnknownKeys.ERRORS) == []
    assert said(sft, Kind.SFT, UnknownKeys.ERRORS) == []


_LEAVES = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.sampled_from(["1", "true", 1.0, 2, 1e300])
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


def _tables(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """Tables with known names and any values."""
    root = msgspec.inspect.type_info(view_of(kind))
    assert isinstance(root, msgspec.inspect.StructType)

    def of(table: msgspec.inspect.StructType) -> st.SearchStrategy[dict[str, Any]]:
        fields = {
            field.name: of(field.type) if isinstance(field.type, msgspec.inspect.StructType) else _VALUES
            for field in table.fields
        }
        return st.fixed_dictionaries({}, optional=fields)

    return of(root)


# Building strategies for all keys takes a while, once.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.one_of(*(st.tuples(st.just(kind), _tables(kind)) for kind in Kind)))
def test_whatever_passes_the_check_fits_the_types_and_goes_on_the_wire(drawn: tuple[Kind, dict[str, Any]]) -> None:
    kind, table = drawn
    checked = check(table, kind)
    msgspec.convert(checked.table, view_of(kind))
    assert msgspec.json.decode(msgspec.json.encode(checked.table)) == checked.table
    if not checked.findings:
        assert checked.table == table
