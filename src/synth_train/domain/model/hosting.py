"""What a backend keeps: files, jobs and how they change, environment keys; events and points are in `events`.

All times are seconds since 1970.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import NewType

import msgspec
from msgspec import Struct

from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind
from synth_train.domain.model.secret import Secret

Owner = NewType("Owner", str)
"""Whose a file or a job is: a hash of the API key, from which the key cannot be had back."""

WorkerId = NewType("WorkerId", str)

LONGEST_FILENAME = 255


def owner_of(api_key: Secret) -> Owner:
    """The owner that an API key stands for."""
    return Owner(hashlib.sha256(b"synth-train owner\0" + api_key.reveal().encode()).hexdigest()[:32])


class Refusal(Exception):
    """Hosting says no: an HTTP status, a code for programs and a message for people. Holds no secret."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    @property
    def body(self) -> dict[str, object]:
        """What a refused client is sent; `detail` is where clients look first (wire-contract §1.3)."""
        return {"detail": self.message, "error": {"code": self.code, "message": self.message}}


# Files


class FileStatus(str, Enum):
    """How far a file has come. Only a ready one can be trained on."""

    PROCESSING = "processing"
    READY = "ready"
    REJECTED = "rejected"


class Verdict(Struct, frozen=True, kw_only=True):
    """What looking into a file has found."""

    ok: bool
    detail: str = ""
    """Why it was rejected."""


class Blob(Struct, frozen=True, kw_only=True):
    """Bytes that a blob store has. Each upload has its own, so that removing one never takes another's."""

    id: str
    sha256: str
    size: int


class StoredFile(Struct, frozen=True, kw_only=True):
    """An uploaded file."""

    id: FileId
    owner: Owner
    filename: str
    """As `clean_filename` left it: for showing, never a place on a disk."""
    purpose: str
    blob: Blob
    status: FileStatus
    created_at: float
    detail: str = ""


def clean_filename(name: str) -> str:
    """The last part of what a client calls its file, without control characters and of bearable length.

    `file` when nothing is left of it.
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(letter for letter in last if letter.isprintable()).strip()[:LONGEST_FILENAME]
    return kept if kept.strip(".") else "file"


# Jobs


class JobStatus(str, Enum):
    """The states of a job and the words for them on the wire (wire-contract §2.6).

    QUEUED      waits: for its start, if it has not been asked to start, else for a worker
    RUNNING     a worker has claimed it
    CANCELLING  a worker has it and was asked to stop
    SUCCEEDED, FAILED, CANCELLED    it will not change any more
    """

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)

    @property
    def held(self) -> bool:
        """Whether a worker has the job."""
        return self in (JobStatus.RUNNING, JobStatus.CANCELLING)


_NEXT = {
    JobStatus.QUEUED: {JobStatus.RUNNING, JobStatus.CANCELLED},
    JobStatus.RUNNING: {
        JobStatus.QUEUED,
        JobStatus.RUNNING,
        JobStatus.CANCELLING,
        JobStatus.SUCCEEDED,
        JobStatus.FAILED,
    },
    JobStatus.CANCELLING: {JobStatus.CANCELLED, JobStatus.SUCCEEDED, JobStatus.FAILED},
    JobStatus.SUCCEEDED: set[JobStatus](),
    JobStatus.FAILED: set[JobStatus](),
    JobStatus.CANCELLED: set[JobStatus](),
}


class Order(Struct, frozen=True, kw_only=True):
    """What a job request asks for, whichever of its shapes it came in (wire-contract §2.5, §3.5)."""

    kind: Kind
    model: str
    """A catalogue id, a fine-tuned id, or whatever else the trainer knows."""
    training_type: str
    training_file: FileId | None = None
    """SFT only, and always then."""
    validation_file: FileId | None = None
    task_url: str | None = None
    """RL only, and always then; without trailing slashes."""
    name: str = ""
    body: bytes = b"{}"
    """The JSON object that was asked with, without keys that a client put into it in clear."""

    @property
    def files(self) -> tuple[FileId, ...]:
        """The files that the job needs."""
        return tuple(file for file in (self.training_file, self.validation_file) if file)


class KeyPlace(Struct, frozen=True, kw_only=True):
    """Where the environment key of a job is kept on this machine: a reference, and no part of the key."""

    mark: str
    """Tells keys apart; nothing of the key can be had back from it."""
    name: str
    """The variable that holds it."""
    file: str | None = None
    """An env file; None: the environment of the command that asked for the job, which its worker inherits."""


class Job(Struct, frozen=True, kw_only=True):
    """A job. Its methods are the only ways it changes; each gives the changed job."""

    id: JobId
    owner: Owner
    order: Order
    created_at: float
    updated_at: float
    status: JobStatus = JobStatus.QUEUED
    started: bool = False
    """Whether it was asked to start; only then can it be claimed."""
    worker: WorkerId | None = None
    """Who has it, or had it last."""
    claims: int = 0
    """How often it was claimed."""
    beat_at: float = 0.0
    """When the worker was last heard of."""
    began_at: float | None = None
    cancel_asked_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    """Why it ended, if not well."""
    fine_tuned_model: str | None = None
    model_removed_at: float | None = None
    """When its owner had the model that it made removed."""
    key_place: KeyPlace | None = None
    """RL on the machine of the one who asks only: elsewhere the vault has the key."""
    waits_for: str = ""
    """Why no worker may claim it although it was asked to start."""
    last_seq: int = 0
    """`seq` of its newest event."""
    last_event_at: float = 0.0

    def asked_to_start(self, now: float) -> Job:
        """It may be claimed from now on."""
        return msgspec.structs.replace(self, started=True, updated_at=now)

    def held_up(self, why: str, now: float) -> Job:
        """It cannot be claimed for now; a job whose worker died goes back to the queue."""
        job = self if self.status is JobStatus.QUEUED else self._to(JobStatus.QUEUED, now)
        return msgspec.structs.replace(job, waits_for=why, updated_at=now)

    def claimed(self, worker: WorkerId, now: float) -> Job:
        """A worker takes it, from the queue or from a worker that died."""
        return msgspec.structs.replace(
            self._to(JobStatus.RUNNING, now),
            waits_for="",
            worker=worker,
            claims=self.claims + 1,
            beat_at=now,
            began_at=now if self.began_at is None else self.began_at,
        )

    def heard_of(self, now: float) -> Job:
        """Its worker is alive."""
        return msgspec.structs.replace(self, beat_at=now)

    def asked_to_cancel(self, now: float) -> Job:
        """Nobody wants it any more: a waiting one ends at once, a running one when its worker heeds it."""
        if self.status is JobStatus.RUNNING:
            return msgspec.structs.replace(self._to(JobStatus.CANCELLING, now), cancel_asked_at=now)
        return self.ended(JobStatus.CANCELLED, now, reason="cancelled before it ran")

    def ended(self, status: JobStatus, now: float, *, reason: str = "", fine_tuned_model: str | None = None) -> Job:
        """It is over."""
        return msgspec.structs.replace(
            self._to(status, now), ended_at=now, reason=reason, fine_tuned_model=fine_tuned_model
        )

    @property
    def model(self) -> str | None:
        """The id of the model that it has made; None when there is none, or none any more."""
        return self.fine_tuned_model if self.model_removed_at is None else None

    def without_model(self, now: float) -> Job:
        """What it has made is removed."""
        return msgspec.structs.replace(self, model_removed_at=now, updated_at=now)

    def told(self, seq: int, now: float) -> Job:
        """It has a new event."""
        return msgspec.structs.replace(self, last_seq=seq, last_event_at=now)

    def _to(self, status: JobStatus, now: float) -> Job:
        if status not in _NEXT[self.status]:
            raise ValueError(f"a {self.status.value} job cannot become {status.value}")
        return msgspec.structs.replace(self, status=status, updated_at=now)


def fine_tuned_id(job: Job) -> str:
    """What the model that a job has made is called: `ft:` or `rl:`, the base id, the job's id.

    A model made of a fine-tuned one is named after the same base.
    """
    segments = job.order.model.split(":")
    base = ":".join(segments[1:-1]) if len(segments) > 2 else job.order.model
    return f"{'rl' if job.order.kind is Kind.RL else 'ft'}:{base}:{job.id}"


def maker_of(model: str) -> JobId | None:
    """The job that made a model, by the model's id (`ft:Qwen/Qwen3-4B:job_1`); None for an id of another form, which
    is a base model's."""
    prefix, _, job_id = model.rpartition(":")
    return JobId(job_id) if prefix and job_id else None


