"""The body of a job request, encoded once.

Preview, fingerprint, every attempt and the backend see the same bytes (wire-contract §2.5 and §3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from synth_train.domain.model.jobs import FileId, Kind
from synth_train.domain.model.places import KeyPath, Problem, Severity, dotted
from synth_train.domain.model.plan import Plan

_ENCODER = msgspec.json.Encoder()


class RlRequest(Struct, frozen=True, kw_only=True):
    """`POST /rl/jobs`. Exactly one of `model` and `base_model` is set."""

    compute: dict[str, object]
    task_url: str
    """Without trailing slashes; `config.services.task_url` holds the same address as it was written."""
    config: dict[str, object]
    """The whole TOML, resolved: overrides applied, `services.task_url` and `reference.placement` filled in."""
    model: str | None
    base_model: str | None
    backend_base: str | None

    def encode(self) -> bytes:
        """The bytes to post."""
        data: dict[str, object] = {"endpoint_base_url": self.task_url, "config": self.config}
        if self.model is not None:
            data["model"] = self.model
        if self.base_model is not None:
            data["base_model"] = self.base_model
        body: dict[str, object] = {
            "job_type": "rl",
            "compute": self.compute,
            "data": data,
            "tags": {"source": "train-cli"},
        }
        if self.backend_base is not None:
            body["metadata"] = {"backend_base_url": self.backend_base}
        return _ENCODER.encode(body)


class SftRequest(Struct, frozen=True, kw_only=True):
    """`POST /learning/jobs`."""

    model: str
    hyperparameters: dict[str, object]
    effective_config: dict[str, object]
    """`compute`, `data` and `training` of wire-contract §3.5, without `data.validation_files`."""
    config: dict[str, object] | None
    """The whole resolved TOML, for backends whose `Features.takes_config` is true; None for the others."""
    validates: bool = False
    """Whether a validation set goes with it."""
    training_file: FileId | None = None
    validation_file: FileId | None = None

    def encode(self) -> bytes:
        """The bytes to post; before the upload, and in a dry run, the file ids are null."""
        effective = dict(self.effective_config)
        if self.validates:
            data = effective.get("data")
            known = data if isinstance(data, dict) else {}
            effective["data"] = {**known, "validation_files": [self.validation_file]}
        metadata: dict[str, object] = {"effective_config": effective}
        if self.config is not None:
            metadata["config"] = self.config
        return _ENCODER.encode(
            {
                "model": self.model,
                "training_type": "sft_offline",
                "training_file_id": self.training_file,
                "hyperparameters": self.hyperparameters,
                "metadata": metadata,
            }
        )


JobRequest = RlRequest | SftRequest

_COMPUTE = ("gpu_type", "gpu_count", "nodes")
_HYPERPARAMETERS = (
    "batch_size",
    "global_batch",
    "per_device_batch",
    "gradient_accumulation_steps",
    "sequence_length",
    "learning_rate",
    "warmup_ratio",
    "train_kind",
    "parallelism",
)
_VALIDATION = {
    "evaluation_strategy": "steps",
    "eval_steps": 0,
    "save_best_model_at_end": True,
    "metric_for_best_model": "val.loss",
    "greater_is_better": False,
}
_NOT_SENT: tuple[KeyPath, ...] = (
    ("job", "poll_seconds"),
    ("compute", "topology"),
    ("hyperparameters", "weight_decay"),
    ("lora",),
    ("tags",),
)


def request_of(plan: Plan, backend_base: str | None, takes_config: bool) -> JobRequest:
    """The request for a plan, before anything is uploaded.

    `[smoke]` is for the client alone and goes nowhere; `[local]` goes only to a backend that reads it.

    Args:
        plan: with its task URL settled, for RL.
        backend_base: told to the backend in `metadata`, for RL.
        takes_config: `Features.takes_config` of the backend.

    Raises:
        ValueError: the task URL of an RL plan is not settled.
    """
    kept = plan.table.keys() - {"smoke"} - (set() if takes_config else {"local"})
    table = {name: value for name, value in plan.table.items() if name in kept}
    if plan.kind is Kind.RL:
        return _rl_request(plan, table, backend_base)
    return _sft_request(plan, table, takes_config)


def not_sent(plan: Plan, takes_config: bool) -> tuple[Problem, ...]:
    """A warning for every known key of an SFT config that its request has no place for (wire-contract §3.5).

    Unknown keys are not among them: the plan's own warnings name those. `[metadata]` holds the user's notes, which
    are not missed on the other side.
    """
    if plan.kind is Kind.RL or takes_config:
        return ()
    what = "hosted backends do not get this: an SFT request has no place for it"
    lost = (path for path in _NOT_SENT if _at(plan.table, path) not in (None, {}))
    problems = (Problem(plan.place_of(path), dotted(path), what, Severity.WARNING) for path in lost)
    return tuple(sorted(problems, key=lambda problem: problem.place.line or 0))


def _rl_request(plan: Plan, table: dict[str, Any], backend_base: str | None) -> RlRequest:
    if plan.task_url is None:
        raise ValueError("the task URL is not settled")
    compute = table.get("compute", {})
    config = {
        **table,
        "services": {**table.get("services", {}), "task_url": plan.task_url.url},
        "reference": {"placement": "none"} | table.get("reference", {}),
    }
    if "topology" in compute:
        config["compute"] = {**compute, "topology": {"reference_placement": "none"} | compute["topology"]}
    return RlRequest(
        compute=compute,
        task_url=plan.task_url.url.rstrip("/"),
        config=config,
        model=None if plan.model_is_base else plan.model,
        base_model=plan.model if plan.model_is_base else None,
        backend_base=backend_base,
    )


def _sft_request(plan: Plan, table: dict[str, Any], takes_config: bool) -> SftRequest:
    training = table.get("training", {})
    hyperparameters = {"n_epochs": 1} | _only(table.get("hyperparameters", {}), "n_epochs", *_HYPERPARAMETERS)
    effective: dict[str, Any] = {
        "compute": _only(table.get("compute", {}), *_COMPUTE),
        "data": {"topology": table.get("data", {}).get("topology", {})},
        "training": _only(training, "mode", "use_qlora"),
    }
    if "validation" in training:
        hyperparameters |= _VALIDATION | _only(training["validation"], *_VALIDATION)
        effective["training"]["validation"] = {"enabled": training["validation"].get("enabled", True)}
    return SftRequest(
        model=plan.model,
        hyperparameters=hyperparameters,
        effective_config=effective,
        config=table if takes_config else None,
        validates=plan.validation is not None,
    )


def _only(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: table[key] for key in keys if key in table}


def _at(table: Mapping[str, Any], path: KeyPath) -> Any:
    value: Any = table
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
