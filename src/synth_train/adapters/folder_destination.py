"""A folder for fetched files."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from synth_train.adapters.file_hash import sha256_of
from synth_train.adapters.raw_file import append, write_all
from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.destination import DestinationPort, Part

_CHUNK = 1 << 20


class FolderDestination(DestinationPort):
    """DestinationPort at `path`, a folder, or nothing yet. Beside it, `.NAME.part` keeps what has come so far."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._aside = self._path.with_name(f".{self._path.name}.part")

    def has(self, file: ResultFile) -> bool:
        place = _below(self._path, file)
        with self._saying_what_failed():
            if not place.is_file() or place.stat().st_size != file.size:
                return False
            return sha256_of(place) == file.sha256

    def open_to(self, *, replace: bool) -> None:
        path = self._path
        with self._saying_what_failed():
            if not path.exists():
                return
            if not path.is_dir():
                raise LocalStateError(f"{path} is there already, and is no folder", hint="Name a folder with --out.")
            if not replace and any(path.iterdir()):
                raise LocalStateError(
                    f"{path} is there already",
                    hint="Name another folder with --out, or let files in this one be replaced with --force.",
                )

    def part(self, file: ResultFile) -> Part:
        place = _below(self._aside, file)
        with self._saying_what_failed():
            place.parent.mkdir(parents=True, exist_ok=True)
        return _FilePart(place, self._saying_what_failed)

    def settle(self, files: Sequence[ResultFile]) -> None:
        with self._saying_what_failed():
            if self._path.exists() and any(self._path.iterdir()):
                for file in files:
                    place = _below(self._path, file)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    _below(self._aside, file).replace(place)
                shutil.rmtree(self._aside)
                return
            self._forget_all_but(files)
            with contextlib.suppress(FileNotFoundError):
                self._path.rmdir()
            self._aside.rename(self._path)

    def _forget_all_but(self, files: Sequence[ResultFile]) -> None:
        kept = {_below(self._aside, file) for file in files}
        kept |= {folder for path in kept for folder in path.parents}
        for path in sorted(self._aside.rglob("*"), reverse=True):
            if path not in kept:
                path.rmdir() if path.is_dir() else path.unlink()

    @contextlib.contextmanager
    def _saying_what_failed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LocalStateError(
                f"cannot write to {self._path}: {error.strerror or error}",
                hint="Nothing has come into it. Make room, or name another folder with --out, and run the same "
                "command again: it goes on where this one stopped.",
            ) from error


class _FilePart(Part):
    def __init__(self, place: Path, saying_what_failed: Callable[[], AbstractContextManager[None]]) -> None:
        self._saying_what_failed = saying_what_failed
        self._digest = hashlib.sha256()
        self._size = 0
        with saying_what_failed():
            self._file = append(place)
            with place.open("rb") as before:
                while chunk := before.read(_CHUNK):
                    self._count(chunk)

    @property
    def size(self) -> int:
        return self._size

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, chunk: bytes) -> None:
        with self._saying_what_failed():
            write_all(self._file, chunk)
        self._count(chunk)

    def drop(self) -> None:
        with self._saying_what_failed():
            self._file.truncate(0)
        self._digest, self._size = hashlib.sha256(), 0

    def close(self) -> None:
        self._file.close()

    def _count(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._size += len(chunk)


def _below(folder: Path, file: ResultFile) -> Path:
    return folder.joinpath(*file.name.split("/"))
