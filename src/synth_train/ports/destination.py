"""Where files go that are fetched. In memory: `adapters.in_memory.destination.InMemoryDestination`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.streams import Readable


class DestinationPort(Protocol):
    """An empty place.

    Checked in tests/contracts/test_destination.py.
    """

    def receive(self, files: Iterable[tuple[ResultFile, Callable[[], Readable]]]) -> None:
        """Take all files, or none: when anything raises, the place is as it was.

        Each is opened when its turn comes, read to its end in memory that does not grow with it, and closed. Their
        names are relative, with slashes, and lead nowhere else.

        Raises:
            LocalStateError: something is there already, or the files cannot be written.
        """
        ...
