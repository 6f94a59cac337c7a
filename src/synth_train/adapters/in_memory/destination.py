"""A place for fetched files, in this process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.destination import DestinationPort, Part


class InMemoryDestination(DestinationPort):
    """DestinationPort in dicts. Inspect and arrange with `files`, what is in place, and `parts`, what is kept aside."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}

    def has(self, file: ResultFile) -> bool:
        content = self.files.get(file.name)
        return content is not None and len(content) == file.size and _sha256(content) == file.sha256

    def open_to(self, *, replace: bool) -> None:
        if self.files and not replace:
            raise LocalStateError("there is something already")

    def part(self, file: ResultFile) -> Part:
        self.parts.setdefault(file.name, b"")
        return _InMemoryPart(self.parts, file.name)

    def settle(self, files: Sequence[ResultFile]) -> None:
        self.files |= {file.name: self.parts[file.name] for file in files}
        self.parts.clear()


class _InMemoryPart(Part):
    def __init__(self, parts: dict[str, bytes], name: str) -> None:
        self._parts = parts
        self._name = name

    @property
    def size(self) -> int:
        return len(self._parts[self._name])

    @property
    def sha256(self) -> str:
        return _sha256(self._parts[self._name])

    def write(self, chunk: bytes) -> None:
        self._parts[self._name] += chunk

    def drop(self) -> None:
        self._parts[self._name] = b""

    def close(self) -> None:
        pass


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
