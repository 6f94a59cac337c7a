"""A config that can become a job: everything is checked but the keys, the task app and the rows."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import Problem


class TaskUrl(Struct, frozen=True):
    """Address of a task app, and who gave it."""

    url: str
    source: str
    """Such as `--task-url`, `grpo.toml:12` or `TASK_APP_URL in ./.env`, for showing."""


class Plan(Struct, frozen=True, kw_only=True):
    """One config, resolved."""

    kind: Kind
    config: str
    """Path of the TOML as the user wrote it."""
    path: Path
    """Absolute path of the TOML."""
    table: dict[str, object]
    """The whole TOML with overrides applied, unknown keys included."""
    model: str
    """Canonical catalogue id, or a fine-tuned id as it was given."""
    model_is_base: bool
    """RL: whether it goes out as `base_model` or as `model`."""
    task_url: TaskUrl | None = None
    """RL; None as long as only an env file can tell."""
    dataset: Path | None = None
    """SFT: absolute."""
    validation: Path | None = None
    examples: int | None = None
    """SFT: upload only so many rows."""
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    """What was decided for the user: a default algorithm, a path taken from the working directory."""
