"""What every request passes on its way in and out: bounds on bodies and on patience, prefixes, and last words.

uvicorn believes what it can parse, waits for a body as long as it takes, and leaves what was not read to whoever
asks next. Here lengths are checked before anything is read, a client that stalls is given up, and one that is still
sending when it is refused hears why.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar.types import ASGIApp, Message, Receive, Send

from synth_train.domain.model.hosting import Refusal

STALL = 30.0
"""Seconds without a byte after which a request is given up."""

LINGER = 1.0
"""Seconds to take in, after a refusal, what the client is still sending: a connection that is closed over unread
bytes is reset, and the client never sees why it was refused."""

LARGEST_JSON = 4 << 20
"""Bytes of a request body that is no upload."""

FORM_AROUND_A_FILE = 1 << 20
"""Bytes that a form may have beside its file."""

LONGEST_HEAD = 32 << 10
"""Bytes of all headers."""

_UPLOADS = ("/files", "/learning/files")
_SMALL = 64 << 10
_PREFIXES = ("api", "v1")

_ALWAYS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Door:
    """The outermost ASGI app.

    Args:
        app: what is behind it.
        largest_file: bytes.
        stall: seconds; see `STALL`.
        log: told a line per request, without its query, and the traceback of a bug.
    """

    def __init__(self, app: ASGIApp, *, largest_file: int, stall: float, log: Callable[[str], None]) -> None:
        self._app = app
        self._largest_file = largest_file
        self._stall = stall
        self._log = log

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, receive, send, self._stall)
        shown = scope["path"]
        scope["path"] = route_of(scope["raw_path"].decode("ascii"))
        try:
            try:
                exchange.announced = announced_in(scope["headers"])
                if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEAD:
                    raise Refusal(431, "head_too_long", f"the headers are longer than the {LONGEST_HEAD} bytes allowed")
                largest = self._largest_file + FORM_AROUND_A_FILE if scope["path"] in _UPLOADS else LARGEST_JSON
                if exchange.announced > largest:
                    raise Refusal(413, "too_large", f"the request body is larger than the {largest} bytes allowed here")
            except Refusal as no:
                await exchange.refuse(no)
            else:
                await self._app(scope, exchange.receive, exchange.send)
        except Gone:
            pass  # nobody is there to be told
        except Exception:  # noqa: BLE001 - a bug is to be told to the client, too
            self.tell_bug()
            if exchange.status is None:
                await exchange.refuse(BUG)
        finally:
            self._log(f"{scope['method']} {_printable(shown)} {exchange.status or 'gone'}")

    def tell_bug(self) -> None:
        """Write the exception under way to the log."""
        self._log(traceback.format_exc())


BUG = Refusal(500, "bug", "the backend has made a mistake; its log tells more")


class Gone(Exception):
    """The client has left before its request was whole."""


class _Exchange:
    """A request and its reply."""

    def __init__(self, scope: Any, receive: Any, send: Send, stall: float) -> None:
        self.announced = 0
        self.status: int | None = None
        self._scope = scope
        self._receive = receive
        self._send = send
        self._stall = stall
        self._received = 0
        self._whole = False
        self._closing = False

    async def receive(self) -> Any:
        """The next part of the request.

        Raises:
            Refusal: 408 when nothing came.
            Gone: the client left before the end of the body, and before the reply began.
        """
        if self._whole:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._stall)
        except asyncio.TimeoutError:
            self._closing = True
            raise Refusal(408, "stalled", f"nothing came for {self._stall:g} s") from None
        if message["type"] == "http.disconnect":
            if self.status is not None:
                return message  # whoever is replying by now asks just for this
            raise Gone
        self._received += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await self._settle()
            headers = [
                *message["headers"],
                *(header for header in _ALWAYS if header[0] not in dict(message["headers"])),
            ]
            if self._closing:
                headers.append((b"connection", b"close"))
            await self._send({**message, "headers": headers})
        elif message["type"] == "http.response.body" and self._closing and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._linger()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._send(message)

    async def refuse(self, no: Refusal) -> None:
        """Reply with a refusal."""
        if self.announced == 0 and not self._whole:
            self._closing = True  # where the body ends is not known
        content = msgspec.json.encode(no.body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await self.send({"type": "http.response.start", "status": no.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content, "more_body": False})

    async def _settle(self) -> None:
        """Read what is left of the body if it is little, so that the connection can be kept."""
        left = self.announced - self._received
        if not left or self._whole:
            return
        waits_for_us = any(name == b"expect" for name, _ in self._scope["headers"])
        if left > _SMALL or waits_for_us or self._closing:
            self._closing = True
            return
        try:
            while not self._whole:
                await self.receive()
        except Refusal:
            self._closing = True

    async def _linger(self) -> None:
        async def drain() -> None:
            while not self._whole:
                message = await self._receive()
                self._whole = message["type"] == "http.disconnect" or not message.get("more_body", False)

        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(drain(), LINGER)


def announced_in(headers: list[tuple[bytes, bytes]]) -> int:
    """Bytes of the body that a request announces; 0 when it announces none.

    Raises:
        Refusal: 400 when the length cannot be believed, 411 when the body comes in chunks.
    """
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise Refusal(411, "no_length", "chunked bodies are not taken; send a Content-Length")
    lengths = {value.strip() for name, value in headers if name == b"content-length"}
    if len(lengths) > 1 or not all(length.isdigit() for length in lengths):
        raise Refusal(400, "invalid_length", "Content-Length must be one number of bytes")
    return int(lengths.pop()) if lengths else 0


def route_of(raw_path: str) -> str:
    """The path of a route, without the prefixes that every route has.

    A slash that came percent-encoded belongs to an id and not to the route: it stays so.
    """
    segments = [unquote(segment).replace("/", "%2F") for segment in raw_path.strip("/").split("/")]
    for prefix in _PREFIXES:
        if segments[0] == prefix and len(segments) > 1:
            segments = segments[1:]
    return "/" + "/".join(segments)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
