"""Job requests in all their shapes (wire-contract §2.5, §3.5)."""

from __future__ import annotations

import msgspec
import pytest

from synth_train.domain.model.hosting import Refusal
from synth_train.domain.model.jobs import Kind
from synth_train.domain.usecases.hosting.orders import order_in

URL = "https://task.example"

TRAIN_RL = {
    "job_type": "rl",
    "compute": {"gpu_type": "H100", "gpu_count": 2},
    "data": {"endpoint_base_url": URL, "config": {"services": {}}, "base_model": "Qwen/Qwen3-1.7B"},
    "tags": {"source": "train-cli"},
    "metadata": {"backend_base_url": "https://api.usesynth.ai"},
}
LIBRARY_RL = {
    "job_type": "rl",
    "data": {"model": "m", "endpoint_base_url": URL + "//", "trainer": {"batch_size": 1, "group_size": 2}},
}
TYPED_RL = {"model": "m", "endpoint_base_url": URL, "trainer_id": "t", "trainer": {}, "config": {}, "metadata": {}}
DEMO_RL = {
    "job_type": "rl",
    "data": {"model": "m", "endpoint_base_url": URL, "config": {}, "config_toml": "a = 1", "trainer": None},
}
TRAIN_SFT = {
    "model": "Qwen/Qwen3-4B",
    "training_type": "sft_offline",
    "training_file_id": "file_1",
    "hyperparameters": {"n_epochs": 1, "learning_rate": 5e-06, "warmup_ratio": 0.1, "parallelism": {"bf16": True}},
    "metadata": {"effective_config": {"data": {"topology": {}, "validation_files": ["file_2"]}}},
}
TYPED_SFT = {"model": "m", "training_file": "file_1", "validation_file": "file_2", "suffix": "mine"}


def sent(body: object) -> bytes:
    return msgspec.json.encode(body)


@pytest.mark.parametrize(
    ("body", "model"),
    [(TRAIN_RL, "Qwen/Qwen3-1.7B"), (LIBRARY_RL, "m"), (TYPED_RL, "m"), (DEMO_RL, "m")],
    ids=["train command", "library", "typed client", "demo runner"],
)
def test_every_shape_of_an_rl_request_is_read(body: dict[str, object], model: str) -> None:
    order = order_in(Kind.RL, sent(body))
    assert (order.kind, order.model, order.task_url, order.training_type) == (Kind.RL, model, URL, "rl_online")
    assert order.files == ()
    assert order.body == sent(body)


@pytest.mark.parametrize("body", [TRAIN_SFT, TYPED_SFT], ids=["train command", "typed client"])
def test_every_shape_of_an_sft_request_is_read(body: dict[str, object]) -> None:
    order = order_in(Kind.SFT, sent(body))
    assert (order.kind, order.model, order.training_type) == (Kind.SFT, body["model"], "sft_offline")
    assert order.files == ("file_1", "file_2")
    assert order.name == body.get("suffix", "")
    assert order.body == sent(body)


@pytest.mark.parametrize("training_type", ["sft", "sft_online", "fft", "qft"])
def test_a_training_type_may_say_which_weights_are_trained(training_type: str) -> None:
    order = order_in(Kind.SFT, sent({**TRAIN_SFT, "training_type": training_type}))
    assert order.training_type == training_type


def test_a_validation_set_is_not_needed() -> None:
    assert order_in(Kind.SFT, sent({"model": "m", "training_file_id": "file_1"})).validation_file is None


def test_an_environment_key_in_clear_is_thrown_away() -> None:
    body = {**TRAIN_RL, "environment_api_key": "k1", "data": {**DEMO_RL["data"], "environment_api_key": "k2"}}  # type: ignore[dict-item]
    kept = order_in(Kind.RL, sent(body)).body
    assert msgspec.json.decode(kept) == {**TRAIN_RL, "data": DEMO_RL["data"]}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"null", b'"text"'])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        order_in(Kind.RL, body)
    assert caught.value.status == 400