class KeptReply(Struct, frozen=True, kw_only=True):
    """What was answered to the first request under an idempotency key."""

    owner: Owner
    route: str
    key: IdempotencyKey
    request_sha256: str
    job: Job
    """As it was answered then."""


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs to list. What is None does not count."""

    kind: Kind | None = None
    status: str | None = None
    training_type: str | None = None
    model: str | None = None
    file_id: FileId | None = None
    created_after: float | None = None
    created_before: float | None = None
    after: JobId | None = None
    """Only jobs that come after this one in the list."""
    limit: int = 20

    def admits(self, job: Job) -> bool:
        """Whether the job is one of those, apart from `after` and `limit`."""
        order = job.order
        return (
            (self.kind is None or order.kind is self.kind)
            and (self.status is None or job.status.value == self.status)
            and (self.training_type is None or order.training_type == self.training_type)
            and (self.model is None or order.model == self.model)
            and (self.file_id is None or self.file_id in order.files)
            and (self.created_after is None or job.created_at > self.created_after)
            and (self.created_before is None or job.created_at < self.created_before)
        )


class ResultFile(Struct, frozen=True, kw_only=True):
    """A file of the model that a job has made."""

    name: str
    """Relative, with slashes: `config.json`, `merged/model.safetensors`."""
    size: int
    """Bytes."""
    sha256: str | None = None
    """In hexadecimal; None when the backend does not say."""


# Environment keys


class SealedKey(Struct, frozen=True, kw_only=True):
    """An environment key as it is kept: sealed."""

    id: str
    owner: Owner
    name: str
    sealed: bytes
    updated_at: float


# Between a worker and its trainer


class Task(Struct, frozen=True, kw_only=True):
    """What a trainer is given: a claimed job and its files."""

    job: Job
    training: StoredFile | None = None
    """SFT only, and always then."""
    validation: StoredFile | None = None


class Tick(Struct, frozen=True):
    """Still at it, and nothing to tell."""


class Step(Struct, frozen=True, kw_only=True):
    """A training step is done."""

    step: int
    """From 1."""
    total: int
    points: Mapping[str, float]
    """All metrics of this step, such as `train.loss`."""
    message: str = ""


class Note(Struct, frozen=True, kw_only=True):
    """Something else worth an event."""

    type: str
    message: str
    level: str = "info"
    data: Mapping[str, object] = {}


Happening = Tick | Step | Note


class TrainingFailed(Exception):
    """The training cannot go on. The text is the job's reason; it holds no secret."""
