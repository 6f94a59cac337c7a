"""The worker's side: claim a job, train, tell, and settle it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from synth_train.domain.model.events import Point
from synth_train.domain.model.hosting import (
    Happening,
    Job,
    JobStatus,
    Note,
    Step,
    Task,
    Tick,
    TrainingFailed,
    WorkerId,
    fine_tuned_id,
)
from synth_train.domain.model.jobs import JobId, Kind
from synth_train.domain.usecases.hosting.events import QUIET, tell
from synth_train.ports.clock import ClockPort
from synth_train.ports.hosting import JobStore, Rows, Trainer

DEAD_AFTER = 60.0
"""Seconds without a sign of life after which a worker counts as dead."""

MOST_CLAIMS = 4
"""The first, and three more for workers that died."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Which job is whose turn, and whose it is."""

    store: JobStore
    clock: ClockPort
    at_once: int = 1
    """How many jobs run at the same time."""
    dead_after: float = DEAD_AFTER
    dead: Callable[[Job], bool] | None = None
    """Whether the worker of a held job is dead, where that can be known; None: `dead_after` tells."""
    hindrance: Callable[[Job], str] | None = None
    """Why no worker here may claim a job, such as a key that is not to be had; empty when one may."""

    def claim(self, worker: WorkerId) -> Job | None:
        """Take the job whose turn it is: one whose worker died, else the one that has waited longest.

        A job that has been claimed too often fails instead, one that was asked to stop is cancelled, and one with a
        hindrance waits and says why. None when nothing is to be done, or enough is being done already.
        """
        looked_at = self._hindrances()
        now = self.clock.now()
        with self.store.transaction() as rows:
            held = rows.held_jobs()
            dead = [job for job in held if self._is_dead(job, now)]
            room = len(held) - len(dead) < self.at_once
            for job in dead:
                if job.status is JobStatus.CANCELLING:
                    _end(rows, job, now, JobStatus.CANCELLED, "its worker died while it was asked to stop")
                elif job.claims >= MOST_CLAIMS:
                    _end(rows, job, now, JobStatus.FAILED, f"its worker died {job.claims} times")
                elif why := looked_at.get(job.id):
                    _hold_up(rows, job, now, why)
                elif room:
                    return _claim(rows, job, worker, now)
            for job in rows.waiting_jobs():
                why = looked_at.get(job.id)
                if why and why != job.waits_for:
                    _hold_up(rows, job, now, why)
                elif why == "" and room:
                    return _claim(rows, job, worker, now)
        return None

    @property
    def has_work(self) -> bool:
        """Whether a worker would find something to do, were it the only one. To say why a job waits is work, too."""
        with self.store.transaction() as rows:
            if rows.held_jobs():
                return True  # asked with every read of a job, however many others wait
            waiting = rows.waiting_jobs()
        return any(not (why := self._why(job)) or why != job.waits_for for job in waiting)

    def hold_up(self, why: str) -> None:
        """Let all waiting jobs tell, once, why they are not begun. They are begun as soon as they can be."""
        with self.store.transaction() as rows:
            for job in rows.waiting_jobs():
                if job.waits_for != why:
                    _hold_up(rows, job, self.clock.now(), why)

    def _is_dead(self, job: Job, now: float) -> bool:
        return now - job.beat_at > self.dead_after if self.dead is None else self.dead(job)

    def _hindrances(self) -> dict[JobId, str]:
        """What hinders each job, found out before the transaction, since it may mean to read a file.

        A job that comes in between is not among them: it is left for the next claim.
        """
        with self.store.transaction() as rows:
            jobs = [*rows.held_jobs(), *rows.waiting_jobs()]
        return {job.id: self._why(job) for job in jobs}

    def _why(self, job: Job) -> str:
        return "" if self.hindrance is None else self.hindrance(job)


class Activity(str, Enum):
    """What a worker did when it was told to go on."""

    IDLE = "idle"
    """There is no job for it."""
    WAITING = "waiting"
    """Its trainer had nothing to tell."""
    BUSY = "busy"
    """Something happened."""


