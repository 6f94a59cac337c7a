"""DatasetPort over the file system."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from synth_train.adapters.user_paths import expanded
from synth_train.domain.model.dataset import Part, Stamp
from synth_train.domain.model.errors import InvalidDataset
from synth_train.domain.model.nearness import files_like
from synth_train.ports.datasets import DatasetPort, Located

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 20
_MOST_NAMES = 10_000
"""Names of a directory that are looked at for one that is near."""

_ODD_FILES = (
    (stat.S_ISDIR, "a directory", "Name the JSONL file inside."),
    (stat.S_ISFIFO, "a pipe", "Write it to a file first: an upload may have to begin again."),
    (stat.S_ISCHR, "a device", "Write it to a file first: an upload may have to begin again."),
    (stat.S_ISSOCK, "a socket", "Write it to a file first: an upload may have to begin again."),
)


class JsonlDatasets(DatasetPort):
    """DatasetPort over the file system. `cwd` stands in for the process's working directory."""

    def __init__(self, cwd: Path | None = None) -> None:
        self._cwd = cwd

    def locate(self, name: str, *, beside: Path | None) -> Located:
        cwd = self._cwd or Path.cwd()
        starts = [cwd] if beside is None else [beside, cwd]
        tried = tuple(dict.fromkeys(_absolute(cwd / start, name) for start in starts))
        there = [path for path in tried if _is_there(path)]
        if not there:
            return Located(path=None, tried=tried, near=tuple(near for path in tried for near in _near(path))[:3])
        shadowed = next((path for path in there[1:] if not _same(there[0], path)), None)
        return Located(path=there[0], tried=tried, shadowed=shadowed)

    def stamp(self, path: Path) -> Stamp:
        with _translated(path):
            return _stamp_of(path, path.stat())

    def chunks(self, path: Path) -> Iterator[bytes]:
        self.stamp(path)  # opening a pipe would wait for somebody to write
        with _translated(path), path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk if chunk.endswith(b"\n") else chunk + file.readline()

    def open(self, part: Part) -> BinaryIO:
        stamp = self.stamp(part.path)
        if part.stamp not in (None, stamp):
            raise _changed(part.path)
        with _translated(part.path):
            file = part.path.open("rb", buffering=0)
        return cast("BinaryIO", _PartReader(file, part, stamp))

    def sha256(self, part: Part) -> str:
        import hashlib  # here, like the two below: a dry run needs none of them

        digest = hashlib.sha256()
        with self.open(part) as reader:
            while block := reader.read(_CHUNK):
                digest.update(block)
        return digest.hexdigest()


class _PartReader(io.RawIOBase):
    """The bytes of a part, and an error in place of bytes that may be others."""

    def __init__(self, file: io.FileIO, part: Part, stamp: Stamp) -> None:
        super().__init__()
        self._file = file
        self._path = part.path
        self._stamp = stamp
        self._left = part.size
        file.seek(part.start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")[: self._left]
        with _translated(self._path):
            count = self._file.readinto(view) or 0
            now = _stamp_of(self._path, os.fstat(self._file.fileno()))
        if now != self._stamp or (view and not count):
            raise _changed(self._path)
        self._left -= count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Let nothing but InvalidDataset out."""
    try:
        yield
    except FileNotFoundError as error:
        near = ", ".join(map(str, _near(path)))
        raise InvalidDataset(f"{path}: there is no such file", hint=near and f"Did you mean {near}?") from error
    except OSError as error:
        raise InvalidDataset(f"{path}: cannot be read: {error.strerror or error}") from error


def _stamp_of(path: Path, status: os.stat_result) -> Stamp:
    for is_it, what, hint in _ODD_FILES:
        if is_it(status.st_mode):
            raise InvalidDataset(f"{path}: is {what}, not a file", hint=hint)
    return Stamp(status.st_size, status.st_mtime_ns)


def _changed(path: Path) -> InvalidDataset:
    return InvalidDataset(
        f"{path}: has changed since it was checked",
        hint="Wait until nothing writes to it any more, then run the same command again.",
    )


def _absolute(start: Path, name: str) -> Path:
    path = start / expanded(name)
    # Links are followed first and `..` is taken after, as the system does it. Path.resolve raises on loops.
    return path if "\0" in name else Path(os.path.realpath(path))


def _is_there(path: Path) -> bool:
    """Whether there is something. What may not be looked at is there: the refusal to read it says more."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


def _near(path: Path) -> list[Path]:
    """Files beside a missing one whose names are alike, the likest first."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_NAMES), strict=False) if entry.is_file()]
    except OSError:
        return []
    return [path.with_name(name) for name in files_like(path.name, names)]


def _same(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes. What cannot be compared counts as different."""
    import filecmp

    try:
        return one.samefile(other) or filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False
