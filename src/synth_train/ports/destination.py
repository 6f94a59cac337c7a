"""Where files go that are fetched. In memory: `adapters.in_memory.destination.InMemoryDestination`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from synth_train.domain.model.hosting import ResultFile


class Part(Protocol):
    """As much of a file as has come so far. Whoever opened it closes it; what was written stays."""

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    @property
    def sha256(self) -> str:
        """Of these bytes, in hexadecimal."""
        ...

    def write(self, chunk: bytes) -> None:
        """Put more behind them.

        Raises:
            LocalStateError: it cannot be written, for want of room or of rights.
        """
        ...

    def drop(self) -> None:
        """Begin again: there are no bytes any more."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class DestinationPort(Protocol):
    """A place for files that belong together. They come into it when all of them are there, and until then are kept
    aside, also from one run to the next. Their names are relative, with slashes, and lead nowhere else.

    Checked in tests/contracts/test_destination.py.

    Raises everywhere:
        LocalStateError: the place cannot be read, or written to.
    """

    def has(self, file: ResultFile) -> bool:
        """Whether this very file is in place, by its size and hash. Never, when the hash is not known."""
        ...

    def open_to(self, *, replace: bool) -> None:
        """Make sure that files may come in.

        Args:
            replace: whether they may take the place of others.

        Raises:
            LocalStateError: there is something already, and nothing is to be replaced.
        """
        ...

    def part(self, file: ResultFile) -> Part:
        """What is there of a file that is to come, perhaps from an earlier run."""
        ...

    def settle(self, files: Sequence[ResultFile]) -> None:
        """Put these files, all of whose parts are whole, into place. Other parts are forgotten."""
        ...
