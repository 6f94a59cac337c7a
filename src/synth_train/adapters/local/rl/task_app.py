"""Asking a task app for rollouts (wire-contract §7.3)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import msgspec
from msgspec import Struct

from synth_train.adapters.http.reading import decoded, excerpt
from synth_train.adapters.http.session import NoReply, Reply, Session
from synth_train.adapters.http.task_app import HttpTaskApp
from synth_train.adapters.local.background import Stop
from synth_train.domain.model.hosting import TrainingFailed
from synth_train.domain.model.replies import says
from synth_train.domain.model.secret import redact
from synth_train.domain.model.showing import plain
from synth_train.domain.model.task_app import TaskAppKeys, health_fault, task_info_fault

TRIES = 3
"""How often one rollout is asked for (wire-contract §7.3)."""

FIRST_WAIT = 0.5
"""Seconds, at most, before the second try; twice as long before the third."""

PROBE_TRIES = 5
"""How often an app that may be starting up is probed."""


class RolloutFailed(Exception):
    """No rollout came of it. The text says why, and holds no secret."""


class Played(Struct, frozen=True, kw_only=True):
    """What a task app says of a rollout."""

    reward: float


class TaskApp:
    """A task app, and the key that opens it. Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        keys: TaskAppKeys,
        *,
        timeout: float,
        stop: Stop,
        at_once: int = 1,
        first_wait: float = FIRST_WAIT,
    ) -> None:
        """
        Args:
            url: without a slash at its end.
            timeout: seconds that one rollout may take.
            at_once: how many are asked for at the same time.
            first_wait: see `FIRST_WAIT`.
        """
        self._url, self._keys, self._timeout, self._stop = url, keys, timeout, stop
        self._first_wait = first_wait
        self._session = Session(at_once=at_once)

    def check(self) -> None:
        """Probe the app, as the client does (wire-contract §2.3). One that may be starting up is given some seconds.

        Raises:
            TrainingFailed: it is not fit for rollouts.
        """
        app = HttpTaskApp()
        for probe, fault_of in ((app.health, health_fault), (app.task_info, task_info_fault)):
            for attempt in range(1, PROBE_TRIES + 1):
                fault = fault_of(probe(self._url, self._keys))
                if fault is None:
                    break
                if not fault.passing or attempt == PROBE_TRIES:
                    raise TrainingFailed(f"the task app is not healthy: {fault.what}. {fault.remedy}".rstrip("."))
                self._stop.wait(self._first_wait * 2 ** (attempt - 1))

    def play(self, request: Callable[[int], Mapping[str, object]]) -> Played:
        """Have a rollout played.

        Args:
            request: the body for a try, from 1 on. Each has a `run_id` of its own: what is left of the try before it
                cannot be told apart from it otherwise.

        Raises:
            RolloutFailed: there is nothing to train on.
        """
        for attempt in range(1, TRIES + 1):
            self._stop.check()
            try:
                return self._once(request(attempt))
            except _Passing as failure:
                if attempt == TRIES:
                    raise RolloutFailed(f"{failure}, {TRIES} times") from None
                self._stop.wait(self._first_wait * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _once(self, request: Mapping[str, object]) -> Played:
        url = f"{self._url}/rollout"
        try:
            reply = self._session.post(url, self._headers(), msgspec.json.encode(request), within=self._timeout)
        except NoReply as error:
            raise _Passing(f"POST {url}: {plain(redact(str(error), self._keys.all))}") from None
        if reply.status != 200:
            what = f"POST {url}: {reply.status}" + self._said(reply)
            raise _Passing(what) if reply.status >= 500 else RolloutFailed(what)
        if reply.cut:
            raise RolloutFailed(f"POST {url}: the reply is longer than {len(reply.content) >> 20} MiB")
        try:
            body = decoded(reply.content, self._keys.all)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise RolloutFailed(f"POST {url}: 200, but the reply is no JSON object")
        return Played(reward=reward_in(body))

    def _headers(self) -> dict[str, str]:
        return {
            "Accept": "application/json",
            "Authorization": f"Bearer {self._keys.primary.reveal()}",
            "Content-Type": "application/json",
            "X-API-Key": self._keys.primary.reveal(),
            "X-API-Keys": ",".join(key.reveal() for key in self._keys.all),
        }

    def _said(self, reply: Reply) -> str:
        try:
            said = says(decoded(reply.content, self._keys.all))
        except ValueError:
            said = ""
        said = said or excerpt(reply.content, self._keys.all)
        return f": {plain(said)}" if said else ""


class _Passing(Exception):
    """It did not work, and may at the next try."""


def reward_in(reply: Mapping[str, Any]) -> float:
    """The reward that is trained on: `metrics.mean_return`, else `outcome_score`, else the sum of the steps' rewards
    (wire-contract §7.3).

    Raises:
        RolloutFailed: the rollout was aborted, or has no reward that is a number.
    """
    if reply.get("aborted") is True:
        raise RolloutFailed("the task app aborted the rollout")
    metrics = reply.get("metrics")
    told = metrics if isinstance(metrics, dict) else {}
    steps = [
        step.get("reward")
        for trajectory in _objects(reply.get("trajectories"))
        for step in _objects(trajectory.get("steps"))
    ]
    rewards = [reward for reward in steps if _is_number(reward)]
    candidates = (told.get("mean_return"), told.get("outcome_score"), math.fsum(rewards) if rewards else None)
    reward = next((value for value in candidates if _is_number(value)), None)
    if reward is None:
        raise RolloutFailed("the task app's reply has no reward: neither metrics.mean_return nor any other")
    return float(reward)


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
