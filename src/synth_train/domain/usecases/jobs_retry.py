"""Run a job again that has ended."""

from __future__ import annotations

import hashlib

from synth_train.domain.model.commands import on_jobs
from synth_train.domain.model.errors import LocalStateError, UsageError
from synth_train.domain.model.fingerprints import fingerprint_of
from synth_train.domain.model.jobs import Accepted, IdempotencyKey, JobId, Kind
from synth_train.domain.model.moments import Noted
from synth_train.domain.model.submission import Stage, Submission, entry_id
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.journal import JournalPort


class RetryJob(Patient, frozen=True, kw_only=True):
    """Built once with its ports; runs one job again at a time."""

    journal: JournalPort
    """Where the new job is remembered, so that other commands know its backend."""
    clock: ClockPort
    entropy: EntropyPort

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
                hint=f"End it first with: {on_jobs('cancel', state.job_id, base=backend.base, kind=kind)}",
            )
        request = self.retrying(lambda: backend.request_of(kind, state.job_id), what="read what the job was asked with")
        key = retry_key(state.job_id)
        accepted = self.retrying(lambda: backend.create(kind, request, key), what="create the job")
        if kind is Kind.SFT:
            self.retrying(lambda: backend.start(kind, accepted.job_id), what="start the job")
        self._remember(found, accepted.job_id, request, key)
        return accepted

    def _remember(self, found: FoundJob, job_id: JobId, request: bytes, key: IdempotencyKey) -> None:
        """Only now: until here the key, which never changes, makes sure that there is one job."""
        earlier = self.journal.with_jobs()
        if any(entry.job_id == job_id for entry in earlier):
            return
        retried = next((entry for entry in earlier if entry.job_id == found.state.job_id), None)
        base, account, now = found.backend.base, retried.account if retried else "", self.clock.now()
        entry = Submission(
            id=entry_id(now, self.entropy.token(8)),
            fingerprint=fingerprint_of(
                backend=base, account=account, kind=found.kind, config=key.encode(), request=request, uploads=()
            ),
            backend=base,
            account=account,
            kind=found.kind,
            config=retried.config if retried else "",
            key=key,
            key_is_users=False,
            stage=Stage.HANDED_OVER,
            job_id=job_id,
            opened_at=now,
            updated_at=now,
        )
        try:
            self.journal.open(entry)
        except LocalStateError as error:
            self.progress.tell(
                Noted(
                    text=f"where job {job_id} runs is not remembered, so name it with --backend: {error}", warning=True
                )
            )
        else:
            self.journal.release(entry)


def retry_key(job_id: JobId) -> IdempotencyKey:
    """The key under which a job is run again."""
    return IdempotencyKey(f"retry-{hashlib.sha256(job_id.encode()).hexdigest()[:32]}")
