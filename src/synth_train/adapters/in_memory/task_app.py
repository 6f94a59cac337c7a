"""A task app that answers as arranged."""

from __future__ import annotations

import msgspec

from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys, Trouble
from synth_train.ports.task_app import PROBE_TIME, TaskAppPort


class InMemoryTaskApp(TaskAppPort):
    """TaskAppPort over no network: a healthy app that wants one of `keys`.

    Arrange with `keys` (None: no key is asked for), `trouble` (it cannot be reached) and `replies`, which holds a
    status and a body for `health` and `task_info` and counts before the keys; inspect with `asked`.
    """

    def __init__(self, *, keys: set[Secret] | None = None) -> None:
        self.keys = keys
        self.trouble: Trouble | None = None
        self.replies: dict[str, tuple[int, object]] = {}
        self.asked: list[tuple[str, TaskAppKeys]] = []

    def health(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        return self._probe(task_url, "health", keys, {"healthy": True})

    def task_info(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        return self._probe(task_url, "task_info", keys, {"taskset": {"name": "sums"}})

    def _probe(self, task_url: str, route: str, keys: TaskAppKeys, good: object) -> Probe:
        url = f"{task_url.rstrip('/')}/{route}"
        self.asked.append((url, keys))
        if self.trouble is not None:
            return Probe(url=url, trouble=self.trouble)
        default = (200, good) if self._accepts(keys) else (401, {"detail": "unauthorised"})
        status, body = self.replies.get(route, default)
        excerpt = msgspec.json.encode(body).decode()[:200]
        return Probe(url=url, status=status, content_type="application/json", body=body, excerpt=excerpt)

    def _accepts(self, keys: TaskAppKeys) -> bool:
        return self.keys is None or not self.keys.isdisjoint((keys.primary, *keys.aliases))
