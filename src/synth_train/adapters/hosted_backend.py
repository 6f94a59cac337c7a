"""A backend without a wire: the workshop of hosting, in this process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

import msgspec

from synth_train.domain.model.errors import TrainingError
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import JobFilter, KeyPlace, Owner, Refusal, ResultFile
from synth_train.domain.model.jobs import (
    Accepted,
    Features,
    FileId,
    FileState,
    IdempotencyKey,
    JobId,
    JobState,
    JobSummary,
    Kind,
)
from synth_train.domain.model.replies import (
    features_in,
    file_id_in,
    file_state_in,
    job_id_in,
    job_request_in,
    job_state_in,
    job_summary_in,
    refusal,
)
from synth_train.domain.usecases.hosting import wire
from synth_train.domain.usecases.hosting.files import Label
from synth_train.domain.usecases.hosting.service import Workshop
from synth_train.ports.backend import Backend, Upload
from synth_train.ports.streams import Readable

T = TypeVar("T")

_CHUNK = 1 << 20


class HostedBackend(Backend):
    """Backend over a workshop, for one owner. What goes in and out is read as if it had gone over the wire.

    A subclass says who the owner is and what there is for environment keys, and sees every call in `_asked`.
    """

    def __init__(self, workshop: Workshop, base: str) -> None:
        self._workshop = workshop
        self._base = base.rstrip("/")

    @abstractmethod
    def _owner(self) -> Owner:
        """Who asks.

        Raises:
            Refusal: nobody who may.
        """

    def _asked(
        self, name: str, act: Callable[[], T], *, subject: object = None, key: IdempotencyKey | None = None
    ) -> T:
        """What `act` answers to the call of `name`; a refusal becomes the error that it is over HTTP."""
        try:
            return act()
        except Refusal as no:
            raise self._refused(no) from no

    def _refused(self, no: Refusal) -> TrainingError:
        return refusal(no.status, f"{self._base} refused ({no.status}): {no.message}")

    def _key_place(self) -> KeyPlace | None:
        """Where the environment key of a job is kept that is asked for now."""
        return None

    # Files and jobs

    @property
    def base(self) -> str:
        return self._base

    def features(self) -> Features:
        health = wire.health(takes_config=self._workshop.takes_config)
        return self._asked("features", lambda: features_in(health, self._base))

    def upload(self, upload: Upload) -> FileId:
        def act() -> FileId:
            with closing(upload.open()) as stream:
                chunks = iter(lambda: stream.read(_CHUNK), b"")
                label = Label(filename=upload.filename, purpose=upload.purpose)
                file = self._workshop.files.upload(self._owner(), chunks, lambda: label)
            return file_id_in(wire.file(file))

        return self._asked("upload", act, subject=upload.filename)

    def file(self, file_id: FileId) -> FileState:
        def act() -> FileState:
            return file_state_in(wire.file(self._workshop.files.show(self._owner(), file_id)), file_id)

        return self._asked("file", act, subject=file_id)

    def create(self, kind: Kind, request: bytes, key: IdempotencyKey) -> Accepted:
        def act() -> Accepted:
            job = self._workshop.jobs.create(
                self._owner(), kind, request, route=kind.route, key=key, key_place=self._key_place()
            )
            reply = wire.job(job)
            return Accepted(job_id=job_id_in(reply), status=201, reply=msgspec.json.encode(reply).decode())

        return self._asked("create", act, subject=request, key=key)

    def start(self, kind: Kind, job_id: JobId) -> None:
        def act() -> None:
            try:
                self._workshop.jobs.start(self._owner(), job_id)
            except Refusal as no:
                if no.status != 404:  # over a wire, no such job and no such route look the same
                    raise

        self._asked("start", act, subject=job_id)

    def job(self, kind: Kind, job_id: JobId) -> JobState:
        def act() -> JobState:
            return job_state_in(wire.job(self._workshop.jobs.show(self._owner(), job_id)), job_id)

        return self._asked("job", act, subject=job_id)

    # What has happened, and what can be done about it

    def events(self, kind: Kind, job_id: JobId, *, after: int = 0, limit: int = 200) -> Sequence[Event]:
        def act() -> Sequence[Event]:
            return self._workshop.jobs.events(self._owner(), job_id, since=after, limit=limit)

        return self._asked("events", act, subject=job_id)

    def points(self, kind: Kind, job_id: JobId, *, after_step: int = 0, limit: int = 200) -> Sequence[Point]:
        def act() -> Sequence[Point]:
            return self._workshop.jobs.points(self._owner(), job_id, after_step=after_step, limit=limit)

        return self._asked("points", act, subject=job_id)

    def list_jobs(self, wanted: JobFilter) -> Sequence[JobSummary]:
        def act() -> Sequence[JobSummary]:
            return [job_summary_in(wire.job(job)) for job in self._workshop.jobs.listed(self._owner(), wanted)]

        return self._asked("list_jobs", act, subject=wanted)

    def cancel(self, kind: Kind, job_id: JobId) -> JobState:
        def act() -> JobState:
            return job_state_in(wire.job(self._workshop.jobs.cancel(self._owner(), job_id)), job_id)

        return self._asked("cancel", act, subject=job_id)

    def request_of(self, kind: Kind, job_id: JobId) -> bytes:
        def act() -> bytes:
            return job_request_in(wire.job_config(self._workshop.jobs.show(self._owner(), job_id)))

        return self._asked("request_of", act, subject=job_id)

    def results(self, kind: Kind, job_id: JobId) -> Sequence[ResultFile]:
        return self._asked("results", lambda: self._workshop.results.listed(self._owner(), job_id), subject=job_id)

    def open_result(self, kind: Kind, job_id: JobId, name: str, *, start: int = 0) -> Readable:
        def act() -> Readable:
            content = self._workshop.results.open(self._owner(), job_id, name)
            content.seek(start)
            return content

        return self._asked("open_result", act, subject=(job_id, name))
