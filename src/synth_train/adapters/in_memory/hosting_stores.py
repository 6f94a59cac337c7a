"""Rows and bytes of hosting, in this process and gone with it."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from itertools import count, dropwhile, groupby
from typing import BinaryIO

from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import (
    Blob,
    Job,
    JobFilter,
    JobStatus,
    KeptReply,
    Owner,
    ResultFile,
    SealedKey,
    StoredFile,
    Verdict,
)
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId
from synth_train.ports.clock import ClockPort
from synth_train.ports.hosting import BlobStore, Inspector, JobStore, ResultStore, Rows


class InMemoryJobStore(JobStore):
    """JobStore in dicts. A lock makes its transactions follow one another; one that fails leaves no trace.

    Inspect with `all_jobs` and `all_files`.
    """

    def __init__(self) -> None:
        self._rows = _InMemoryRows()
        self._lock = threading.Lock()

    @property
    def all_jobs(self) -> list[Job]:
        """The jobs of all owners, the oldest first."""
        return list(self._rows.by_job.values())

    @property
    def all_files(self) -> list[StoredFile]:
        """The files of all owners, the oldest first."""
        return list(self._rows.by_file.values())

    @contextmanager
    def transaction(self) -> Iterator[Rows]:
        with self._lock:
            rows = self._rows.copy()
            yield rows
            self._rows = rows


class _InMemoryRows(Rows):
    """Dicts keep the order of first saving, which is the order that `Rows` speaks of."""

    def __init__(self) -> None:
        self.by_file: dict[FileId, StoredFile] = {}
        self.by_job: dict[JobId, Job] = {}
        self._replies: dict[tuple[Owner, str, IdempotencyKey], KeptReply] = {}
        self._events: dict[JobId, tuple[Event, ...]] = {}
        self._points: dict[JobId, dict[tuple[int, str], Point]] = {}
        self._keys: dict[str, SealedKey] = {}

    def copy(self) -> _InMemoryRows:
        """Rows that can be changed without changing these. What the dicts hold is never changed in place."""
        other = _InMemoryRows()
        other.__dict__.update({name: dict(rows) for name, rows in self.__dict__.items()})
        return other

    def save_file(self, file: StoredFile) -> None:
        self.by_file[file.id] = file

    def remove_file(self, owner: Owner, file_id: FileId) -> None:
        if self.file(owner, file_id) is not None:
            del self.by_file[file_id]

    def file(self, owner: Owner, file_id: FileId) -> StoredFile | None:
        file = self.by_file.get(file_id)
        return file if file and file.owner == owner else None

    def files(self, owner: Owner) -> list[StoredFile]:
        return [file for file in reversed(self.by_file.values()) if file.owner == owner]

    def blob_ids(self) -> frozenset[str]:
        return frozenset(file.blob.id for file in self.by_file.values())

    def save_job(self, job: Job) -> None:
        self.by_job[job.id] = job

    def job(self, job_id: JobId) -> Job | None:
        return self.by_job.get(job_id)

    def jobs(self, owner: Owner, wanted: JobFilter) -> list[Job]:
        jobs = [job for job in reversed(self.by_job.values()) if job.owner == owner]
        if wanted.after is not None:
            jobs = list(dropwhile(lambda job: job.id != wanted.after, jobs))[1:]
        return [job for job in jobs if wanted.admits(job)][: wanted.limit]

    def waiting_jobs(self) -> list[Job]:
        return [job for job in self.by_job.values() if job.status is JobStatus.QUEUED and job.started]

    def unfinished_jobs(self, owner: Owner) -> list[Job]:
        return [job for job in self.by_job.values() if job.owner == owner and not job.status.over]

    def held_jobs(self) -> list[Job]:
        return [job for job in self.by_job.values() if job.status.held]

    def keep_reply(self, reply: KeptReply) -> None:
        self._replies[reply.owner, reply.route, reply.key] = reply

    def kept_reply(self, owner: Owner, route: str, key: IdempotencyKey) -> KeptReply | None:
        return self._replies.get((owner, route, key))

    def add_event(self, job_id: JobId, event: Event) -> None:
        self._events[job_id] = (*self._events.get(job_id, ()), event)

    def events(self, job_id: JobId, *, since: int, limit: int) -> list[Event]:
        return [event for event in self._events.get(job_id, ()) if event.seq > since][:limit]

    def save_points(self, job_id: JobId, points: Iterable[Point]) -> None:
        self._points[job_id] = {**self._points.get(job_id, {}), **{(point.step, point.name): point for point in points}}

    def points(self, job_id: JobId, *, after_step: int, limit: int, name: str | None = None) -> list[Point]:
        wanted = [
            point
            for (step, _), point in sorted(self._points.get(job_id, {}).items())
            if step > after_step and name in (None, point.name)
        ]
        given: list[Point] = []
        for _, step in groupby(wanted, key=lambda point: point.step):
            together = list(step)
            if given and len(given) + len(together) > limit:
                break
            given += together
        return given

    def last_step(self, job_id: JobId) -> int:
        return max((step for step, _ in self._points.get(job_id, {})), default=0)

    def save_key(self, key: SealedKey) -> None:
        self._keys.pop(key.id, None)
        self._keys[key.id] = key

    def keys(self, owner: Owner) -> list[SealedKey]:
        return [key for key in reversed(self._keys.values()) if key.owner == owner]


class InMemoryBlobStore(BlobStore):
    """BlobStore in a dict. Inspect with `contents`, by the ids of the blobs."""

    def __init__(self, clock: ClockPort) -> None:
        self.contents: dict[str, bytes] = {}
        self._clock = clock
        self._put_at: dict[str, float] = {}
        self._count = count(1)

    def put(self, content: Iterable[bytes]) -> Blob:
        whole = b"".join(content)
        blob = Blob(id=f"blob_{next(self._count)}", sha256=hashlib.sha256(whole).hexdigest(), size=len(whole))
        self.contents[blob.id] = whole
        self._put_at[blob.id] = self._clock.now()
        return blob

    def open(self, blob: Blob) -> BinaryIO:
        return io.BytesIO(self.contents[blob.id])

    def holds(self, blob: Blob) -> bool:
        return blob.id in self.contents

    def remove(self, blob: Blob) -> None:
        self.contents.pop(blob.id, None)

    def sweep(self, named: Set[str], *, before: float) -> int:
        unnamed = [one for one in self.contents if one not in named and self._put_at[one] < before]
        for one in unnamed:
            del self.contents[one]
        return len(unnamed)


class InMemoryResultStore(ResultStore):
    """ResultStore in a dict. Arrange with `made`: the files of each job by name."""

    def __init__(self) -> None:
        self.made: dict[JobId, dict[str, bytes]] = {}

    def files(self, job_id: JobId) -> list[ResultFile]:
        return [
            ResultFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
            for name, content in sorted(self.made.get(job_id, {}).items())
        ]

    def open(self, job_id: JobId, name: str) -> BinaryIO:
        return io.BytesIO(self.made[job_id][name])

    def remove(self, job_id: JobId) -> None:
        self.made.pop(job_id, None)


class ScriptedInspector(Inspector):
    """Inspector that does as arranged: files are ready after `looks` looks, or rejected if `complaint` says why.

    The upload itself is the first look. Arrange before the upload; what was found of a file stands.
    """

    def __init__(self, *, looks: int = 1, complaint: str = "") -> None:
        self.looks = looks
        self.complaint = complaint
        self._seen: Counter[FileId] = Counter()

    def inspect(self, file: StoredFile, blobs: BlobStore) -> Verdict | None:
        self._seen[file.id] += 1
        if self._seen[file.id] < self.looks:
            return None
        return Verdict(ok=not self.complaint, detail=self.complaint)
