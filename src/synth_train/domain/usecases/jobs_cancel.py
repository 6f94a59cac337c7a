"""Let a job end."""

from __future__ import annotations

from synth_train.domain.model.jobs import JobState
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient
from synth_train.ports.clock import ClockPort

PATIENCE = 15.0
"""Seconds that a job is given to end before we stop looking. It ends all the same."""

INTERVAL = 0.5


class CancelJob(Patient, frozen=True, kw_only=True):
    """Built once with its ports; ends one job at a time."""

    clock: ClockPort

    def __call__(self, found: FoundJob) -> JobState:
        """Ask a job to end, and look for a while whether it does. How it stands then: it may still be live.

        A job that is over is left as it is.

        Raises:
            NotOffered: this backend cannot cancel jobs.
            BackendError, KeyRefused: the backend could not be asked.
        """
        kind, job_id = found.kind, found.state.job_id
        latest = self.retrying(lambda: found.backend.cancel(kind, job_id), what="cancel the job")
        if latest.phase.over:
            return latest

        def look() -> JobState:
            nonlocal latest
            latest = self.retrying(lambda: found.backend.job(kind, job_id), what="read the job")
            return latest

        self.patience.until(
            look,
            done=lambda state: state.phase.over,
            interval=lambda _: INTERVAL,
            deadline=self.clock.monotonic() + PATIENCE,
        )
        return latest
