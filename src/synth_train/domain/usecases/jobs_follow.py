"""Read what has happened to a job, and go on reading while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from synth_train.domain.model.commands import on_jobs
from synth_train.domain.model.errors import GaveUpWaiting
from synth_train.domain.model.events import Event
from synth_train.domain.model.jobs import JobState
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient
from synth_train.ports.clock import ClockPort

PAGE = 200


class FollowJob(Patient, frozen=True, kw_only=True):
    """Built once with its ports; follows one job at a time."""

    clock: ClockPort

    def so_far(self, found: FoundJob, *, after: int = 0) -> tuple[Event, ...]:
        """All events of a job up to now, the oldest first; only those with a `seq` above `after`.

        Raises:
            NotOffered: this backend does not tell what happens to jobs.
            BackendError, KeyRefused: the backend could not be asked.
        """
        events: list[Event] = []
        while True:
            seen = events[-1].seq if events else after
            page = self.retrying(partial(_events, found, seen), what="read the events")
            if not page:  # a short one may only be what this backend calls a page
                return tuple(events)
            events += page

    def __call__(self, found: FoundJob, *, interval: float, timeout: float, tell: Callable[[Event], None]) -> JobState:
        """Tell every event of a job, once each, until it has ended; how it has, which may be badly.

        Args:
            interval: seconds between two looks.
            timeout: seconds after which the job is let go on alone.

        Raises:
            GaveUpWaiting: the time is over.
            NotOffered, BackendError, KeyRefused: as for `so_far`.
        """
        seen = 0

        def look() -> JobState:
            # The state first: what has happened before a job ended is among the events that are read after that.
            nonlocal seen
            state = self.retrying(lambda: found.backend.job(found.kind, found.state.job_id), what="read the job")
            for event in self.so_far(found, after=seen):
                seen = event.seq
                tell(event)
            return state

        state = self.patience.until(
            look,
            done=lambda state: state.phase.over,
            interval=lambda _: interval,
            deadline=self.clock.monotonic() + timeout,
        )
        if state is None:
            job_id = found.state.job_id
            again = on_jobs("logs", job_id, base=found.backend.base, kind=found.kind, options=("--follow",))
            raise GaveUpWaiting(
                f"stopped following job {job_id} after {timeout:g} s",
                hint=f"The job goes on. Follow it again with: {again}",
            )
        return state


def _events(found: FoundJob, after: int) -> Sequence[Event]:
    return found.backend.events(found.kind, found.state.job_id, after=after, limit=PAGE)
