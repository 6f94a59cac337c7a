"""The rollouts of an iteration: played side by side, joined with what the policy has said in them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

from synth_train.adapters.local.background import Stop
from synth_train.adapters.local.rl.server import Ledger, Turn, inference_url
from synth_train.adapters.local.rl.settings import Json, Settings
from synth_train.adapters.local.rl.task_app import RolloutFailed, TaskApp

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A rollout to be played."""

    name: str
    """Unlike every other of the job."""
    mode: str
    """`rl` or `eval`."""
    seed: int
    """The task app's."""
    chance: tuple[object, ...]
    """What the policy's choices depend on."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A rollout that was played."""

    seed: int
    reward: float
    turns: tuple[Turn, ...]
    """At least one."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A rollout that came to nothing."""

    seed: int
    reason: str


class Stage:
    """Where rollouts are played: the task app, and the policy that it asks."""

    def __init__(
        self, settings: Settings, app: TaskApp, ledger: Ledger, *, policy_base: str, session: str, stop: Stop
    ) -> None:
        """
        Args:
            policy_base: where the task app reaches the policy.
            session: the id of the training, as it is told to the task app.
        """
        self._settings, self._app, self._ledger, self._stop = settings, app, ledger, stop
        self._policy_base, self._session = policy_base, session

    def play(self, wishes: Sequence[Wish]) -> list[Rollout | Failure]:
        """Play all of them, `max_concurrent_rollouts` at a time, begun in their order and given in it.

        Raises:
            Stopped: it was asked to stop. Rollouts under way are left to themselves.
        """
        return side_by_side([_bind(self._played, wish) for wish in wishes], self._settings.at_once, self._stop)

    def _played(self, wish: Wish) -> Rollout | Failure:
        began = time.monotonic()
        tries: list[str] = []

        def request(attempt: int) -> Json:
            # What is left of the try before this one gets no answers any more.
            tries.append(f"{wish.name}-{attempt}")
            if len(tries) > 1:
                self._ledger.close(tries[-2])
            self._ledger.open(tries[-1], *wish.chance)
            return self._request(wish, tries[-1])

        try:
            played = self._app.play(request)
        except RolloutFailed as failure:
            self._ledger.close(tries[-1])
            return Failure(seed=wish.seed, reason=str(failure))
        turns = tuple(self._ledger.close(tries[-1]))
        if not turns:
            return Failure(seed=wish.seed, reason=self._unasked())
        return Rollout(seed=wish.seed, reward=played.reward, turns=turns, seconds=time.monotonic() - began)

    def _request(self, wish: Wish, cid: str) -> Json:
        """The body of wire-contract §7.3."""
        settings = self._settings
        sampling = settings.sampling
        config = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            **settings.policy_config,
            "model": settings.model,
            "inference_url": inference_url(self._policy_base, cid),
            "trace_correlation_id": cid,
        }
        policy: Json = {"config": config}
        if settings.policy_name is not None:
            policy["policy_name"] = settings.policy_name
        return {
            "run_id": cid,
            "mode": wish.mode,
            "env": {**settings.env, "seed": wish.seed},
            "policy": policy,
            "ops": list(settings.ops),
            "record": {"trajectories": True, "logprobs": False, "value": False, "return_trace": False},
            "on_done": "terminate",
            "safety": {"max_time_s": settings.rollout_timeout},
            "training_session_id": self._session,
        }

    def _unasked(self) -> str:
        if self._ledger.strays():
            return (
                "the task app asked the policy without the cid of the rollout: it must keep the query of inference_url"
            )
        return "the task app never got an answer from the policy: see the task app's own log"


def _bind(play: Callable[[Wish], Rollout | Failure], wish: Wish) -> Callable[[], Rollout | Failure]:
    return lambda: play(wish)


def side_by_side(tasks: Sequence[Callable[[], T]], at_once: int, stop: Stop) -> list[T]:
    """The results of `tasks`, in their order. Threads that are still at work when it is left end by themselves.

    Raises:
        Stopped: it was asked to stop.
        Whatever a task raises; no other is begun after it.
    """
    results: dict[int, T] = {}
    raised: list[BaseException] = []
    todo = iter(enumerate(tasks))
    lock = threading.Lock()
    ended: SimpleQueue[None] = SimpleQueue()

    def run() -> None:
        try:
            while not stop.asked and not raised:
                with lock:
                    item = next(todo, None)
                if item is None:
                    break
                index, task = item
                results[index] = task()
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever waits
            raised.append(error)
        ended.put(None)

    threads = min(at_once, len(tasks))
    for _ in range(threads):
        threading.Thread(target=run, name="synth-train rollout", daemon=True).start()
    for _ in range(threads):
        _wait(ended, stop)
    if raised:
        raise raised[0]
    return [results[index] for index in range(len(tasks))]


def _wait(ended: SimpleQueue[None], stop: Stop) -> None:
    while True:
        try:
            return ended.get(timeout=0.2)
        except Empty:
            stop.check()


def groups_of(played: Sequence[Rollout | Failure], size: int) -> list[list[Rollout]]:
    """The rollouts of each prompt, failed ones left out, and whole groups that have fewer than two left: one alone has
    nothing to be compared with."""
    groups = [played[at : at + size] for at in range(0, len(played), size)]
    left = [[one for one in group if isinstance(one, Rollout)] for group in groups]
    return [group for group in left if len(group) > 1]


def reasons(played: Sequence[Rollout | Failure]) -> str:
    """Why rollouts failed: the most frequent reasons, with their numbers."""
    counted = Counter(one.reason for one in played if isinstance(one, Failure))
    shown = [f"{reason} ({count} of {len(played)})" for reason, count in counted.most_common(3)]
    rest = len(counted) - len(shown)
    return "; ".join(shown) + (f"; and {rest} other reasons" if rest > 0 else "")
