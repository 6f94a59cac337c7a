"""Dataset files. In memory: `adapters.in_memory.datasets.InMemoryDatasets`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from synth_train.domain.model.dataset import Part, Stamp


class Located(Struct, frozen=True, kw_only=True):
    """Where a path from a TOML or the command line was looked up."""

    path: Path | None
    """Absolute; None when it was found nowhere."""
    tried: tuple[Path, ...]
    """Every place, absolute, in the order they were tried."""
    shadowed: Path | None = None
    """Another file of that name, with other content, that a look-up from the working directory would have given."""
    near: tuple[Path, ...] = ()
    """Files of a similar name in the places tried, when it was found nowhere; 3 at most."""

    @property
    def nowhere(self) -> str:
        """That it was found nowhere, with the places and the names that may be meant."""
        if self.tried[-1].name == "-":
            return "standard input cannot be a dataset: it is read more than once; write it to a file and name that"
        meant = f"; did you mean {' or '.join(map(str, self.near))}?" if self.near else ""
        return f"there is no such file; looked for {', then for '.join(map(str, self.tried))}{meant}"


class DatasetPort(Protocol):
    """Files of rows, read in memory that does not grow with their size.

    Only regular files are read: an upload must be able to begin again from the first byte.
    """

    def locate(self, name: str, *, beside: Path | None) -> Located:
        """Look for a file: from `beside` (the directory of a TOML) and then from the working directory; with
        `beside` None from the working directory only. `~` is expanded."""
        ...

    def stamp(self, path: Path) -> Stamp:
        """What the file looks like now.

        Raises:
            InvalidDataset: it does not exist (the hint has names that are near), is a directory, a pipe or a device,
                or cannot be looked at.
        """
        ...

    def chunks(self, path: Path) -> Iterator[bytes]:
        """The bytes of a file, in order and none empty: every chunk but the last ends with a line end, and only a
        single line that is longer makes a chunk longer than 2 MiB.

        Raises:
            InvalidDataset: as for `stamp`, or it cannot be read.
        """
        ...

    def open(self, part: Part) -> BinaryIO:
        """The bytes of a part, for an upload. `read` gives at most what is asked for.

        Raises:
            InvalidDataset: as for `stamp`, here or while reading. Also when the file has changed since the part's
                stamp was taken, or changes while it is read: other bytes than those looked at are never given.
        """
        ...

    def sha256(self, part: Part) -> str:
        """Hash of the bytes that `open` gives, as 64 hex digits.

        Raises:
            InvalidDataset: as for `open`.
        """
        ...
