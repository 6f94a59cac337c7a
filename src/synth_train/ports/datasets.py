"""Dataset files. In memory: `adapters.in_memory.datasets.InMemoryDatasets`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from synth_train.domain.model.dataset import Part


class Located(Struct, frozen=True, kw_only=True):
    """Where a path from a TOML or the command line was looked up."""

    path: Path | None
    """Absolute; None when it was found nowhere."""
    tried: tuple[Path, ...]
    """Every place, absolute, in the order they were tried."""
    shadowed: Path | None = None
    """Another file of that name, with other content, that a look-up from the working directory would have given."""


class DatasetPort(Protocol):
    """Files of rows, read in memory that does not grow with their size."""

    def locate(self, name: str, *, beside: Path | None) -> Located:
        """Look for a file: from `beside` (the directory of a TOML) and then from the working directory; with
        `beside` None from the working directory only. `~` is expanded."""
        ...

    def size(self, path: Path) -> int:
        """Bytes.

        Raises:
            InvalidDataset: it does not exist, is a directory, or cannot be opened.
        """
        ...

    def chunks(self, path: Path) -> Iterator[bytes]:
        """The bytes of a file, in order: every chunk but the last ends with a line end, and only a single line that
        is longer makes a chunk longer than a few MiB.

        Raises:
            InvalidDataset: it cannot be read.
        """
        ...

    def open(self, part: Part) -> BinaryIO:
        """The bytes of a part, for an upload. `read` gives at most what is asked for.

        Raises:
            InvalidDataset: it cannot be read, or has become shorter.
        """
        ...

    def sha256(self, part: Part) -> str:
        """Hash of the bytes that `open` gives, as 64 hex digits.

        Raises:
            InvalidDataset: as for `open`.
        """
        ...
