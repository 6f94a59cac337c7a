"""What hosting needs: rows, bytes, a look into files, workers and a trainer.

In memory: `adapters.in_memory.hosting_stores`, `adapters.in_memory.executor` and `adapters.in_memory.sealer`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Set
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import (
    Blob,
    Happening,
    Job,
    JobFilter,
    KeptReply,
    Owner,
    ResultFile,
    SealedKey,
    StoredFile,
    Task,
    Verdict,
    WorkerId,
)
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId
from synth_train.domain.model.secret import Secret


class Rows(Protocol):
    """The rows of a store as one transaction sees them: what it has saved itself, it reads back.

    Rows are told apart by their ids; saving one again replaces it. The rules are not here: a store keeps what it
    is given.
    """

    def save_file(self, file: StoredFile) -> None:
        """Keep a file."""
        ...

    def remove_file(self, owner: Owner, file_id: FileId) -> None:
        """Forget a file; one that is not there is forgotten already."""
        ...

    def file(self, owner: Owner, file_id: FileId) -> StoredFile | None:
        """A file of this owner."""
        ...

    def files(self, owner: Owner) -> list[StoredFile]:
        """The files of this owner, the one saved first last."""
        ...

    def blob_ids(self) -> frozenset[str]:
        """The ids of the bytes of all files of all owners."""
        ...

    def save_job(self, job: Job) -> None:
        """Keep a job."""
        ...

    def job(self, job_id: JobId) -> Job | None:
        """A job, whosever it is."""
        ...

    def jobs(self, owner: Owner, wanted: JobFilter) -> list[Job]:
        """Jobs of this owner that `wanted` admits, the one saved first last; at most `wanted.limit`, and if
        `wanted.after` is set, only those that come after it in this order (none if it is unknown)."""
        ...

    def waiting_jobs(self) -> list[Job]:
        """Queued jobs of all owners that were asked to start, the one saved first first."""
        ...

    def unfinished_jobs(self, owner: Owner) -> list[Job]:
        """Jobs of this owner that are not over, the one saved first first."""
        ...

    def held_jobs(self) -> list[Job]:
        """Jobs of all owners that a worker has (`JobStatus.held`), the one saved first first."""
        ...

    def keep_reply(self, reply: KeptReply) -> None:
        """Keep what was answered under an idempotency key."""
        ...

    def kept_reply(self, owner: Owner, route: str, key: IdempotencyKey) -> KeptReply | None:
        """What was answered to this owner, on this route, under this key."""
        ...

    def add_event(self, job_id: JobId, event: Event) -> None:
        """Keep an event. Its `seq` is larger than that of every event of the job so far."""
        ...

    def events(self, job_id: JobId, *, since: int, limit: int) -> list[Event]:
        """Events with a `seq` above `since`, ascending, at most `limit`."""
        ...

    def save_points(self, job_id: JobId, points: Iterable[Point]) -> None:
        """Keep points. A point of the same name and step is replaced: a job that goes on from a checkpoint repeats
        the steps after it."""
        ...

    def points(self, job_id: JobId, *, after_step: int, limit: int, name: str | None = None) -> list[Point]:
        """Points of steps above `after_step`, by step and then by name, at most `limit`, of one metric or of all.

        A cut by `limit` never falls inside a step: the next call with the last step seen would miss the rest. The
        first step is given whole even when it has more points than `limit`.
        """
        ...

    def last_step(self, job_id: JobId) -> int:
        """The last step that has points; 0 when none has. Answers at once."""
        ...

    def save_key(self, key: SealedKey) -> None:
        """Keep an environment key."""
        ...

    def keys(self, owner: Owner) -> list[SealedKey]:
        """Environment keys of this owner, the one last saved first."""
        ...


class JobStore(Protocol):
    """Rows that survive the process, and are shared by all processes and threads that use the store.

    True of every adapter, and checked in tests/contracts/test_hosting_stores.py: transactions happen one after the
    other, as if no two overlapped, so that what one reads before it writes stays true until it ends. That is what
    makes a claim belong to one worker and an idempotency key to one job.
    """

    def transaction(self) -> AbstractContextManager[Rows]:
        """All that is done with the rows takes effect when the block ends, and nothing of it when it raises.

        Transactions are short: no request is made, no file read and nothing waited for within one. They do not
        nest.
        """
        ...


class BlobStore(Protocol):
    """Uploaded bytes, under ids of the store's own.

    Checked in tests/contracts/test_hosting_stores.py.
    """

    def put(self, content: Iterable[bytes]) -> Blob:
        """Keep bytes, in memory that does not grow with their number.

        Whatever `content` raises comes out, and nothing is kept of what came before.
        """
        ...

    def open(self, blob: Blob) -> BinaryIO:
        """The bytes, from the first one.

        Raises:
            KeyError: they are not here.
        """
        ...

    def holds(self, blob: Blob) -> bool:
        """Whether the bytes are still here: somebody may have removed them by hand. Answers at once."""
        ...

    def remove(self, blob: Blob) -> None:
        """Forget bytes; those that are not there are forgotten already."""
        ...

    def sweep(self, named: Set[str], *, before: float) -> int:
        """Forget what was put before a moment under an id that is not in `named`, and what is left of puts that were
        cut off before it; how many that were.

        Args:
            before: seconds since 1970.
        """
        ...


class ResultStore(Protocol):
    """Models that jobs have made.

    Checked in tests/contracts/test_hosting_stores.py.
    """

    def files(self, job_id: JobId) -> list[ResultFile]:
        """The files of the model of a job, by name, each with its hash; none when there is no model.

        The first time takes as long as all of them take to read."""
        ...

    def open(self, job_id: JobId, name: str) -> BinaryIO:
        """The bytes of one of these files.

        Raises:
            KeyError: it is not here.
        """
        ...

    def remove(self, job_id: JobId) -> None:
        """Forget the model of a job; one that is not there is forgotten already."""
        ...


class Inspector(Protocol):
    """Somebody who looks into uploaded files."""

    def inspect(self, file: StoredFile, blobs: BlobStore) -> Verdict | None:
        """Whether the file can be trained on. None: not known yet, ask again at the next read of the file."""
        ...


class Executor(Protocol):
    """Somebody who sees to it that workers run."""

    def wake(self) -> None:
        """See to it that the queue is worked on: called after whatever may have made work, and with every read of a
        job. Returns soon, and changes nothing when all is well. A worker that runs outlives the caller."""
        ...

    def kill(self, worker: WorkerId) -> None:
        """End a worker that did not stop when asked, with every process it has started. One that has ended, or was
        never there, is fine."""
        ...


class Trainer(Protocol):
    """Somebody who trains. Lives in the worker."""

    def train(self, task: Task) -> Generator[Happening, None, None]:
        """Train, telling what happens. The generator's end is the job's success.

        The consumer writes down each happening when it comes, which also shows that the worker is alive: so `Tick`
        comes when there is nothing to tell, at least every 3 s. Closing the generator is the request to stop:
        what was begun is let go of then, and soon.

        When `task.job.claims` is above 1, an earlier worker died; training goes on from the last complete checkpoint.

        Raises (from the generator):
            TrainingFailed: it cannot go on.
        """
        ...


class Unsealer(Protocol):
    """The private side of `SealerPort`."""

    def public_key(self) -> bytes:
        """The 32 bytes to seal with; always the same ones."""
        ...

    def unseal(self, sealed: bytes) -> Secret:
        """What was sealed with the public key.

        Raises:
            ValueError: it was not sealed with it, or is no UTF-8 text. The message holds nothing of the content.
        """
        ...
