"""What has happened to a job. In memory: `adapters.in_memory.backend.InMemoryBackend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from synth_train.domain.model.errors import NotOffered
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.jobs import JobId, Kind


class JobFeed(Protocol):
    """Events and metric points, each after a cursor. A backend that has none leaves these methods as they are.

    One request each, as with `BackendPort`.

    Raises everywhere:
        NotOffered: this backend does not tell.
        NotKnown: no such job.
        BackendError, KeyRefused: this read failed.
    """

    def events(self, kind: Kind, job_id: JobId, *, after: int = 0, limit: int = 200) -> Sequence[Event]:
        """Events with a `seq` above `after`, the oldest first, `limit` at most."""
        raise NotOffered("this backend does not tell what happens to a job", status=404)

    def points(self, kind: Kind, job_id: JobId, *, after_step: int = 0, limit: int = 200) -> Sequence[Point]:
        """Points of steps above `after_step`, by step and name, whole steps, about `limit` at most."""
        raise NotOffered("this backend has no metrics of a job", status=404)
