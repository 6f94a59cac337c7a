"""Uploaded files: taken once, looked into, and kept as long as a live job needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile

import msgspec
from msgspec import Struct

from synth_train.domain.model.hosting import (
    Blob,
    FileStatus,
    Owner,
    Refusal,
    StoredFile,
    clean_filename,
)
from synth_train.domain.model.jobs import FileId
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.hosting import BlobStore, Inspector, JobStore, Rows

LARGEST_FILE = 8 * 1024**3
"""Bytes."""


LEFT_ALONE = 3600.0
"""Seconds for which bytes without a file are left alone: the upload that they come with may be under way."""


class Label(Struct, frozen=True, kw_only=True):
    """What a client says about a file it uploads."""

    filename: str
    purpose: str


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of all owners."""

    store: JobStore
    blobs: BlobStore
    inspector: Inspector
    clock: ClockPort
    entropy: EntropyPort
    largest: int = LARGEST_FILE
    """Bytes; a larger file is refused while it comes in."""

    def upload(self, owner: Owner, content: Iterable[bytes], label: Callable[[], Label]) -> StoredFile:
        """Take a file. The same bytes for the same purpose are the same file, unless it was rejected before; if its
        bytes have got lost, it has them again.

        Args:
            label: asked after `content` has been read: in a form, the purpose may stand behind the file.

        Raises:
            Refusal: 400 without a purpose or without bytes, 413 when it is too large. Nothing is kept then.
        """
        blob = self.blobs.put(self._bounded(content))
        file: StoredFile | None = None
        try:
            file = self._taken(owner, blob, label())
        finally:
            if file is None or file.blob != blob:
                self.blobs.remove(blob)
        return self._looked_into(file)

    def show(self, owner: Owner, file_id: FileId) -> StoredFile:
        """A file and how far it has come.

        Raises:
            Refusal: 404.
        """
        with self.store.transaction() as rows:
            file = known_file(rows, owner, file_id)
        return self._looked_into(file)

    def listed(
        self, owner: Owner, *, purpose: str | None = None, after: str | None = None, limit: int = 20
    ) -> list[StoredFile]:
        """Files, newest first; only those after the file `after`, if one is named."""
        with self.store.transaction() as rows:
            files = [file for file in rows.files(owner) if purpose in (None, file.purpose)]
        if after is not None:
            files = list(dropwhile(lambda file: file.id != after, files))[1:]
        return files[:limit]

    def remove(self, owner: Owner, file_id: FileId) -> StoredFile:
        """Forget a file and its bytes.

        Raises:
            Refusal: 404; 409 when a job that has not ended needs it.
        """
        with self.store.transaction() as rows:
            file = known_file(rows, owner, file_id)
            live = next((job for job in rows.unfinished_jobs(owner) if file_id in job.order.files), None)
            if live is not None:
                raise Refusal(409, "file_in_use", f"file {file_id} is needed by job {live.id}, which has not ended")
            rows.remove_file(owner, file_id)
        self.blobs.remove(file.blob)
        return file

    def sweep(self) -> int:
        """Forget the bytes of uploads that were killed before their file was known; how many there were."""
        before = self.clock.now() - LEFT_ALONE
        with self.store.transaction() as rows:
            named = rows.blob_ids()
        return self.blobs.sweep(named, before=before)

    def _bounded(self, content: Iterable[bytes]) -> Iterator[bytes]:
        size = 0
        for chunk in content:
            size += len(chunk)
            if size > self.largest:
                raise Refusal(413, "file_too_large", f"the file is larger than the {self.largest} bytes allowed here")
            yield chunk

    def _taken(self, owner: Owner, blob: Blob, said: Label) -> StoredFile:
        purpose = said.purpose.strip()
        if not purpose:
            raise Refusal(400, "no_purpose", "the form has no `purpose`; for a dataset it is `fine-tune`")
        if not blob.size:
            raise Refusal(400, "empty_file", "the file is empty")
        with self.store.transaction() as rows:
            for twin in rows.files(owner):
                if (
                    twin.blob.sha256 == blob.sha256
                    and twin.purpose == purpose
                    and twin.status is not FileStatus.REJECTED
                ):
                    if not self.blobs.holds(twin.blob):
                        twin = msgspec.structs.replace(twin, blob=blob)
                        rows.save_file(twin)
                    return twin
            file = StoredFile(
                id=FileId(f"file_{self.entropy.token(12)}"),
                owner=owner,
                filename=clean_filename(said.filename),
                purpose=purpose,
                blob=blob,
                status=FileStatus.PROCESSING,
                created_at=self.clock.now(),
            )
            rows.save_file(file)
        return file

    def _looked_into(self, file: StoredFile) -> StoredFile:
        if file.status is not FileStatus.PROCESSING:
            return file
        verdict = self.inspector.inspect(file, self.blobs)
        if verdict is None:
            return file
        with self.store.transaction() as rows:
            file = known_file(rows, file.owner, file.id)
            if file.status is FileStatus.PROCESSING:
                status = FileStatus.READY if verdict.ok else FileStatus.REJECTED
                file = msgspec.structs.replace(file, status=status, detail=verdict.detail)
                rows.save_file(file)
        return file


def known_file(rows: Rows, owner: Owner, file_id: FileId) -> StoredFile:
    """A file that must be there.

    Raises:
        Refusal: 404.
    """
    file = rows.file(owner, file_id)
    if file is None:
        raise Refusal(404, "unknown_file", f"there is no file {file_id}")
    return file
