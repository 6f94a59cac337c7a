"""The client's own look at a task app. In memory: `adapters.in_memory.task_app.InMemoryTaskApp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys

PROBE_TIME = 10.0
"""Seconds that one probe may take (wire-contract §1.3)."""


class TaskAppPort(Protocol):
    """A service that plays the environment (wire-contract §7).

    Each call is one GET of at most `within` seconds in all, following at most 3 redirects on the same origin. Nothing
    is raised for what the app does: a `Probe` says it. The keys go to this origin only, and no probe holds one.
    """

    def health(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        """GET `{task_url}/health`. A path in the URL is kept, a slash at its end does not count."""
        ...

    def task_info(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        """GET `{task_url}/task_info`, without a seed."""
        ...


class TaskAppDialogue(Protocol):
    """Any route of a task app, for somebody who wants to know what it does. In memory:
    `adapters.in_memory.played_task_app.PlayedTaskApp`.

    Nothing is raised for what the app does, and no probe holds a key.
    """

    def ask(
        self,
        method: str,
        task_url: str,
        route: str,
        keys: TaskAppKeys | None,
        *,
        body: bytes | None = None,
        within: float,
        hidden: Sequence[Secret] = (),
    ) -> Probe:
        """One request of at most `within` seconds.

        Args:
            method: `GET` or `POST`.
            route: below the URL, with a query if need be; empty for the root.
            keys: None presents none.
            body: JSON, for a POST.
            hidden: keys that are not sent, and masked in the reply all the same.
        """
        ...
