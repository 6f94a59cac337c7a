"""A policy that a task app can ask. In memory: `adapters.in_memory.played_task_app.InMemoryPolicy`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from synth_train.domain.model.scripted_policy import Asked


class ServedPolicy(Protocol):
    """A policy under way."""

    @property
    def url(self) -> str:
        """`http://host:port`, without a path: below it everything is answered."""
        ...

    def asked(self) -> Sequence[Asked]:
        """What it was asked up to now, in order."""
        ...


class PolicyPort(Protocol):
    """Serves a policy that follows a script: `domain.model.scripted_policy` has it.

    It answers every POST on this machine's loopback, by `completion_for`; below a path that begins with `/failing`
    with 500.
    """

    def serving(self) -> AbstractContextManager[ServedPolicy]:
        """Served while the block lasts."""
        ...
