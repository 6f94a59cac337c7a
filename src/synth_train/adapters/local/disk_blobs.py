"""Uploaded bytes as files, and what jobs have made."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable, Set
from pathlib import Path
from typing import BinaryIO

import msgspec

from synth_train.adapters.file_hash import sha256_of
from synth_train.adapters.local.home import JobFolder, LocalHome, keeping, private_folder, removed, sync_folder
from synth_train.adapters.raw_file import create, write_all
from synth_train.domain.model.hosting import Blob, ResultFile
from synth_train.domain.model.jobs import JobId
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.hosting import BlobStore, ResultStore

_UNFINISHED = ".new"


class DiskBlobStore(BlobStore):
    """BlobStore in a folder, a file for each upload under a name of the store's own.

    Bytes are written aside, synced, and moved into place: what is there is there whole.
    """

    def __init__(self, folder: Path, entropy: EntropyPort) -> None:
        self._folder = folder
        self._entropy = entropy

    def path(self, blob: Blob) -> Path:
        """Where the bytes are, for a trainer; read only."""
        return self._folder / blob.id

    def put(self, content: Iterable[bytes]) -> Blob:
        """Keep bytes, in memory that does not grow with their number.

        Raises:
            Refusal: 507 when they do not fit on the disk, 500 when it does not take them.
        """
        name = f"blob_{self._entropy.token(16)}"
        aside = self._folder / f"{name}{_UNFINISHED}"
        digest, size = hashlib.sha256(), 0
        try:
            with keeping(self._folder):
                private_folder(self._folder)
                file = create(aside, 0o600)
            with file:
                for chunk in content:
                    digest.update(chunk)
                    size += len(chunk)
                    with keeping(self._folder):
                        write_all(file, chunk)
                with keeping(self._folder):
                    os.fsync(file.fileno())
            with keeping(self._folder):
                aside.rename(self._folder / name)
                sync_folder(self._folder)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        return Blob(id=name, sha256=digest.hexdigest(), size=size)

    def open(self, blob: Blob) -> BinaryIO:
        try:
            return self.path(blob).open("rb")
        except FileNotFoundError:
            raise KeyError(blob.id) from None

    def holds(self, blob: Blob) -> bool:
        return self.path(blob).is_file()

    def remove(self, blob: Blob) -> None:
        self.path(blob).unlink(missing_ok=True)

    def sweep(self, named: Set[str], *, before: float) -> int:
        """Forget what nothing names.

        Raises:
            Refusal: 500 when the folder cannot be read, or a file in it not be removed.
        """
        swept = 0
        with keeping(self._folder):
            for path in self._folder.glob("blob_*"):
                with contextlib.suppress(FileNotFoundError):  # an upload under way has moved it into place
                    if path.name not in named and path.stat().st_mtime < before:
                        path.unlink()
                        swept += 1
        return swept


class FolderResults(ResultStore):
    """ResultStore of what lies in the model folders of jobs. Files are hashed once, and again when they change."""

    def __init__(self, home: LocalHome) -> None:
        self._home = home
        self._lock = threading.Lock()

    def files(self, job_id: JobId) -> list[ResultFile]:
        with self._lock:  # so that who asks again while a large model is read does not read it, too
            return self._hashed(self._home.job(job_id))

    def open(self, job_id: JobId, name: str) -> BinaryIO:
        if name not in _by_name(self._home.job(job_id)):
            raise KeyError(name)
        return (self._home.job(job_id).model / name).open("rb")

    def remove(self, job_id: JobId) -> None:
        job = self._home.job(job_id)
        with self._lock, keeping(job.model):
            removed(job.model)
            job.digests.unlink(missing_ok=True)

    def _hashed(self, job: JobFolder) -> list[ResultFile]:
        known, now = _digests(job), dict[str, _Digest]()
        for name, path in _by_name(job).items():
            about = path.stat()
            then = known.get(name)
            if then is None or (then.size, then.changed) != (about.st_size, about.st_mtime_ns):
                then = _Digest(size=about.st_size, changed=about.st_mtime_ns, sha256=sha256_of(path))
            now[name] = then
        if now != known:
            with contextlib.suppress(OSError):  # then they are hashed again next time
                aside = job.digests.with_suffix(_UNFINISHED)
                aside.write_bytes(msgspec.json.encode(now))
                aside.replace(job.digests)
        return [ResultFile(name=name, size=digest.size, sha256=digest.sha256) for name, digest in now.items()]


class _Digest(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    changed: int
    """Nanoseconds since 1970."""
    sha256: str


def _by_name(job: JobFolder) -> dict[str, Path]:
    """The files of the model of a job."""
    return {path.relative_to(job.model).as_posix(): path for path in sorted(job.model.rglob("*")) if path.is_file()}


def _digests(job: JobFolder) -> dict[str, _Digest]:
    try:
        return msgspec.json.decode(job.digests.read_bytes(), type=dict[str, _Digest])
    except (OSError, msgspec.MsgspecError):
        return {}
