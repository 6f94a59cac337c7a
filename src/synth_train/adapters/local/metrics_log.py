"""`metrics.jsonl` of each job: its events and points, for whoever reads files rather than a database."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import msgspec

from synth_train.adapters.local.home import LocalHome
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.jobs import JobId
from synth_train.domain.usecases.hosting import wire


class MetricsLog:
    """Appends to the file of a job, in the form of the wire, a line for each.

    The database is what counts: a line that cannot be written is left out.
    """

    def __init__(self, home: LocalHome) -> None:
        self._home = home

    def add(self, job_id: JobId, news: Sequence[Event | Point]) -> None:
        """Add what a transaction has added."""
        lines = b"".join(msgspec.json.encode(_row(job_id, one)) + b"\n" for one in news)
        folder = self._home.job(job_id)
        with contextlib.suppress(OSError):
            folder.make()
            descriptor = os.open(folder.metrics, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, lines)
            finally:
                os.close(descriptor)


def _row(job_id: JobId, one: Event | Point) -> wire.Json:
    return wire.event(job_id, one) if isinstance(one, Event) else wire.point(job_id, one)
