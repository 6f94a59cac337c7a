"""A folder for fetched files."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from synth_train.adapters.raw_file import create, write_all
from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.destination import DestinationPort
from synth_train.ports.streams import Readable

_CHUNK = 1 << 20


class FolderDestination(DestinationPort):
    """DestinationPort at `path`, which must be nothing yet, or an empty folder. Files are written beside it first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def receive(self, files: Iterable[tuple[ResultFile, Callable[[], Readable]]]) -> None:
        path = self._path.absolute()
        with self._saying_what_failed():
            taken = path.exists() and not (path.is_dir() and not any(path.iterdir()))
        if taken:
            raise LocalStateError(f"{path} is there already", hint="Name another folder with --out, or remove it.")
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with self._saying_what_failed():
                aside.mkdir(parents=True)
            for file, open_it in files:
                with closing(open_it()) as stream:
                    self._write(aside.joinpath(*file.name.split("/")), stream)
            with self._saying_what_failed():
                with contextlib.suppress(FileNotFoundError):
                    path.rmdir()
                aside.rename(path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _write(self, place: Path, stream: Readable) -> None:
        with self._saying_what_failed():
            place.parent.mkdir(parents=True, exist_ok=True)
            file = create(place)
        with file:
            while chunk := stream.read(_CHUNK):
                with self._saying_what_failed():
                    write_all(file, chunk)

    @contextlib.contextmanager
    def _saying_what_failed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LocalStateError(
                f"cannot write to {self._path.absolute()}: {error.strerror or error}",
                hint="Nothing was kept. Make room, or name another folder with --out.",
            ) from error
