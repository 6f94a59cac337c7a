"""The request of an SFT job, resolved: every key has an effect here, or is named in a warning."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

from synth_train.adapters.local.models import Method
from synth_train.adapters.local.sft.settings import Batch, Evaluation, Resolved, resolve
from synth_train.domain.model.hosting import Order, TrainingFailed
from synth_train.domain.model.jobs import FileId, Kind


def resolved(*, held_out: bool = False, config: dict[str, Any] | None = None, **body: Any) -> Resolved:
    """A request.

    Args:
        config: `metadata.config`.
        body: `hyperparameters`, and the tables of `metadata.effective_config`.
    """
    hyperparameters = body.pop("hyperparameters", {})
    metadata = {"effective_config": body} | ({"config": config} if config else {})
    whole = {"model": "tiny", "hyperparameters": hyperparameters, "metadata": metadata}
    return resolve(
        Order(
            kind=Kind.SFT,
            model="tiny",
            training_type="sft_offline",
            training_file=FileId("file_1"),
            validation_file=FileId("file_2") if held_out else None,
            body=json.dumps(whole).encode(),
        )
    )


def test_a_bare_request_gets_the_usual_values() -> None:
    settings = resolved().settings
    assert (settings.method, settings.epochs, settings.steps, settings.learning_rate) == (Method.FULL, 1, None, 2e-5)
    assert settings.batch == Batch(at_once=8)
    assert settings.evaluation.strategy == "no"
    assert resolved().warnings == ()
    assert resolve(Order(kind=Kind.SFT, model="tiny", training_type="sft_offline")).settings == settings


def test_what_the_wire_says_is_done() -> None:
    made = resolved(
        hyperparameters={
            "n_epochs": 3.0,
            "per_device_batch": 2,
            "gradient_accumulation_steps": 4,
            "sequence_length": 512,
            "learning_rate": 1e-4,
            "warmup_ratio": 0.1,
            "parallelism": {"bf16": False, "fp16": True, "activation_checkpointing": True},
        }
    )
    settings = made.settings
    assert made.warnings == ()
    assert (settings.epochs, settings.longest, settings.learning_rate, settings.warmup_ratio) == (3, 512, 1e-4, 0.1)
    assert settings.batch == Batch(at_once=2, times=4)
    assert settings.batch.rows == 8
    assert (settings.precision, settings.recompute) == ("float16", True)


def test_what_only_the_config_says_is_done_too() -> None:
    made = resolved(
        hyperparameters={"learning_rate": 1e-3},
        config={
            "hyperparameters": {"weight_decay": 0.1, "learning_rate": 5.0},
            "lora": {"r": 4, "alpha": 8, "dropout": 0.05, "target_modules": ["q_proj"]},
            "local": {
                "seed": 7,
                "threads": 2,
                "device": "cpu",
                "dtype": "float32",
                "checkpoint_steps": 9,
                "merge": True,
                "samples": 1,
            },
            "tags": {"a": 1},
        },
    )
    settings = made.settings
    assert made.warnings == ()
    assert (settings.weight_decay, settings.learning_rate) == (0.1, 1e-3)
    assert (settings.method, settings.lora.r, settings.merge) == (Method.LORA, 4, True)
    assert (settings.seed, settings.threads, settings.device, settings.dtype) == (7, 2, "cpu", "float32")
    assert (settings.checkpoint_steps, settings.samples) == (9, 1)
    assert made.table["local"]["seed"] == 7


@pytest.mark.parametrize(
    ("training", "hyperparameters", "config", "method"),
    [
        ({"mode": "lora"}, {}, {}, Method.LORA),
        ({"mode": "full_finetune"}, {}, {}, Method.FULL),
        ({"mode": "sft_offline"}, {"train_kind": "peft"}, {}, Method.LORA),
        ({"mode": "sft_offline"}, {"train_kind": "fft"}, {"lora": {"r": 2}}, Method.FULL),
        ({}, {}, {"algorithm": {"variety": "lora"}}, Method.LORA),
        ({}, {}, {"algorithm": {"variety": "fft"}}, Method.FULL),
        ({}, {}, {"lora": {"r": 2}}, Method.LORA),
        ({"use_qlora": True}, {}, {}, Method.QLORA),
        ({"use_qlora": True, "mode": "lora"}, {"train_kind": "peft"}, {"algorithm": {"variety": "lora"}}, Method.QLORA),
        ({"mode": " QLoRA "}, {}, {}, Method.QLORA),
    ],
)
def test_the_method_is_found_wherever_it_is_named(
    training: dict[str, Any], hyperparameters: dict[str, Any], config: dict[str, Any], method: Method
) -> None:
    assert resolved(training=training, hyperparameters=hyperparameters, config=config).settings.method is method


@pytest.mark.parametrize(("training_type", "method"), [("fft", Method.FULL), ("qft", Method.QLORA)])
def test_the_training_type_may_name_the_method(training_type: str, method: Method) -> None:
    order = Order(kind=Kind.SFT, model="tiny", training_type=training_type, body=b"{}")
    assert resolve(order).settings.method is method


@pytest.mark.parametrize(
    ("hyperparameters", "batch", "warned"),
    [
        ({"batch_size": 4}, Batch(at_once=4), ""),
        ({"per_device_batch": 4}, Batch(at_once=4), ""),
        ({"gradient_accumulation_steps": 3}, Batch(at_once=8, times=3), ""),
        ({"global_batch": 4}, Batch(at_once=4), ""),
        ({"global_batch": 64}, Batch(at_once=8, times=8), ""),
        ({"global_batch": 13}, Batch(at_once=1, times=13), ""),
        ({"global_batch": 32, "per_device_batch": 4}, Batch(at_once=4, times=8), ""),
        ({"global_batch": 32, "batch_size": 4}, Batch(at_once=4, times=8), ""),
        ({"batch_size": 32, "per_device_batch": 4}, Batch(at_once=4, times=8), ""),
        ({"batch_size": 4, "gradient_accumulation_steps": 2}, Batch(at_once=4, times=2), ""),
        ({"global_batch": 8, "gradient_accumulation_steps": 2}, Batch(at_once=4, times=2), ""),
        ({"global_batch": 8, "per_device_batch": 4, "gradient_accumulation_steps": 2}, Batch(at_once=4, times=2), ""),
        ({"global_batch": 8, "per_device_batch": 4, "batch_size": 8}, Batch(at_once=4, times=2), ""),
        ({"global_batch": 8, "per_device_batch": 3}, Batch(at_once=2, times=4), "hyperparameters.per_device_batch"),
        ({"global_batch": 8, "batch_size": 3}, Batch(at_once=2, times=4), "hyperparameters.batch_size"),
        ({"global_batch": 2, "per_device_batch": 4}, Batch(at_once=2), "hyperparameters.per_device_batch"),
        (
            {"global_batch": 9, "gradient_accumulation_steps": 2},
            Batch(at_once=4, times=2),
            "hyperparameters.global_batch",
        ),
        (
            {"global_batch": 9, "per_device_batch": 4, "gradient_accumulation_steps": 2},
            Batch(at_once=4, times=2),
            "hyperparameters.global_batch",
        ),
        (
            {"batch_size": 9, "per_device_batch": 4, "gradient_accumulation_steps": 2},
            Batch(at_once=4, times=2),
            "hyperparameters.batch_size",
        ),
        (
            {"global_batch": 8, "per_device_batch": 4, "batch_size": 5},
            Batch(at_once=4, times=2),
            "hyperparameters.batch_size",
        ),
    ],
)
def test_the_words_for_a_batch_go_together(hyperparameters: dict[str, int], batch: Batch, warned: str) -> None:
    made = resolved(hyperparameters=hyperparameters)
    assert made.settings.batch == batch
    assert [warning.partition(":")[0] for warning in made.warnings] == ([warned] if warned else [])


def test_a_number_of_steps_decides_before_epochs_do() -> None:
    made = resolved(hyperparameters={"n_epochs": 2, "total_steps": 70})
    assert made.settings.steps == 70
    assert made.warnings == ("hyperparameters.n_epochs: the number of steps is given too, and decides: 70",)
    assert resolved(hyperparameters={"n_epochs": 1, "steps": 70}).warnings == ()


VALIDATION = {"training": {"validation": {"enabled": True}}}
ON_THE_WIRE = {
    "evaluation_strategy": "steps",
    "eval_steps": 0,
    "save_best_model_at_end": True,
    "metric_for_best_model": "val.loss",
    "greater_is_better": False,
}


@pytest.mark.parametrize(
    ("hyperparameters", "body", "evaluation"),
    [
        ({}, {}, Evaluation()),
        (ON_THE_WIRE, VALIDATION, Evaluation(keep_best=True)),
        ({}, VALIDATION, Evaluation(keep_best=True)),
        (
            {**ON_THE_WIRE, "eval_steps": 5, "save_best_model_at_end": False},
            VALIDATION,
            Evaluation(every=5),
        ),
        ({**ON_THE_WIRE, "evaluation_strategy": "epoch"}, VALIDATION, Evaluation(strategy="epoch", keep_best=True)),
        ({**ON_THE_WIRE, "evaluation_strategy": "no"}, VALIDATION, Evaluation(strategy="no")),
        (
            {**ON_THE_WIRE, "metric_for_best_model": "val.accuracy", "greater_is_better": True},
            VALIDATION,
            Evaluation(keep_best=True, metric="val.accuracy", greater_is_better=True),
        ),
        ({**ON_THE_WIRE, "metric_for_best_model": "eval_loss"}, VALIDATION, Evaluation(keep_best=True)),
        (ON_THE_WIRE, {"training": {"validation": {"enabled": False}}}, Evaluation(strategy="no")),
    ],
)
def test_validation_is_done_as_asked(
    hyperparameters: dict[str, Any], body: dict[str, Any], evaluation: Evaluation
) -> None:
    made = resolved(held_out=True, hyperparameters=hyperparameters, **body)
    settings = made.settings.evaluation
    if evaluation.strategy == "no":
        assert settings.strategy == "no"
    else:
        assert settings == evaluation
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"hyperparameters": {"n_epoch": 2}}, "hyperparameters.n_epoch", "no effect"),
        ({"hyperparameters": {"parallelism": {"zero": 1}}}, "hyperparameters.parallelism.zero", "no effect"),
        (
            {"hyperparameters": {"parallelism": {"use_deepspeed": True}}},
            "hyperparameters.parallelism.use_deepspeed",
            "one device",
        ),
        (
            {"hyperparameters": {"parallelism": {"deepspeed_stage": 2}}},
            "hyperparameters.parallelism.deepspeed_stage",
            "one device",
        ),
        (
            {"hyperparameters": {"parallelism": {"bf16": True, "fp16": True}}},
            "hyperparameters.parallelism.fp16",
            "bf16 is asked for as well",
        ),
        ({"hyperparameters": {"parallelism": {"fsdp": True}}}, "hyperparameters.parallelism.fsdp", "one device"),
        (
            {"hyperparameters": {"parallelism": {"tensor_parallel_size": 2}}},
            "hyperparameters.parallelism.tensor_parallel_size",
            "one device",
        ),
        (
            {"hyperparameters": {"parallelism": {"pipeline_parallel_size": 2}}},
            "hyperparameters.parallelism.pipeline_parallel_size",
            "one device",
        ),
        ({"hyperparameters": {"train_kind": "magic"}}, "hyperparameters.train_kind", "'magic' is no method"),
        (
            {"training": {"mode": "lora"}, "hyperparameters": {"train_kind": "fft"}},
            "hyperparameters.train_kind",
            "training.mode asks for lora",
        ),
        ({"config": {"algorithm": {"variety": "fft"}, "lora": {"r": 2}}}, "lora", "whole model is trained"),
        ({"config": {"local": {"merge": True}}}, "local.merge", "nothing to merge"),
        ({"config": {"lora": {"r": 2, "rslora": True}}}, "lora.rslora", "no effect"),
        ({"config": {"local": {"sed": 2}}}, "local.sed", "no effect"),
        ({"config": {"compute": {"topology": {"type": "split"}}}}, "compute.topology", "one device"),
        ({"compute": {"gpu_count": 8}}, "compute.gpu_count", "8 GPUs"),
        ({"compute": {"nodes": 2}}, "compute.nodes", "2 machines"),
        ({"data": {"topology": {"container_count": 4}}}, "data.topology", "one device"),
        ({**VALIDATION}, "training.validation", "no validation rows"),
        (
            {**VALIDATION, "held_out": True, "hyperparameters": {"evaluation_strategy": "daily"}},
            "training.validation.evaluation_strategy",
            "validating by steps",
        ),
        (
            {**VALIDATION, "held_out": True, "hyperparameters": {"metric_for_best_model": "bleu"}},
            "training.validation.metric_for_best_model",
            "not measured here",
        ),
    ],
)
def test_what_has_no_effect_is_named(given: dict[str, Any], path: str, words: str) -> None:
    (warning,) = resolved(**given).warnings
    assert warning.startswith(f"{path}: ")
    assert words in warning


def test_an_integration_is_named_too() -> None:
    body = {"model": "tiny", "integrations": [{"type": "wandb"}]}
    made = resolve(Order(kind=Kind.SFT, model="tiny", training_type="sft_offline", body=json.dumps(body).encode()))
    assert made.warnings == ("integrations: not known here, so it has no effect",)


def test_what_means_nothing_here_is_passed_over_without_a_word() -> None:
    made = resolved(
        hyperparameters={"parallelism": {"use_deepspeed": False, "deepspeed_stage": 0, "tensor_parallel_size": 1}},
        compute={"gpu_type": "H100", "gpu_count": 1, "nodes": 1},
        data={"topology": {}},
    )
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("parallelism", "precision"),
    [({}, None), ({"bf16": True}, "bfloat16"), ({"bf16": False}, "float32"), ({"fp16": False}, None)],
)
def test_the_precision_is_what_parallelism_asks_for(parallelism: dict[str, bool], precision: str | None) -> None:
    assert resolved(hyperparameters={"parallelism": parallelism}).settings.precision == precision


def test_all_values_of_the_wrong_kind_are_named_at_once() -> None:
    with pytest.raises(TrainingFailed) as failed:
        resolved(hyperparameters={"weight_decay": "much"}, config={"lora": {"r": 0}, "local": {"threads": "all"}})
    text = str(failed.value)
    assert "hyperparameters.weight_decay: expected a number" in text
    assert "lora.r: must be at least 1" in text
    assert "local.threads: expected a whole number" in text
