"""A journal of small files, one for each submission, with a lock file beside each that is under way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from synth_train.adapters.file_lock import try_lock
from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.jobs import IdempotencyKey, JobId
from synth_train.domain.model.submission import Stage, Submission
from synth_train.ports.journal import JournalPort

_FINGERPRINT_IN_NAME = 16
"""So many digits of the fingerprint stand in a file's name, so that a look-up need not open every file."""


class FileJournal(JournalPort):
    """JournalPort in `directory`, which is made (mode 0700) when the first entry is kept.

    An entry is written beside its place, synced, moved into place, and the directory synced: after a crash at any
    moment it is there whole, as it was before or as it is now.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}

    def open(self, submission: Submission) -> None:
        with self._telling_what_failed("make"):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._hold(submission):
            raise LocalStateError(f"another process holds the new submission {submission.id}")
        self.advance(submission)

    def take_up(self, fingerprint: str) -> Submission | None:
        for path in self._newest_first(fingerprint):
            entry = self._read(path)
            if entry.fingerprint != fingerprint or not entry.open or entry.key_is_users or not self._hold(entry):
                continue
            # Whoever held it until a moment ago may have gone on with it since it was read.
            entry = self._read(path)
            if entry.open:
                return entry
            self.release(entry)
        return None

    def with_key(self, backend: str, account: str, key: IdempotencyKey) -> Submission | None:
        for path in self._newest_first():
            entry = self._read(path)
            if entry.key_is_users and (entry.backend, entry.account, entry.key) == (backend, account, key):
                return self._read(path) if self._hold(entry) else entry
        return None

    def advance(self, submission: Submission) -> None:
        path = self._path(submission)
        aside = path.with_suffix(".new")
        with self._telling_what_failed("write"):
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(submission))
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
            self._sync_directory()

    def release(self, submission: Submission) -> None:
        lock = self._locks.pop(submission.id, None)
        if lock is None:
            return
        # An open entry keeps its lock file: removed under somebody who waits for it, it would be two locks.
        if not submission.open:
            with contextlib.suppress(OSError):
                self._lock_path(submission).unlink()
        os.close(lock)

    def saw(self, job_id: JobId, word: str) -> None:
        with contextlib.suppress(LocalStateError):
            for path in self._newest_first():
                entry = self._read(path)
                if entry.job_id == job_id:
                    self.advance(replace(entry, last_word=word))
                    return

    def with_jobs(self) -> Sequence[Submission]:
        found: list[Submission] = []
        with contextlib.suppress(LocalStateError):
            for path in self._newest_first():
                with contextlib.suppress(LocalStateError):
                    entry = self._read(path)
                    found += [entry] if entry.job_id is not None else []
        return found

    def latest_handed_over(self, fingerprint: str) -> Submission | None:
        for path in self._newest_first(fingerprint):
            entry = self._read(path)
            if entry.fingerprint == fingerprint and entry.stage is Stage.HANDED_OVER:
                return entry
        return None

    def _path(self, submission: Submission) -> Path:
        return self._directory / f"{submission.id}-{submission.fingerprint[:_FINGERPRINT_IN_NAME]}.json"

    def _lock_path(self, submission: Submission) -> Path:
        return self._directory / f"{submission.id}.lock"

    def _newest_first(self, fingerprint: str = "") -> list[Path]:
        with self._telling_what_failed("read"):
            return sorted(self._directory.glob(f"*{fingerprint[:_FINGERPRINT_IN_NAME]}.json"), reverse=True)

    def _read(self, path: Path) -> Submission:
        with self._telling_what_failed("read"):
            encoded = path.read_bytes()
        try:
            return msgspec.json.decode(encoded, type=Submission)
        except msgspec.MsgspecError as error:
            raise LocalStateError(
                f"{path} is not a submission that this version can read",
                hint="It may name a job that exists. Look for the job on the backend, then remove the file.",
            ) from error

    def _hold(self, submission: Submission) -> bool:
        if submission.id in self._locks:
            return True
        with self._telling_what_failed("lock"):
            lock = try_lock(self._lock_path(submission))
        if lock is None:
            return False
        self._locks[submission.id] = lock
        return True

    def _sync_directory(self) -> None:
        if os.name != "posix":
            return
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _telling_what_failed(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LocalStateError(
                f"cannot {what} the submissions journal in {self._directory}: {error.strerror}",
                hint="Without it a job could be created twice. Make the directory writable, or move it with "
                "SYNTH_AI_HOME.",
            ) from error
