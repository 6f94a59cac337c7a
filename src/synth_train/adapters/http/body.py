"""A request's body, read while it goes out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import PurePath

from urllib3.fields import RequestField
from urllib3.filepost import choose_boundary

from synth_train.domain.model.errors import InvalidDataset
from synth_train.ports.streams import Readable

BLOCK = 1 << 20
"""Bytes that are read and sent at a time: with the 16 KiB of the library an upload reaches half the speed."""

_TYPES = {".jsonl": "application/jsonl", ".json": "application/json", ".txt": "text/plain"}


class NotRead(Exception):
    """The body could not be read, or is not wanted any more. The cause says which; the library lets this one pass."""


class Body:
    """`size` bytes of `stream`, and the memory of whether any were asked for: before that, nothing has been sent."""

    def __init__(self, stream: Readable, size: int) -> None:
        self.begun = False
        self._stream, self._size = stream, size
        self._abandoned = False

    @classmethod
    def of(cls, content: bytes) -> Body:
        """These bytes."""
        return cls(io.BytesIO(content), len(content))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        """What tells requests that this is a stream. It is `read` that is called."""
        return iter(lambda: self.read(BLOCK), b"")

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`.

        Raises:
            NotRead: whatever went wrong. The library takes an OSError for one of the connection, and a broken pipe of
                whoever is told about progress for a server that has heard enough.
        """
        self.begun = True
        if self._abandoned:
            raise NotRead
        try:
            return self._stream.read(size)
        except Exception as error:
            raise NotRead from error

    def abandon(self) -> bool:
        """Let no byte out that has not gone yet. Tells whether some may have."""
        self._abandoned = True
        return self.begun


class Form(Readable):
    """Multipart form data (RFC 7578): text fields, and behind them one file, which is never held whole."""

    def __init__(self, fields: dict[str, str], filename: str, file: Readable, size: int) -> None:
        boundary = choose_boundary()
        # Not even quoted may what cannot be printed stand in a header; what is not ASCII goes as UTF-8.
        name = "".join(letter if letter.isprintable() else "_" for letter in filename)
        parts = [f"{_head(field)}{value}\r\n" for field, value in fields.items()]
        parts.append(_head("file", filename=name, content_type=content_type_of(name)))
        head = "".join(f"--{boundary}\r\n{part}" for part in parts).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self.size = len(head) + size + len(tail)
        self._file = file
        self._segments: list[Callable[[int], bytes]] = [
            io.BytesIO(head).read,
            _Exactly(file, size).read,
            io.BytesIO(tail).read,
        ]

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, of one segment only: blocks of the file are passed on as they are."""
        while self._segments:
            block = self._segments[0](size)
            if block:
                return block
            self._segments.pop(0)
        return b""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def content_type_of(filename: str) -> str:
    """The media type that goes with a file's name (wire-contract §3.2)."""
    return _TYPES.get(PurePath(filename).suffix.lower(), "application/octet-stream")


class _Exactly:
    """So many bytes as were announced, whatever has become of the file since."""

    def __init__(self, stream: Readable, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int) -> bytes:
        block = self._stream.read(self._left if size < 0 else min(size, self._left))
        if self._left and not block:
            raise InvalidDataset(
                f"the last {self._left} bytes are missing: a file became shorter while it was sent",
                hint="Leave the file alone while it is uploaded, and run the command again.",
            )
        self._left -= len(block)
        return block


def _head(name: str, *, filename: str | None = None, content_type: str | None = None) -> str:
    field = RequestField(name=name, data=b"", filename=filename)
    field.make_multipart(content_type=content_type)
    return field.render_headers()
