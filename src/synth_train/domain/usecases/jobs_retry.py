"""Run a job again that has ended."""

from __future__ import annotations

import hashlib

from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.jobs import Accepted, IdempotencyKey, JobId, Kind
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient


class RetryJob(Patient, frozen=True, kw_only=True):
    """Built once with its ports; runs one job again at a time."""

    def __call__(self, found: FoundJob) -> Accepted:
        """A new job from the very request of one that has ended, with its files, and started.

        A job has one retry, however often it is asked for: the idempotency key is made of its id, so that neither a
        lost reply nor an impatient hand creates two. To go on from there, retry the retry.

        Raises:
            UsageError: the job has not ended.
            NotOffered: this backend does not give out what jobs were asked with.
            BackendError, KeyRefused: the backend refused, or could not be asked.
        """
        backend, kind, state = found.backend, found.kind, found.state
        if not state.phase.over:
            raise UsageError(
                f"job {state.job_id} is {state.word}, so there is nothing to retry",
                hint=f"End it first with: synth-ai jobs cancel {state.job_id}",
            )
        request = self.retrying(lambda: backend.request_of(kind, state.job_id), what="read what the job was asked with")
        key = retry_key(state.job_id)
        accepted = self.retrying(lambda: backend.create(kind, request, key), what="create the job")
        if kind is Kind.SFT:
            self.retrying(lambda: backend.start(kind, accepted.job_id), what="start the job")
        return accepted


def retry_key(job_id: JobId) -> IdempotencyKey:
    """The key under which a job is run again."""
    return IdempotencyKey(f"retry-{hashlib.sha256(job_id.encode()).hexdigest()[:32]}")
