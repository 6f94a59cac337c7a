"""An upload on its way to the store: never in memory, never under a name from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from litestar import Request

from synth_train.adapters.serving.multipart import Part, boundary_in, parts_in
from synth_train.adapters.serving.serving import Serving
from synth_train.domain.model.hosting import Owner, Refusal, StoredFile
from synth_train.domain.usecases.hosting.files import Files, Label

_BLOCK = 1 << 20


async def received(request: Request[Any, Any, Any], serving: Serving, owner: Owner) -> StoredFile:
    """Read a form and keep its file.

    Raises:
        Refusal: the form is none, hosting does not take it, or there is no room for another upload (429). Nothing is
            kept then.
    """
    boundary = boundary_in(request.headers.get("content-type", ""))
    loop = asyncio.get_running_loop()
    body = _Body(request, loop)
    with serving.an_upload():
        return await loop.run_in_executor(serving.uploading, _taken, serving.hosting.files, owner, body, boundary)


class _Body:
    """The body of a request for a thread that reads it as it comes."""

    def __init__(self, request: Request[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> None:
        self._receive = cast("Callable[[], Coroutine[Any, Any, Any]]", request.receive)
        self._loop = loop
        self._ahead = b""
        self._more = True

    def read(self, size: int) -> bytes:
        """At most so many bytes, empty at the end."""
        if self._more and not self._ahead:
            self._ahead = asyncio.run_coroutine_threadsafe(self._block(), self._loop).result()
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    async def _block(self) -> bytes:
        """The next stretch of the body. It comes in small pieces, and to change threads for each would take time."""
        block = bytearray()
        while self._more and len(block) < _BLOCK:
            message = await self._receive()
            block += message.get("body", b"")
            self._more = message.get("more_body", False)
        return bytes(block)


def _taken(files: Files, owner: Owner, body: _Body, boundary: bytes) -> StoredFile:
    parts = parts_in(body.read, boundary)
    fields: dict[str, str] = {}

    def next_file() -> Part | None:
        for part in parts:
            if part.name == "file":
                return part
            fields[part.name] = part.text()
        return None

    file = next_file()
    if file is None:
        raise Refusal(400, "no_file", "the form has no `file`")

    def label() -> Label:
        if next_file() is not None:
            raise Refusal(400, "two_files", "the form has more than one `file`")
        return Label(filename=file.filename, purpose=fields.get("purpose", ""))

    return files.upload(owner, file.content, label)