def refused(kind: Kind, body: object) -> str:
    with pytest.raises(Refusal) as caught:
        order_in(kind, sent(body))
    assert (caught.value.status, caught.value.code) == (422, "invalid_request")
    return caught.value.message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"job_type": "sft"}, "job_type: must be rl"),
        ({"data": None}, "data.model: exactly one"),
        ({"data": []}, "data: must be an object"),
        ({"data": {"endpoint_base_url": URL}}, "data.model: exactly one"),
        ({"data": {"endpoint_base_url": URL, "model": "a", "base_model": "b"}}, "data.model: exactly one"),
        ({"data": {"endpoint_base_url": URL, "model": 7}}, "data.model: must be a text"),
        ({"data": {"model": "a"}}, "data.endpoint_base_url: must be the URL of the task app"),
        ({"data": {"model": "a", "endpoint_base_url": "task.example"}}, "data.endpoint_base_url: must be the URL"),
        ({"data": {"model": "a", "endpoint_base_url": URL, "config": []}}, "data.config: must be an object"),
        ({"data": {"model": "a", "endpoint_base_url": URL, "trainer": 1}}, "data.trainer: must be an object"),
        (
            {"data": {"model": "a", "endpoint_base_url": URL, "trainer": {"group_size": 1}}},
            "data.trainer.group_size: must be an integer of at least 2",
        ),
        (
            {"data": {"model": "a", "endpoint_base_url": URL, "trainer": {"batch_size": True}}},
            "data.trainer.batch_size: must be an integer of at least 1",
        ),
    ],
)
def test_an_rl_request_that_cannot_become_a_job_is_refused(change: dict[str, object], said: str) -> None:
    assert said in refused(Kind.RL, {**TRAIN_RL, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": None}, "model: must name a model"),
        ({"model": "  "}, "model: must name a model"),
        ({"training_type": "rl_online"}, "training_type: must be sft_offline"),
        ({"training_file_id": None}, "training_file_id: must be the id of an uploaded file"),
        ({"training_file_id": 7}, "training_file_id: must be a text"),
        ({"hyperparameters": []}, "hyperparameters: must be an object"),
        ({"hyperparameters": {"n_epochs": 0}}, "hyperparameters.n_epochs: must be an integer of at least 1"),
        ({"hyperparameters": {"batch_size": 1.5}}, "hyperparameters.batch_size"),
        ({"hyperparameters": {"learning_rate": 0}}, "hyperparameters.learning_rate: must be a number above 0"),
        ({"hyperparameters": {"learning_rate": True}}, "hyperparameters.learning_rate"),
        ({"hyperparameters": {"learning_rate": "1"}}, "hyperparameters.learning_rate"),
        ({"hyperparameters": {"warmup_ratio": 1.1}}, "hyperparameters.warmup_ratio: must be between 0 and 1"),
        ({"metadata": {"effective_config": {"data": {"validation_files": "file_2"}}}}, "validation_files: must be"),
        ({"metadata": {"effective_config": {"data": {"validation_files": [7]}}}}, "validation_files: must be"),
        ({"metadata": {"effective_config": {"data": {"validation_files": ["a", "b"]}}}}, "validation_files: must be"),
    ],
)
def test_an_sft_request_that_cannot_become_a_job_is_refused(change: dict[str, object], said: str) -> None:
    assert said in refused(Kind.SFT, {**TRAIN_SFT, **change})


def test_every_problem_is_said_at_once() -> None:
    said = refused(Kind.SFT, {"hyperparameters": {"n_epochs": -1, "warmup_ratio": 2}})
    assert [problem.split(":")[0] for problem in said.split("; ")] == [
        "model",
        "training_file_id",
        "hyperparameters.n_epochs",
        "hyperparameters.warmup_ratio",
    ]