class Worker:
    """One worker. It has one job at a time, and tells what happens to it as long as the job is its own."""

    def __init__(self, *, id: WorkerId, queue: Queue, trainer: Trainer) -> None:
        self.id = id
        self._queue = queue
        self._trainer = trainer
        self._work: tuple[Job, Generator[Happening, None, None]] | None = None

    @property
    def has_a_job(self) -> bool:
        """Whether it is at work."""
        return self._work is not None

    def step(self) -> Activity:
        """Claim a job, or let the trainer go on until it has something to tell, and write that down.

        Call it until it is idle: then the queue is empty, and the worker may end.
        """
        if self._work is None:
            job = self._queue.claim(self.id)
            if job is None:
                return Activity.IDLE
            self._work = job, self._trainer.train(self._task(job))
            return Activity.BUSY
        job, happenings = self._work
        try:
            happening = next(happenings)
        except StopIteration:
            return self._settle(job, JobStatus.SUCCEEDED)
        except TrainingFailed as failure:
            return self._settle(job, JobStatus.FAILED, str(failure))
        except Exception as bug:  # noqa: BLE001 - a trainer's bug must not leave its job running for ever
            # The text may hold anything, a key too, so only its kind goes into the job.
            return self._settle(job, JobStatus.FAILED, f"the trainer broke ({type(bug).__name__})")
        status = self._write(job, happening)
        if status is JobStatus.RUNNING:
            return Activity.WAITING if isinstance(happening, Tick) else Activity.BUSY
        with suppress(Exception):  # what fails while it is being stopped no longer matters
            happenings.close()
        return self._settle(job, JobStatus.CANCELLED, "cancelled while it ran")

    def beat(self) -> JobStatus | None:
        """Show that the worker lives while its trainer is at one long step. May be called from another thread.

        Returns the status of its job, None when it has none (any more).
        """
        work = self._work
        return self._write(work[0], Tick()) if work else None

    def give_up(self) -> None:
        """Settle a job that was to stop and whose trainer does not come back; the process should end after this."""
        work = self._work
        if work is not None:
            self._settle(work[0], JobStatus.CANCELLED, "cancelled while it ran; the step under way was cut off")

    def _task(self, job: Job) -> Task:
        order = job.order
        with self._queue.store.transaction() as rows:
            training, validation = (
                rows.file(job.owner, file_id) if file_id else None
                for file_id in (order.training_file, order.validation_file)
            )
        return Task(job=job, training=training, validation=validation)

    def _write(self, job: Job, happening: Happening) -> JobStatus | None:
        """The status of the job, in which the happening is written down if it runs; None if it is not ours any more."""
        now = self._queue.clock.now()
        with self._queue.store.transaction() as rows:
            mine = self._mine(rows, job)
            if mine is None:
                return None
            mine = mine.heard_of(now)
            if mine.status is JobStatus.RUNNING:
                _write(rows, mine, now, happening)
            else:
                rows.save_job(mine)
            return mine.status

    def _settle(self, job: Job, status: JobStatus, reason: str = "") -> Activity:
        """End the job, unless it has been taken away meanwhile."""
        self._work = None
        with self._queue.store.transaction() as rows:
            mine = self._mine(rows, job)
            if mine is not None:
                _end(rows, mine, self._queue.clock.now(), status, reason)
        return Activity.BUSY

    def _mine(self, rows: Rows, job: Job) -> Job | None:
        """The job as it stands now, if this worker still has it."""
        now = rows.job(job.id)
        return now if now and now.status.held and (now.worker, now.claims) == (self.id, job.claims) else None


def _claim(rows: Rows, job: Job, worker: WorkerId, now: float) -> Job:
    again = f" again, after its worker died ({job.claims + 1} of {MOST_CLAIMS})" if job.claims else ""
    what = "train.started" if job.order.kind is Kind.RL else "training.started"
    return tell(rows, job.claimed(worker, now), now, what, f"Training begins{again}.")


def _hold_up(rows: Rows, job: Job, now: float, why: str) -> None:
    tell(rows, job.held_up(why, now), now, "waiting", f"Waits: {why}.", level="warning", data={"reason": why})


def _write(rows: Rows, job: Job, now: float, happening: Happening) -> None:
    if isinstance(happening, Step):
        rows.save_points(
            job.id,
            [
                Point(name=name, step=happening.step, value=value, created_at=now)
                for name, value in happening.points.items()
            ],
        )
        what = "train.step" if job.order.kind is Kind.RL else "progress"
        message = happening.message or f"Step {happening.step} of {happening.total}."
        data = {"step": happening.step, "total_steps": happening.total, **happening.points}
        tell(rows, job, now, what, message, data=data)
    elif isinstance(happening, Note):
        tell(rows, job, now, happening.type, happening.message, level=happening.level, data=happening.data)
    elif now - job.last_event_at >= QUIET:
        tell(rows, job, now, "heartbeat", "Still running.")
    else:
        rows.save_job(job)


def _end(rows: Rows, job: Job, now: float, status: JobStatus, reason: str) -> None:
    if status is JobStatus.SUCCEEDED:
        model = fine_tuned_id(job)
        job = job.ended(status, now, fine_tuned_model=model)
        tell(rows, job, now, "job.completed", f"Done; the model is {model}.", data={"fine_tuned_model": model})
    elif status is JobStatus.FAILED:
        tell(rows, job.ended(status, now, reason=reason), now, "job.failed", f"Failed: {reason}.", level="error")
    else:
        tell(rows, job.ended(status, now, reason=reason), now, "job.cancelled", f"Ended: {reason}.")
