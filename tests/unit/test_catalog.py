"""The catalogue of models, and names that come close."""

from __future__ import annotations

import pytest

from synth_train.domain.model.catalog import MODELS, Gate, base_of, find, near
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.nearness import files_like, nearest, slips

EXPERIMENTAL = {
    "Qwen/Qwen3-4B-Thinking-2507",
    "Qwen/Qwen3-4B-Thinking-2507-FP8",
    "Qwen/Qwen3-30B-A3B-Thinking-2507",
    "Qwen/Qwen3-30B-A3B-Thinking-2507-FP8",
    "Qwen/Qwen3-235B-A22B-Instruct-2507",
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
    "Qwen/Qwen3-235B-A22B-Thinking-2507",
    "Qwen/Qwen3-235B-A22B-Thinking-2507-FP8",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
}
SFT_ONLY = {
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-235B-A22B-Instruct-2507",
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
    "Qwen/Qwen3-235B-A22B-Thinking-2507",
    "Qwen/Qwen3-235B-A22B-Thinking-2507-FP8",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
    "Qwen/Qwen3-VL-30B-A3B-Instruct",
    "Qwen/Qwen3-VL-30B-A3B-Thinking",
    "Qwen/Qwen3-VL-32B-Instruct",
    "Qwen/Qwen3-VL-32B-Thinking",
    "Qwen/Qwen3-VL-235B-A22B-Instruct",
    "Qwen/Qwen3-VL-235B-A22B-Thinking",
}


def test_there_are_36_models_each_once() -> None:
    assert len({model.id for model in MODELS}) == len(MODELS) == 36


def test_the_experimental_models_are_those_of_the_contract() -> None:
    assert {model.id for model in MODELS if model.experimental} == EXPERIMENTAL


def test_rl_trains_all_but_those_of_the_contract_and_sft_trains_all() -> None:
    assert {model.id for model in MODELS if not model.trains(Kind.RL)} == SFT_ONLY
    assert all(model.trains(Kind.SFT) for model in MODELS)


def test_exactly_the_thinking_models_think() -> None:
    assert {model.id for model in MODELS if model.thinking} == {m.id for m in MODELS if "Thinking" in m.id}


@pytest.mark.parametrize("name", ["qwen/qwen3-4b", " QWEN/QWEN3-4B ", "Qwen/Qwen3-4B"])
def test_an_id_in_any_case_becomes_the_canonical_one(name: str) -> None:
    model = find(name)
    assert model is not None
    assert model.id == "Qwen/Qwen3-4B"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B"),
        ("ft:Qwen/Qwen3-4B:job_1", "Qwen/Qwen3-4B"),
        ("rl:someone:qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        ("ft:abc123", None),
        ("Qwen/Qwen3-4B:x", None),
        ("gpt-4o", None),
    ],
)
def test_a_fine_tuned_id_names_its_base_after_the_first_colon(name: str, base: str | None) -> None:
    found = base_of(name)
    assert (found.id if found else None) == base


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Qwen3-4B", ("Qwen/Qwen3-4B",)),
        ("qwen/qwen3-4c", ("Qwen/Qwen3-4B",)),
        ("Qwen/Qwen3-5B", ("Qwen/Qwen3-4B", "Qwen/Qwen3-8B")),
        ("Qwen/Qwen3-4B-Instruct", ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B-Instruct-2507-FP8")),
        ("Qwen/Qwen3-VL-8B-Instrct", ("Qwen/Qwen3-VL-8B-Instruct",)),
        ("gpt-4o-mini", ()),
        ("", ()),
    ],
)
def test_a_misspelt_or_shortened_name_is_recognised(name: str, meant: tuple[str, ...]) -> None:
    assert near(name) == meant


def test_no_more_names_are_offered_than_asked_for() -> None:
    assert len(near("qwen3-", at_most=2)) == 2


def test_the_gate_covers_marked_models_and_those_named_besides() -> None:
    plain, marked = find("Qwen/Qwen3-4B"), find("Qwen/Qwen3-4B-Thinking-2507")
    assert plain is not None
    assert marked is not None
    assert Gate().covers(marked)
    assert not Gate().covers(plain)
    assert Gate(also=frozenset({"qwen/qwen3-4b"})).covers(plain)


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ("", "", 0),
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("bsae", "base", 1),
        ("n_epoch", "n_epochs", 1),
        ("log", "job", 2),
    ],
)
def test_slips_count_letters_put_in_left_out_replaced_or_swapped(one: str, other: str, count: int) -> None:
    assert slips(one, other) == slips(other, one) == count


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("learning_rte", "learning_rate"),
        ("learningRate", "learning_rate"),
        ("Batch-Size", "batch_size"),
        ("bacth_size", "batch_size"),
        ("bathc_szie", "batch_size"),
        ("batch_seize2", "batch_size"),
        ("batch", None),
        ("x", None),
        ("log", None),
        ("jb", "job"),
    ],
)
def test_a_name_is_near_within_two_slips_that_leave_most_of_it(name: str, meant: str | None) -> None:
    assert nearest(name, ["learning_rate", "batch_size", "job", "r"]) == meant


@pytest.mark.parametrize(
    ("short", "meant"),
    [
        ("hyperparams", "hyperparameters"),
        ("seq_length", "sequence_length"),
        ("max_steps", None),  # two names have that beginning and that end
        ("validation", None),  # more is left out than is kept
        ("length_of", None),  # the beginning is left out
        ("job_name", None),  # the other way round: the longer name is the unknown one
        ("hypersteps", None),
    ],
)
def test_a_long_abbreviation_of_one_name_only_means_it(short: str, meant: str | None) -> None:
    known = ["hyperparameters", "sequence_length", "max_train_steps", "max_eval_steps", "the_length_of", "job"]
    known.append("validation_dataset_path")
    assert nearest(short, known) == meant


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("chat.jsonl", ["chats.jsonl", "chats2.jsonl", "my_chats.jsonl"]),
        ("nix.jsonl", []),
        ("notes.md", ["notes"]),
        ("note", ["notes"]),
        ("chats.json", ["chats.jsonl", "chats2.jsonl", "my_chats.jsonl"]),
    ],
)
def test_file_names_are_alike_by_more_than_their_endings(name: str, like: list[str]) -> None:
    assert files_like(name, ["d19_nan.jsonl", "my_chats.jsonl", "chats2.jsonl", "notes", "chats.jsonl"]) == like


def test_the_nearest_of_several_near_names_is_meant() -> None:
    assert nearest("gpu_typ", ["gpu_tape", "gpu_type", "gpu_types"]) == "gpu_type"
