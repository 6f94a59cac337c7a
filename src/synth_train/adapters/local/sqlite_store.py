"""Rows of hosting in one SQLite file, shared by all processes of its owner.

A row is kept as JSON, beside the few columns that are searched by. A field that a later version adds to a row has a
default there, so that rows of before can still be read; anything else is a new schema.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec.structs import replace

from synth_train.adapters.local.home import NO_SPACE, is_full, keeping, private_folder
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import (
    Job,
    JobFilter,
    KeptReply,
    Owner,
    Refusal,
    SealedKey,
    StoredFile,
)
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId
from synth_train.ports.hosting import JobStore, Rows

SCHEMA = 1
"""Kept in the file as `user_version`. It grows when a program that knows only the one before would misread the file."""

LONGEST_WAIT = 60.0
"""Seconds that a transaction waits for those before it; each lasts milliseconds."""

_TABLES = """
CREATE TABLE files (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, row TEXT NOT NULL);
CREATE INDEX files_of ON files (owner, seq);
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, status TEXT NOT NULL,
    started INTEGER NOT NULL, row TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX jobs_of ON jobs (owner, seq);
CREATE INDEX jobs_not_over ON jobs (owner, seq) WHERE status IN ('queued', 'running', 'cancelling');
CREATE INDEX jobs_held ON jobs (seq) WHERE status IN ('running', 'cancelling');
CREATE INDEX jobs_waiting ON jobs (seq) WHERE status = 'queued' AND started;
CREATE TABLE replies (
    owner TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, row TEXT NOT NULL, PRIMARY KEY (owner, route, key)
) WITHOUT ROWID;
CREATE TABLE events (job TEXT NOT NULL, seq INTEGER NOT NULL, row TEXT NOT NULL, PRIMARY KEY (job, seq)) WITHOUT ROWID;
CREATE TABLE points (
    job TEXT NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL, created_at REAL NOT NULL, phase TEXT,
    PRIMARY KEY (job, step, name)
) WITHOUT ROWID;
CREATE TABLE keys (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, row TEXT NOT NULL);
"""

_LARGEST = 2**63 - 1
_JOB, _FILE, _KEY = msgspec.json.Decoder(Job), msgspec.json.Decoder(StoredFile), msgspec.json.Decoder(SealedKey)
_REPLY, _EVENT = msgspec.json.Decoder(KeptReply), msgspec.json.Decoder(Event)

Told = Callable[[JobId, Sequence[Event | Point]], None]


class SqliteJobStore(JobStore):
    """JobStore in the file `path`, which is made, with its folder, when it is first used.

    Safe to use from many threads and processes, and through a fork, which waits for the transaction under way.
    Transactions queue up (`BEGIN IMMEDIATE`), so that none ever finds what it has read changed by another.

    Args:
        durable: whether what a transaction has saved survives a power cut. Without it one may undo the last few, never
            half of one: enough for a worker, which would only train some steps again.
        told: called after a transaction with the events and points that it has added to each job.
    """

    def __init__(self, path: Path, *, durable: bool = True, told: Told | None = None) -> None:
        self._path = path
        self._durable = durable
        self._told = told
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        _STORES.add(self)

    @contextmanager
    def transaction(self) -> Iterator[Rows]:
        with self._lock:
            connection = self._connected()
            rows = _SqliteRows(connection)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield rows
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(connection)
                raise self._refused(error) from error
            except BaseException:
                _roll_back(connection)
                raise
            if self._told is not None:
                for job_id, news in rows.news.items():
                    self._told(job_id, news)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        try:
            with keeping(self._path):
                private_folder(self._path.parent)
                if not self._path.exists():
                    _create(self._path)
            connection = _connect(self._path)
            # Closed when the store is dropped, and at the end of the process.
            weakref.finalize(self, connection.close)
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            [(schema,)] = connection.execute("PRAGMA user_version")
        except sqlite3.Error as error:
            raise self._refused(error) from error
        if schema != SCHEMA:
            raise Refusal(
                500,
                "other_schema",
                f"{self._path} was written by another version of synth-train (its schema is {schema}, this version's "
                f"is {SCHEMA}); use that version, or another folder (SYNTH_AI_HOME)",
            )
        self._connection = connection
        return connection

    def hold_still(self) -> None:
        """Close the connection between two transactions, and begin none until `go_on`."""
        self._lock.acquire()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def go_on(self) -> None:
        """Undo `hold_still`."""
        self._lock.release()

    def _refused(self, error: sqlite3.Error) -> Refusal:
        name = getattr(error, "sqlite_errorname", "")  # Python 3.11 and later
        # When not even a file beside the database can be made, SQLite says `disk I/O error`.
        if name == "SQLITE_FULL" or "disk is full" in str(error) or is_full(self._path.parent):
            return Refusal(
                507, NO_SPACE, f"there is no space left for {self._path}; nothing was kept of what was asked"
            )
        return Refusal(500, "database", f"the database {self._path} cannot be used: {error}")


_STORES: weakref.WeakSet[SqliteJobStore] = weakref.WeakSet()
_held_still: list[SqliteJobStore] = []


def _before_fork() -> None:
    """SQLite cannot be taken through a fork: the child would believe in locks that only its parent holds."""
    for store in list(_STORES):
        store.hold_still()
        _held_still.append(store)


def _after_fork() -> None:
    while _held_still:
        _held_still.pop().go_on()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _connect(path: Path) -> sqlite3.Connection:
    # Each transaction holds the store's own lock, so that threads never meet in the connection.
    return sqlite3.connect(path, timeout=LONGEST_WAIT, isolation_level=None, check_same_thread=False)


def _create(path: Path) -> None:
    """Make the file, whole: another process that makes it at the same time must not find half a schema."""
    aside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    os.close(os.open(aside, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        with closing(_connect(aside)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


class _SqliteRows(Rows):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.news: dict[JobId, list[Event | Point]] = {}
        self._run = connection.execute

    # Files

    def save_file(self, file: StoredFile) -> None:
        self._run(
            "INSERT INTO files (id, owner, row) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET row = excluded.row",
            (file.id, file.owner, _json(file)),
        )

    def remove_file(self, owner: Owner, file_id: FileId) -> None:
        self._run("DELETE FROM files WHERE id = ? AND owner = ?", (_findable(file_id), owner))

    def file(self, owner: Owner, file_id: FileId) -> StoredFile | None:
        found = self._run("SELECT row FROM files WHERE id = ? AND owner = ?", (_findable(file_id), owner)).fetchone()
        return _FILE.decode(found[0]) if found else None

    def files(self, owner: Owner) -> list[StoredFile]:
        found = self._run("SELECT row FROM files WHERE owner = ? ORDER BY seq DESC", (owner,))
        return [_FILE.decode(row) for (row,) in found]

    def blob_ids(self) -> frozenset[str]:
        return frozenset(_FILE.decode(row).blob.id for (row,) in self._run("SELECT row FROM files"))

    # Jobs

    def save_job(self, job: Job) -> None:
        row = _json(replace(job, order=replace(job.order, body=b"")))
        self._run(
            "INSERT INTO jobs (id, owner, status, started, row, body) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET status = excluded.status, started = excluded.started, row = excluded.row",
            (job.id, job.owner, job.status.value, job.started, row, job.order.body),
        )

    def job(self, job_id: JobId) -> Job | None:
        return next(self._jobs("id = ?", _findable(job_id)), None)

    def jobs(self, owner: Owner, wanted: JobFilter) -> list[Job]:
        if wanted.after is None:
            jobs = self._jobs("owner = ? ORDER BY seq DESC", owner)
        else:
            jobs = self._jobs(
                "owner = ? AND seq < (SELECT seq FROM jobs WHERE id = ? AND owner = ?) ORDER BY seq DESC",
                owner,
                _findable(wanted.after),
                owner,
            )
        found: list[Job] = []
        for job in jobs:
            if len(found) >= wanted.limit:
                break
            if wanted.admits(job):
                found.append(job)
        return found

    def waiting_jobs(self) -> list[Job]:
        return list(self._jobs("status = 'queued' AND started ORDER BY seq"))

    def unfinished_jobs(self, owner: Owner) -> list[Job]:
        return list(self._jobs("status IN ('queued', 'running', 'cancelling') AND owner = ? ORDER BY seq", owner))

    def held_jobs(self) -> list[Job]:
        return list(self._jobs("status IN ('running', 'cancelling') ORDER BY seq"))

    def _jobs(self, which: str, *values: object) -> Iterator[Job]:
        for row, body in self._run(f"SELECT row, body FROM jobs WHERE {which}", values):
            job = _JOB.decode(row)
            yield replace(job, order=replace(job.order, body=body))

    # Idempotency

    def keep_reply(self, reply: KeptReply) -> None:
        self._run(
            "INSERT OR REPLACE INTO replies (owner, route, key, row) VALUES (?, ?, ?, ?)",
            (reply.owner, reply.route, reply.key, _json(reply)),
        )

    def kept_reply(self, owner: Owner, route: str, key: IdempotencyKey) -> KeptReply | None:
        found = self._run(
            "SELECT row FROM replies WHERE owner = ? AND route = ? AND key = ?", (owner, route, key)
        ).fetchone()
        return _REPLY.decode(found[0]) if found else None

    # Events and points

    def add_event(self, job_id: JobId, event: Event) -> None:
        self._run("INSERT INTO events (job, seq, row) VALUES (?, ?, ?)", (job_id, event.seq, _json(event)))
        self.news.setdefault(job_id, []).append(event)

    def events(self, job_id: JobId, *, since: int, limit: int) -> list[Event]:
        found = self._run(
            "SELECT row FROM events WHERE job = ? AND seq > ? ORDER BY seq LIMIT ?",
            (job_id, _bounded(since), _bounded(limit)),
        )
        return [_EVENT.decode(row) for (row,) in found]

    def save_points(self, job_id: JobId, points: Iterable[Point]) -> None:
        for point in points:
            self._run(
                "INSERT OR REPLACE INTO points (job, step, name, value, created_at, phase) VALUES (?, ?, ?, ?, ?, ?)",
                (job_id, point.step, point.name, point.value, point.created_at, point.phase),
            )
            self.news.setdefault(job_id, []).append(point)

    def points(self, job_id: JobId, *, after_step: int, limit: int, name: str | None = None) -> list[Point]:
        found = self._run(
            "SELECT name, step, value, created_at, phase FROM points "
            "WHERE job = ? AND step > ? AND (? IS NULL OR name = ?) ORDER BY step, name",
            (job_id, _bounded(after_step), name, name),
        )
        points = (
            # SQLite has no "not a number": it keeps one as NULL.
            Point(name=name, step=step, value=math.nan if value is None else value, created_at=at, phase=phase)
            for name, step, value, at, phase in found
        )
        given: list[Point] = []
        for _, step in groupby(points, key=lambda point: point.step):
            together = list(step)
            if given and len(given) + len(together) > limit:
                break
            given += together
        return given

    def last_step(self, job_id: JobId) -> int:
        [(last,)] = self._run("SELECT max(step) FROM points WHERE job = ?", (job_id,))
        return last or 0

    # Environment keys

    def save_key(self, key: SealedKey) -> None:
        # In a new row, so that it comes after all others.
        self._run("INSERT OR REPLACE INTO keys (id, owner, row) VALUES (?, ?, ?)", (key.id, key.owner, _json(key)))

    def keys(self, owner: Owner) -> list[SealedKey]:
        return [
            _KEY.decode(row) for (row,) in self._run("SELECT row FROM keys WHERE owner = ? ORDER BY seq DESC", (owner,))
        ]


def _json(row: msgspec.Struct) -> str:
    return msgspec.json.encode(row).decode()


def _findable(text: str) -> str:
    """`text`, or something else that is nobody's id, when it holds half a character, which SQLite takes for a bug."""
    return text.encode(errors="replace").decode()


def _bounded(number: int) -> int:
    return max(-_LARGEST, min(number, _LARGEST))
