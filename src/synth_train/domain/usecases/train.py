"""The whole command as one call: plan every config, find the keys, then submit and watch one after the other."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.errors import TrainingError
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind, Phase


class UnknownKeys(str, Enum):
    """What an unknown TOML key is."""

    BY_LIKENESS = "by likeness"
    """An error when it looks like a misspelt known key, else a warning."""
    ERRORS = "errors"
    WARNINGS = "warnings"


class TrainRequest(Struct, frozen=True, kw_only=True):
    """What the user asks for. Every field is an option of `synth-ai train`."""

    configs: tuple[Path, ...] = ()
    """Empty: discover, and let the prompt choose."""
    kind: Kind | None = None
    """None: inferred from each config."""
    env_files: tuple[Path, ...] = ()
    task_url: str | None = None
    dataset: str | None = None
    backend: str | None = None
    model: str | None = None
    allow_experimental: bool | None = None
    """None: `SDK_EXPERIMENTAL` decides."""
    key: IdempotencyKey | None = None
    dry_run: bool = False
    poll: bool = True
    poll_timeout: float = 3600.0
    """Seconds, for the files and for the job each."""
    poll_interval: float = 5.0
    examples: int | None = None
    overrides: tuple[str, ...] = ()
    """Each as `a.b.c=TOML value`."""
    unknown_keys: UnknownKeys = UnknownKeys.BY_LIKENESS
    fresh: bool = False
    """Leave a submission that stopped half-way alone and begin a new one."""
    mint: bool = False
    """Replace an ENVIRONMENT_API_KEY that the backend already holds."""
    insecure_http: bool = False
    """Allow plain HTTP to a host that is not loopback."""


class ConfigResult(Struct, frozen=True, kw_only=True):
    """What became of one config."""

    config: str
    kind: Kind | None = None
    job_id: JobId | None = None
    word: str = ""
    """Status last seen."""
    phase: Phase | None = None
    """None when the job was not watched to its end."""
    fine_tuned_model: str | None = None
    payload: bytes | None = None
    """Dry run: the body that would be sent."""
    error: TrainingError | None = None
    skipped: bool = False
    """An earlier config was broken, so this one was not begun."""

    @property
    def ok(self) -> bool:
        """Whether all that was asked for was done."""
        return self.error is None and not self.skipped and self.phase in (None, Phase.SUCCEEDED)
