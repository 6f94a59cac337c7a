"""What an SFT job is to do here: its request, resolved. What has no effect on this machine is said, never dropped.

The request comes in two parts that say the same things: what every backend is sent (wire-contract §3.5), and, from
clients that know this backend, the whole resolved TOML in `metadata.config` (design §5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from synth_train.adapters.local.models import Method
from synth_train.domain.model.config.check import check
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.config.sft import Hyperparameters, Parallelism, SftConfig, SftLocal
from synth_train.domain.model.config.tables import Lora
from synth_train.domain.model.hosting import Order, TrainingFailed
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import Severity, dotted

ROWS_AT_ONCE = 8
"""Rows that go through the model together, unless the request says how many."""

LONGEST = 2048
"""Tokens that a row may have, unless the request says how many; fewer if the model reads fewer."""

SAMPLES = 3
"""Rows that the model answers, unless the request says how many."""

LEARNING_RATES = {Method.FULL: 2e-5, Method.LORA: 2e-4, Method.QLORA: 2e-4}
"""What is usual for each method. A fresh adapter has to go farther than trained weights."""

_STEPS = ("total_steps", "train_steps", "steps")
"""What the public library builder calls the number of updates (wire-contract §3.5)."""

_METHODS = {
    **dict.fromkeys(("full", "fft", "full_finetune", "full_finetuning", "full_fine_tune"), Method.FULL),
    **dict.fromkeys(("lora", "peft"), Method.LORA),
    **dict.fromkeys(("qlora", "qft"), Method.QLORA),
}
_NO_METHOD = ("", "sft", "sft_offline")
"""Words that stand where a method may stand and name none."""

_STRATEGIES = ("steps", "epoch", "no")
_VAL_LOSS = ("val.loss", "val_loss", "eval_loss", "eval.loss", "loss")
_VAL_ACCURACY = ("val.accuracy", "eval_accuracy", "eval_mean_token_accuracy", "mean_token_accuracy")


class Batch(Struct, frozen=True, kw_only=True):
    """How many rows one update is made of."""

    at_once: int
    """Rows that go through the model together."""
    times: int = 1
    """How often, before the weights are changed."""

    @property
    def rows(self) -> int:
        """Rows of one update."""
        return self.at_once * self.times


class Evaluation(Struct, frozen=True, kw_only=True):
    """When the held-out rows are looked at, and what follows from it."""

    strategy: str = "steps"
    """`steps`, `epoch` or `no`."""
    every: int = 0
    """Steps from one look to the next; 0 for ten looks in the whole run."""
    keep_best: bool = False
    """Whether the weights of the best look are the result."""
    metric: str = "val.loss"
    """By which the best look is found: `val.loss` or `val.accuracy`."""
    greater_is_better: bool = False


class Settings(Struct, frozen=True, kw_only=True):
    """How a job trains."""

    model: str
    method: Method
    lora: Lora = Lora()
    merge: bool = False
    seed: int = 0
    threads: int | None = None
    device: str | None = None
    dtype: str | None = None
    """As `[local]` names it."""
    precision: str | None = None
    """As `parallelism` asks for it, in the words of `dtype`; None when it does not say."""
    recompute: bool = False
    """Whether activations are computed again instead of kept."""
    epochs: int = 1
    steps: int | None = None
    """Updates in all; decides before `epochs` does."""
    batch: Batch
    longest: int | None = None
    """Tokens that a row may have."""
    learning_rate: float
    warmup_ratio: float = 0.0
    weight_decay: float = 0.0
    evaluation: Evaluation = Evaluation()
    checkpoint_steps: int | None = None
    """Steps from one checkpoint to the next; None for about a minute."""
    samples: int = SAMPLES
    """Rows that the model answers before and after."""


class Resolved(Struct, frozen=True, kw_only=True):
    """A request that has been read."""

    settings: Settings
    warnings: tuple[str, ...]
    """Each names a key whose value has no effect, or another than it says."""
    table: dict[str, Any]
    """What the settings were read from, as it would stand in a TOML."""


def resolve(order: Order) -> Resolved:
    """Read the request of an SFT job.

    Raises:
        TrainingFailed: a value is of the wrong type or out of bounds. The text names all of them.
    """
    body = msgspec.json.decode(order.body)
    table, steps = _table_of(body)
    checked = check(table, Kind.SFT, UnknownKeys.WARNINGS)
    wrong = [f"{dotted(found.path)}: {found.what}" for found in checked.findings if found.severity is Severity.ERROR]
    if wrong:
        raise TrainingFailed("; ".join(wrong))
    unknown = [dotted(found.path) for found in checked.findings if found.of_unknown_key]
    for name, view in (("lora", Lora), ("local", SftLocal)):
        unknown += [f"{name}.{key}" for key in checked.table.get(name, {}) if key not in view.__struct_fields__]
    if body.get("integrations"):
        unknown.append("integrations")
    reading = _Reading(msgspec.convert(checked.table, SftConfig), order.training_type)
    settings = reading.settings(order.model, steps, validates=order.validation_file is not None)
    reading.without_effect(unknown)
    return Resolved(settings=settings, warnings=tuple(reading.warnings), table=checked.table)


def _table_of(body: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The request as one table, and the number of steps if it names one."""
    metadata = _dict(body.get("metadata"))
    effective, config = _dict(metadata.get("effective_config")), _dict(metadata.get("config"))
    hyperparameters = {**_dict(config.get("hyperparameters")), **_dict(body.get("hyperparameters"))}
    training = {**_dict(config.get("training")), **_dict(effective.get("training"))}
    validation = {**_dict(_dict(config.get("training")).get("validation")), **_dict(training.get("validation"))}
    for name in ("evaluation_strategy", "eval_steps", "save_best_model_at_end", "metric_for_best_model",
                 "greater_is_better"):  # fmt: skip
        if name in hyperparameters:  # where the wire has them
            validation[name] = hyperparameters.pop(name)
    steps = [value for name in _STEPS if type(value := hyperparameters.pop(name, None)) is int]
    table = {
        "algorithm": config.get("algorithm"),
        "compute": {**_dict(config.get("compute")), **_dict(effective.get("compute"))},
        "data": {"topology": _dict(effective.get("data")).get("topology")},
        "training": training | {"validation": validation or None},
        "hyperparameters": hyperparameters,
        "lora": config.get("lora"),
        "local": config.get("local"),
    }
    return _without_nulls(table), steps[0] if steps else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _without_nulls(table: dict[str, Any]) -> dict[str, Any]:
    """The table without what JSON can say and TOML cannot."""
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


