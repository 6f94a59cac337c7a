"""A config that can become a job: everything is checked but the keys, the task app and the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from synth_train.domain.model.addresses import address, without_credentials
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import KeyPath, Place, Problem, dotted
from synth_train.domain.model.secret import WINDOW, Secret, redact

if TYPE_CHECKING:
    from synth_train.domain.model.config.rl import RlConfig
    from synth_train.domain.model.config.sft import SftConfig


class TaskUrl(Struct, frozen=True):
    """Address of a task app, and who gave it."""

    url: str
    source: str
    """Such as `--task-url`, `grpo.toml:12` or `TASK_APP_URL in ./.env`, for showing."""

    @property
    def fault(self) -> str | None:
        """Why no task app can be there, in words that do not repeat the address: it may hold a password."""
        if without_credentials(self.url) != self.url:
            return "take the user name and password out: they would be sent to the backend and shown"
        try:
            address(self.url)
        except ValueError as error:
            return f"the address {error}"
        return None

    def same_as(self, other: TaskUrl) -> bool:
        """Whether both are one address; a slash at the end does not count."""
        return self.url.rstrip("/") == other.url.rstrip("/")


class Plan(Struct, frozen=True, kw_only=True):
    """One config, resolved."""

    kind: Kind
    config: str
    """Path of the TOML as the user wrote it."""
    path: Path
    """Absolute path of the TOML."""
    table: dict[str, Any]
    """The whole TOML as JSON can carry it: overrides and the default algorithm applied, unknown keys included."""
    view: RlConfig | SftConfig
    """The same, typed, without the unknown keys."""
    place_of: Callable[[KeyPath], Place]
    """Where a key of `table` stands. Slow; for messages only."""
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


def secrets_in(plan: Plan, secrets: Iterable[Secret]) -> tuple[Problem, ...]:
    """A problem for every place of a config that holds one of `secrets`: it would be sent, shown and kept.

    A secret shorter than `WINDOW` characters is only found where it is the whole text.
    """
    held = tuple(secret for secret in secrets if secret)
    what = "this is the value of a key, which must not stand in a config; take it out, keys belong in an env file"
    paths = _holding(plan.table, (), tuple(secret.reveal() for secret in held))
    return tuple(Problem(plan.place_of(path), redact(dotted(path), held), what) for path in paths)


def _holding(value: object, path: KeyPath, texts: tuple[str, ...]) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, item in value.items():
            if _shows(key, texts):
                yield (*path, key)
            else:
                yield from _holding(item, (*path, key), texts)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _holding(item, (*path, index), texts)
    elif isinstance(value, str) and _shows(value, texts):
        yield path


def _shows(text: str, texts: tuple[str, ...]) -> bool:
    return any(secret in text if len(secret) >= WINDOW else secret == text for secret in texts)
