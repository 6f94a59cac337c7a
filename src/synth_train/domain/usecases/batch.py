"""Several configs in turn: which of them run, what each comes to, and when the rest is not begun (design §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import cast

from msgspec import Struct

from synth_train.domain.model.errors import (
    BackendBusy,
    BackendUnreachable,
    CredentialsError,
    InvalidConfig,
    InvalidDataset,
    LocalStateError,
    OutcomeUnknown,
    TrainingError,
    UsageError,
)
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.moments import ConfigBegun, ConfigFailed
from synth_train.domain.model.plan import Plan
from synth_train.ports.progress import ProgressPort

_ENDS_THE_RUN = (
    InvalidConfig,
    InvalidDataset,
    CredentialsError,
    LocalStateError,
    BackendBusy,
    BackendUnreachable,
    OutcomeUnknown,
)
"""Errors after which the configs that follow are not begun: what was asked for is wrong, or the same would befall them.
A task app that is down, a job that the backend refuses and a watch that took too long concern one config alone."""


class ConfigResult(Struct, frozen=True, kw_only=True):
    """What became of one config."""

    config: str
    kind: Kind | None = None
    job_id: JobId | None = None
    word: str = ""
    """Status last seen."""
    phase: Phase | None = None
    """None when the job was not watched to its end."""
    reason: str = ""
    """Why it ended so, when the backend says."""
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


class Turn:
    """One config on its way from a file to a result: first it has neither plan nor result, then one, then both."""

    def __init__(self, config: str, ordinal: int, of: int) -> None:
        self.config = config
        self.ordinal = ordinal
        self.of = of
        self.plan: Plan | None = None
        self.result: ConfigResult | None = None

    def key(self, users: IdempotencyKey | None) -> IdempotencyKey | None:
        """The user's key for this config: `K`, `K-2`, `K-3`."""
        return users if users is None or self.ordinal == 1 else IdempotencyKey(f"{users}-{self.ordinal}")


class Batch:
    """Configs in the order they were given. Only those before the first broken one go on."""

    def __init__(self, configs: Sequence[str], progress: ProgressPort) -> None:
        self._turns = [Turn(config, ordinal, len(configs)) for ordinal, config in enumerate(configs, 1)]
        self._progress = progress

    @property
    def sound(self) -> list[Turn]:
        """The turns before the first that has come to a result, all of which have a plan once `plan` has returned."""
        return list(takewhile(lambda turn: turn.result is None, self._turns))

    @property
    def plans(self) -> list[Plan]:
        """The plans of all configs that have one, of those behind a broken one too."""
        return [turn.plan for turn in self._turns if turn.plan is not None]

    @property
    def all_planned(self) -> bool:
        """Whether no config is broken."""
        return len(self.plans) == len(self._turns)

    def plan(self, plan: Callable[[Turn], Plan]) -> None:
        """Let `plan` make, or change, the plan of every config that is not broken."""
        for turn in self._turns:
            if turn.result is None:
                with self._kept_in(turn):
                    turn.plan = plan(turn)

    def go_through(self, act: Callable[[Turn, Plan], ConfigResult]) -> None:
        """Let every sound config have its turn, until an error befalls one that would befall the next as well."""
        for turn in self.sound:
            if turn.of > 1:
                self._progress.tell(ConfigBegun(config=turn.config, ordinal=turn.ordinal, of=turn.of))
            with self._kept_in(turn):
                turn.result = act(turn, cast("Plan", turn.plan))
            if isinstance(turn.result.error, _ENDS_THE_RUN):
                return

    def results(self) -> tuple[ConfigResult, ...]:
        """What became of each; a config that never had its turn was skipped."""
        return tuple(turn.result or ConfigResult(config=turn.config, skipped=True) for turn in self._turns)

    @contextmanager
    def _kept_in(self, turn: Turn) -> Iterator[None]:
        """Keep an error as the result of its config, and tell of it at once when there are others."""
        try:
            yield
        except UsageError:
            raise
        except TrainingError as error:
            turn.result = ConfigResult(
                config=turn.config, kind=turn.plan.kind if turn.plan is not None else None, error=error
            )
            if turn.of > 1:
                self._progress.tell(ConfigFailed(config=turn.config, error=error))
