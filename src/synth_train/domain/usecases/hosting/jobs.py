"""Jobs as their owners see them: asked for once, started, looked at, cancelled."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct

from synth_train.domain.model.curves import thinned
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import (
    FileStatus,
    Job,
    JobFilter,
    JobStatus,
    KeptReply,
    KeyPlace,
    Order,
    Owner,
    Refusal,
    maker_of,
)
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind
from synth_train.domain.usecases.hosting.events import QUIET, tell
from synth_train.domain.usecases.hosting.orders import order_in
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.hosting import Executor, JobStore, Rows

CANCEL_GRACE = 30.0
"""Seconds that a worker has to heed a request to cancel before it is killed."""


AT_A_TIME = 5000
"""Points that are read in one transaction when all of them are looked at."""


class Thinned(Struct, frozen=True, kw_only=True):
    """Curves seen from afar."""

    points: tuple[Point, ...]
    """By step and name."""
    stretch: int
    """Steps of which only the lowest and highest values, and a gap, are here; 1: nothing was left out."""


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """The jobs of all owners. An owner sees its own only."""

    store: JobStore
    executor: Executor
    clock: ClockPort
    entropy: EntropyPort
    cancel_grace: float = CANCEL_GRACE

    def create(
        self,
        owner: Owner,
        kind: Kind,
        body: bytes,
        *,
        route: str,
        key: IdempotencyKey | None,
        begins: bool = False,
        key_place: KeyPlace | None = None,
    ) -> Job:
        """Take a job; one for RL begins by itself, one for SFT when it is started (wire-contract §2.1, §3.1).

        The same body under the same key, on the same route, gives the same job, however often and from wherever it
        is asked. What was refused leaves its key free.

        Args:
            begins: whether one for SFT begins by itself, too.
            key_place: where the environment key of an RL job is kept, for workers that have no vault to ask.

        Raises:
            Refusal: 400 or 422 as `order_in` says, 422 for a file that is unknown or not ready and for a model
                that is another owner's or was deleted, 409 when the key belongs to another body.
        """
        digest = hashlib.sha256(body).hexdigest()
        with self.store.transaction() as rows:
            kept = rows.kept_reply(owner, route, key) if key is not None else None
            if kept is not None:
                return _replayed(kept, digest)
            order = order_in(kind, body)
            _refuse_unready_files(rows, owner, order)
            _refuse_foreign_model(rows, owner, order)
            now = self.clock.now()
            job = Job(
                id=JobId(f"job_{self.entropy.token(12)}"),
                owner=owner,
                order=order,
                created_at=now,
                updated_at=now,
                key_place=key_place if kind is Kind.RL else None,
            )
            if begins or kind is Kind.RL:
                job = job.asked_to_start(now)
            job = tell(rows, job, now, "created", "The job is waiting.")
            if key is not None:
                rows.keep_reply(KeptReply(owner=owner, route=route, key=key, request_sha256=digest, job=job))
        self.executor.wake()
        return job

    def start(self, owner: Owner, job_id: JobId) -> Job:
        """Let a job begin. One that has begun, or is over, is left as it is.

        Raises:
            Refusal: 404.
        """
        with self.store.transaction() as rows:
            job = known_job(rows, owner, job_id)
            if not job.started and not job.status.over:
                job = job.asked_to_start(self.clock.now())
                rows.save_job(job)
        self.executor.wake()
        return job

    def cancel(self, owner: Owner, job_id: JobId) -> Job:
        """Ask a job to end. One that is over, or was asked before, is left as it is.

        Raises:
            Refusal: 404.
        """
        with self.store.transaction() as rows:
            job = known_job(rows, owner, job_id)
            if job.status in (JobStatus.QUEUED, JobStatus.RUNNING):
                now = self.clock.now()
                job = job.asked_to_cancel(now)
                if job.status.over:
                    job = tell(rows, job, now, "job.cancelled", "Cancelled before it ran.")
                else:
                    job = tell(rows, job, now, "cancelling", "Asked to stop.")
        self.executor.wake()
        return job

    def show(self, owner: Owner, job_id: JobId) -> Job:
        """A job as it stands.

        Raises:
            Refusal: 404.
        """
        self._tend()
        with self.store.transaction() as rows:
            return known_job(rows, owner, job_id)

    def listed(self, owner: Owner, wanted: JobFilter) -> list[Job]:
        """Jobs, newest first."""
        self._tend()
        with self.store.transaction() as rows:
            return rows.jobs(owner, wanted)

    def events(self, owner: Owner, job_id: JobId, *, since: int = 0, limit: int = 200) -> list[Event]:
        """Events after the one numbered `since`, oldest first.

        A job that waits for its turn says so to those who look: followers take silence for a fault (§4.2).

        Raises:
            Refusal: 404.
        """
        self._tend()
        now = self.clock.now()
        with self.store.transaction() as rows:
            job = known_job(rows, owner, job_id)
            if job.started and job.status is JobStatus.QUEUED and now - job.last_event_at >= QUIET:
                tell(rows, job, now, "heartbeat", "Still waiting.")
            return rows.events(job_id, since=since, limit=limit)

    def points(
        self, owner: Owner, job_id: JobId, *, after_step: int = 0, limit: int = 200, name: str | None = None
    ) -> list[Point]:
        """Metric points of the steps after `after_step`, whole steps at a time.

        Raises:
            Refusal: 404.
        """
        self._tend()
        with self.store.transaction() as rows:
            known_job(rows, owner, job_id)
            return rows.points(job_id, after_step=after_step, limit=limit, name=name)

    def thinned_points(
        self, owner: Owner, job_id: JobId, *, buckets: int, after_step: int = 0, name: str | None = None
    ) -> Thinned:
        """The curves of the steps after `after_step`, in about `buckets` stretches (`curves.thinned`).

        Read a few thousand points at a time: nobody else waits for all of them.

        Raises:
            Refusal: 404.
        """
        self._tend()
        with self.store.transaction() as rows:
            known_job(rows, owner, job_id)
            steps = rows.last_step(job_id) - after_step
        stretch = max(1, -(-steps // buckets))
        points = thinned(self._points_after(job_id, after_step, name), stretch)
        return Thinned(points=points, stretch=stretch)

    def _points_after(self, job_id: JobId, step: int, name: str | None) -> Iterator[Point]:
        while True:
            with self.store.transaction() as rows:
                points = rows.points(job_id, after_step=step, limit=AT_A_TIME, name=name)
            if not points:
                return
            yield from points
            step = points[-1].step

    def _tend(self) -> None:
        """End the workers that did not heed a request to cancel, and see to it that the others go on."""
        now = self.clock.now()
        with self.store.transaction() as rows:
            deaf = [
                job
                for job in rows.held_jobs()
                if job.cancel_asked_at is not None and now - job.cancel_asked_at > self.cancel_grace
            ]
            for job in deaf:
                job = job.ended(JobStatus.CANCELLED, now, reason="killed: it did not stop when asked")
                tell(rows, job, now, "job.cancelled", "Cancelled; its worker had to be killed.", level="warning")
        for worker in [job.worker for job in deaf if job.worker]:
            self.executor.kill(worker)
        self.executor.wake()


def known_job(rows: Rows, owner: Owner, job_id: JobId) -> Job:
    """A job that must be there.

    Raises:
        Refusal: 404.
    """
    job = rows.job(job_id)
    if job is None or job.owner != owner:
        raise Refusal(404, "unknown_job", f"there is no job {job_id}")
    return job


def _replayed(kept: KeptReply, digest: str) -> Job:
    if kept.request_sha256 != digest:
        raise Refusal(
            409,
            "idempotency_conflict",
            f"the idempotency key {kept.key} belongs to job {kept.job.id}, which was asked for with another body",
        )
    return kept.job


def _refuse_unready_files(rows: Rows, owner: Owner, order: Order) -> None:
    for file_id in order.files:
        file = rows.file(owner, file_id)
        if file is None:
            raise Refusal(422, "unknown_file", f"there is no file {file_id}")
        if file.status is not FileStatus.READY:
            why = f": {file.detail}" if file.detail else ""
            raise Refusal(422, "file_not_ready", f"file {file_id} is {file.status.value}{why}")


def _refuse_foreign_model(rows: Rows, owner: Owner, order: Order) -> None:
    """A model that no job here has made is left to the trainer, which knows more places than this."""
    maker = maker_of(order.model)
    job = None if maker is None else rows.job(maker)
    if job is not None and (job.owner != owner or job.model_removed_at is not None):
        raise Refusal(422, "unknown_model", f"there is no model {order.model}")