T = TypeVar("T")


def _or(value: T | UnsetType, default: T) -> T:
    return default if isinstance(value, UnsetType) else value


def _given(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


class _Reading:
    """One request on its way to settings."""

    def __init__(self, config: SftConfig, training_type: str) -> None:
        self._config = config
        self._training_type = training_type
        self.warnings: list[str] = []

    def settings(self, model: str, steps: int | None, *, validates: bool) -> Settings:
        config, asked = self._config, self._config.hyperparameters
        local, parallelism = config.local or SftLocal(), asked.parallelism or Parallelism()
        method = self._method()
        if method is Method.FULL and config.lora:
            self._say("lora", "the whole model is trained, so the adapter's settings have no effect")
        merge = _or(local.merge, False)
        if merge and method is Method.FULL:
            self._say("local.merge", "the whole model is trained, so there is nothing to merge")
        if steps is not None and asked.n_epochs is not UNSET and asked.n_epochs != 1:
            self._say("hyperparameters.n_epochs", f"the number of steps is given too, and decides: {steps}")
        return Settings(
            model=model,
            method=method,
            lora=config.lora or Lora(),
            merge=merge and method is not Method.FULL,
            seed=_or(local.seed, 0),
            threads=_given(local.threads),
            device=_given(local.device),
            dtype=_given(local.dtype),
            precision=self._precision(parallelism),
            recompute=_or(parallelism.activation_checkpointing, False),
            epochs=_or(asked.n_epochs, 1),
            steps=steps,
            batch=self._batch(asked),
            longest=_given(asked.sequence_length),
            learning_rate=_or(asked.learning_rate, LEARNING_RATES[method]),
            warmup_ratio=_or(asked.warmup_ratio, 0.0),
            weight_decay=_or(asked.weight_decay, 0.0),
            evaluation=self._evaluation(validates),
            checkpoint_steps=_given(local.checkpoint_steps),
            samples=_or(local.samples, SAMPLES),
        )

    def _say(self, path: str, what: str) -> None:
        self.warnings.append(f"{path}: {what}")

    # ---- which weights

    def _method(self) -> Method:
        """The first place that names a method decides; one that names another is warned of."""
        training, asked, algorithm = self._config.training, self._config.hyperparameters, self._config.algorithm
        places = [
            ("training.use_qlora", "qlora" if _or(training.use_qlora, False) else ""),
            ("training.mode", _or(training.mode, "")),
            ("hyperparameters.train_kind", _or(asked.train_kind, "")),
            ("algorithm.variety", _or(algorithm.variety, "")),
            ("training_type", "" if self._training_type.startswith("sft") else self._training_type),
        ]
        named: list[tuple[str, Method]] = []
        for path, word in places:
            method = _METHODS.get(word.strip().lower())
            if method is not None:
                named.append((path, method))
            elif word.strip().lower() not in _NO_METHOD:
                self._say(path, f"{word!r} is no method known here ({', '.join(_METHODS)}), so it has no effect")
        if not named:
            return Method.LORA if self._config.lora else Method.FULL
        (decider, decided), *others = named
        for path, method in others:
            # QLoRA is a kind of LoRA, so the more general word agrees with it.
            if method is not decided and (decided, method) != (Method.QLORA, Method.LORA):
                self._say(path, f"asks for {method.value}, but {decider} asks for {decided.value}, which is done")
        return decided

    def _precision(self, asked: Parallelism) -> str | None:
        if _or(asked.bf16, False):
            if _or(asked.fp16, False):
                self._say("hyperparameters.parallelism.fp16", "bf16 is asked for as well, and decides")
            return "bfloat16"
        if _or(asked.fp16, False):
            return "float16"
        return "float32" if asked.bf16 is False else None

    # ---- how many rows

    def _batch(self, asked: Hyperparameters) -> Batch:
        """`per_device_batch` (or `batch_size`) times `gradient_accumulation_steps` make `global_batch`."""
        at_once, times = _given(asked.per_device_batch), _given(asked.gradient_accumulation_steps)
        rows, batch_size = _given(asked.global_batch), _given(asked.batch_size)
        whole = "global_batch"
        if batch_size is not None:
            if at_once is None:
                at_once = batch_size
            elif rows is None:
                rows, whole = batch_size, "batch_size"
            elif batch_size not in (at_once, rows):
                self._say("hyperparameters.batch_size", "global_batch and per_device_batch decide, so it has no effect")
        if rows is None:
            return Batch(at_once=at_once or ROWS_AT_ONCE, times=times or 1)
        if times is not None and at_once is not None:
            if at_once * times != rows:
                what = (
                    f"{rows} is not {at_once} × {times} rows (gradient_accumulation_steps), which an update is made of"
                )
                self._say(f"hyperparameters.{whole}", what)
            return Batch(at_once=at_once, times=times)
        if times is not None:
            if rows % times:
                what = f"{rows} rows cannot be split into {times} equal batches (gradient_accumulation_steps)"
                self._say(f"hyperparameters.{whole}", f"{what}: {rows // times or 1} rows are taken at once")
            return Batch(at_once=rows // times or 1, times=times)
        most = min(at_once or ROWS_AT_ONCE, rows)
        fitting = next(number for number in range(most, 0, -1) if rows % number == 0)
        if at_once not in (None, fitting):
            path = "hyperparameters.per_device_batch" if asked.per_device_batch else "hyperparameters.batch_size"
            self._say(path, f"{rows} rows ({whole}) cannot be made of {at_once} at once: {fitting} are taken")
        return Batch(at_once=fitting, times=rows // fitting)

    # ---- validation

    def _evaluation(self, validates: bool) -> Evaluation:
        asked = self._config.training.validation
        if not asked:
            return Evaluation() if validates else Evaluation(strategy="no")
        enabled = _or(asked.enabled, True)
        if not validates:
            if enabled:
                self._say("training.validation", "no validation rows came with the job (data.validation_path)")
            return Evaluation(strategy="no")
        if not enabled:
            return Evaluation(strategy="no")
        strategy = _or(asked.evaluation_strategy, "steps").strip().lower()
        if strategy not in _STRATEGIES:
            self._say(
                "training.validation.evaluation_strategy",
                f"{strategy!r} is none of {', '.join(_STRATEGIES)}: validating by steps",
            )
            strategy = "steps"
        metric = _or(asked.metric_for_best_model, "val.loss").strip().lower()
        greater = _or(asked.greater_is_better, False)
        if metric not in (*_VAL_LOSS, *_VAL_ACCURACY):
            self._say(
                "training.validation.metric_for_best_model",
                f"{metric!r} is not measured here (val.loss and val.accuracy are): the best is found by val.loss",
            )
            metric, greater = "val.loss", False
        return Evaluation(
            strategy=strategy,
            every=_or(asked.eval_steps, 0),
            keep_best=strategy != "no" and _or(asked.save_best_model_at_end, True),
            metric="val.accuracy" if metric in _VAL_ACCURACY else "val.loss",
            greater_is_better=greater,
        )

    # ---- what has no effect

    def without_effect(self, unknown: list[str]) -> None:
        """Name what the request asks for and this backend has not."""
        compute, parallelism = self._config.compute, self._config.hyperparameters.parallelism
        for path in unknown:
            self._say(path, "not known here, so it has no effect")
        if _or(compute.gpu_count, 0) > 1:
            self._say("compute.gpu_count", f"{compute.gpu_count} GPUs are asked for; this backend trains on one device")
        if _or(compute.nodes, 1) > 1:
            self._say("compute.nodes", f"{compute.nodes} machines are asked for; this backend trains on this one")
        for path, topology in (
            ("compute.topology", bool(compute.topology)),
            ("data.topology", bool(self._config.data.topology)),
        ):
            if topology:
                self._say(path, "this backend trains on one device, so it has no effect")
        if not parallelism:
            return
        for name, asks in (
            ("use_deepspeed", bool(parallelism.use_deepspeed)),
            ("deepspeed_stage", _or(parallelism.deepspeed_stage, 0) > 0),
            ("fsdp", bool(parallelism.fsdp)),
            ("tensor_parallel_size", _or(parallelism.tensor_parallel_size, 1) > 1),
            ("pipeline_parallel_size", _or(parallelism.pipeline_parallel_size, 1) > 1),
        ):
            if asks:
                path = f"hyperparameters.parallelism.{name}"
                self._say(path, "this backend trains on one device, so it has no effect")
