"""Writing down what happens to a job."""

from __future__ import annotations

from collections.abc import Mapping

from synth_train.domain.model.events import Event
from synth_train.domain.model.hosting import Job
from synth_train.ports.hosting import Rows

QUIET = 5.0
"""Seconds without an event after which a job tells that it is alive: followers want to hear something every 8 s
(wire-contract §4.2). A running one does so at the trainer's next `Tick`."""


def tell(
    rows: Rows,
    job: Job,
    now: float,
    what: str,
    message: str,
    *,
    level: str = "info",
    data: Mapping[str, object] | None = None,
) -> Job:
    """Save a changed job together with the event that tells of the change.

    Args:
        what: the event's type without the kind of the job before it: `job.failed` becomes `rl.job.failed`.
    """
    event = Event(
        seq=job.last_seq + 1,
        type=f"{job.order.kind.value}.{what}",
        message=message,
        created_at=now,
        level=level,
        data=data or {},
    )
    job = job.told(event.seq, now)
    rows.save_job(job)
    rows.add_event(job.id, event)
    return job
