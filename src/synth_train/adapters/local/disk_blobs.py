"""Uploaded bytes as files, and what jobs have made."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from synth_train.adapters.local.home import LocalHome, keeping, private_folder, sync_folder
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


class FolderResults(ResultStore):
    """ResultStore of what lies in the model folders of jobs."""

    def __init__(self, home: LocalHome) -> None:
        self._home = home

    def files(self, job_id: JobId) -> list[ResultFile]:
        folder = self._home.job(job_id).model
        return [
            ResultFile(name=path.relative_to(folder).as_posix(), size=path.stat().st_size)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]

    def open(self, job_id: JobId, name: str) -> BinaryIO:
        if name not in [file.name for file in self.files(job_id)]:
            raise KeyError(name)
        return (self._home.job(job_id).model / name).open("rb")
