"""The body of a job request, encoded once.

Preview, fingerprint, every attempt and the backend see the same bytes (wire-contract §2.5 and §3.5).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from synth_train.domain.model.jobs import FileId

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
