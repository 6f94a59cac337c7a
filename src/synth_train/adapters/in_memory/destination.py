"""A place for fetched files, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.destination import DestinationPort
from synth_train.ports.streams import Readable


class InMemoryDestination(DestinationPort):
    """DestinationPort in a dict. Inspect with `files`, contents by name; put something there and the place is taken."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def receive(self, files: Iterable[tuple[ResultFile, Callable[[], Readable]]]) -> None:
        if self.files:
            raise LocalStateError("there is something already")
        received: dict[str, bytes] = {}
        for file, open_it in files:
            with closing(open_it()) as stream:
                received[file.name] = b"".join(iter(lambda stream=stream: stream.read(1 << 16), b""))  # type: ignore[misc]
        self.files = received
