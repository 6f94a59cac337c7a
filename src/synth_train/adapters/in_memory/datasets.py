"""Dataset files in a dict."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from synth_train.domain.model.dataset import Part, Stamp
from synth_train.domain.model.errors import InvalidDataset
from synth_train.domain.model.nearness import files_like
from synth_train.ports.datasets import DatasetPort, Located


class InMemoryDatasets(DatasetPort):
    """DatasetPort over `files`, absolute POSIX path to bytes. Arrange with `write`; `cwd` is the working directory.

    `chunk` is how many bytes are read at a time. `read_so_far` counts the bytes that `chunks` has given, to see how
    much of a file a use case needs.
    """

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        cwd: str = "/repo",
        home: str = "/home/me",
        chunk: int = 1 << 20,
    ) -> None:
        self.files: dict[Path, bytes] = {}
        self.read_so_far = 0
        self._cwd, self._home, self._chunk = cwd, home, chunk
        self._written: dict[Path, int] = {}
        self._locked: set[Path] = set()
        for name, content in (files or {}).items():
            self.write(name, content)

    def write(self, name: str | Path, content: bytes) -> Path:
        """Make or replace a file, relative to the working directory. Returns its path."""
        path = self._path(self._cwd, str(name))
        self.files[path] = content
        self._written[path] = len(self._written) + sum(self._written.values()) + 1
        return path

    def lock(self, name: str) -> None:
        """Let a file be seen but not read."""
        self._locked.add(self._path(self._cwd, name))

    def locate(self, name: str, *, beside: Path | None) -> Located:
        starts = [self._cwd] if beside is None else [str(beside), self._cwd]
        tried = tuple(dict.fromkeys(self._path(start, name) for start in starts))
        there = [path for path in tried if path in self.files or self._is_directory(path)]
        if not there:
            return Located(path=None, tried=tried, near=tuple(near for path in tried for near in self._near(path))[:3])
        shadowed = next((path for path in there[1:] if self.files.get(path) != self.files.get(there[0])), None)
        return Located(path=there[0], tried=tried, shadowed=shadowed)

    def stamp(self, path: Path) -> Stamp:
        if path in self.files:
            return Stamp(len(self.files[path]), self._written[path])
        if self._is_directory(path):
            raise InvalidDataset(f"{path}: is a directory, not a file", hint="Name the JSONL file inside.")
        near = ", ".join(map(str, self._near(path)))
        raise InvalidDataset(f"{path}: there is no such file", hint=near and f"Did you mean {near}?")

    def _is_directory(self, path: Path) -> bool:
        return any(path in other.parents for other in self.files)

    def chunks(self, path: Path) -> Iterator[bytes]:
        self.stamp(path)
        file = BytesIO(self.files[path])
        while chunk := file.read(self._chunk):
            if not chunk.endswith(b"\n"):
                chunk += file.readline()
            self.read_so_far += len(chunk)
            yield chunk

    def open(self, part: Part) -> BinaryIO:
        stamp = self.stamp(part.path)
        if part.stamp not in (None, stamp):
            raise _changed(part.path)
        if part.path in self._locked:
            raise InvalidDataset(f"{part.path}: cannot be read: Permission denied")
        return _Reader(self, part, stamp)

    def sha256(self, part: Part) -> str:
        with self.open(part) as reader:
            return hashlib.sha256(reader.read()).hexdigest()

    def _path(self, start: str, name: str) -> Path:
        if name == "~" or name.startswith("~/"):
            name = self._home + name[1:]
        return Path(posixpath.normpath(posixpath.join(self._cwd, start, name)))

    def _near(self, path: Path) -> list[Path]:
        names = [other.name for other in self.files if other.parent == path.parent]
        return [path.with_name(name) for name in files_like(path.name, names)]


class _Reader(BytesIO):
    """The bytes of a part, as long as nobody writes to its file."""

    def __init__(self, datasets: InMemoryDatasets, part: Part, stamp: Stamp) -> None:
        super().__init__(datasets.files[part.path][part.start : part.stop])
        self._datasets, self._part, self._stamp = datasets, part, stamp

    def read(self, size: int | None = -1, /) -> bytes:
        if self._part.stop > self._stamp.size or self._datasets.stamp(self._part.path) != self._stamp:
            raise _changed(self._part.path)
        return super().read(size)


def _changed(path: Path) -> InvalidDataset:
    return InvalidDataset(
        f"{path}: has changed since it was checked",
        hint="Wait until nothing writes to it any more, then run the same command again.",
    )
