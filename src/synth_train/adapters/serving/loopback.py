"""Hosting on a socket of this machine, for tests and the demo. `synth-ai serve` will replace it.

A thread per connection, standard library only. Nothing is read of a body but what its routes ask for, and never more
than was announced.
"""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

import msgspec

from synth_train.adapters.serving.routes import Reply, Request, Routes, refused
from synth_train.domain.model.hosting import Refusal
from synth_train.domain.usecases.hosting.service import Hosting

STALL = 30.0
"""Seconds without a byte after which a request is given up."""

_LINGER = 1.0
"""Seconds to take in, after a refusal, what the client is still sending: a connection that is closed over unread
bytes is reset, and the client never sees why it was refused."""

_BLOCK = 64 << 10


class LoopbackServer:
    """Serves hosting while the `with` block lasts, on a port of the system's choice unless one is named.

    Args:
        log: told one line per request, and the traceback of a bug.
    """

    def __init__(self, hosting: Hosting, *, port: int = 0, log: Callable[[str], None] = lambda line: None) -> None:
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.routes, self._server.log = Routes(hosting), log
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> LoopbackServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    routes: Routes
    log: Callable[[str], None]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "synth-train"
    sys_version = ""
    timeout = STALL
    disable_nagle_algorithm = True  # head and body are two writes; the second would wait for an acknowledgement

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """One line per request is logged by `_send`; the library's own lines would go to stderr."""

    def _answer(self) -> None:
        self._left = 0
        try:
            length = self._announced()
            self._left = length or 0
            path, _, query = self.path.partition("?")
            reply = self.server.routes(
                Request(
                    method=self.command,
                    path=path,
                    query=query,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    length=length,
                    read=self._read,
                )
            )
        except Refusal as no:
            reply = refused(no)
        except TimeoutError:
            self.close_connection = True
            reply = refused(Refusal(408, "stalled", f"nothing came for {STALL:.0f} s"))
        except ConnectionError:
            self.close_connection = True
            return
        except Exception:  # noqa: BLE001 - a bug is to be told to the client, too, and not to end the thread
            self.server.log(traceback.format_exc())
            reply = refused(Refusal(500, "bug", "the backend has made a mistake; its log tells more"))
        self._send(reply)

    def _announced(self) -> int | None:
        """The length of the body.

        Raises:
            Refusal: 400 when it cannot be believed, 411 when the body comes in chunks.
        """
        if "transfer-encoding" in self.headers:
            self.close_connection = True
            raise Refusal(411, "no_length", "chunked bodies are not taken; send a Content-Length")
        lengths = {length.strip() for length in self.headers.get_all("content-length", [])}
        if not lengths:
            return None
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise Refusal(400, "invalid_length", "Content-Length must be one number of bytes")
        return int(length)

    def _read(self, size: int) -> bytes:
        block = self.rfile.read1(min(size, self._left))
        if self._left and not block:
            raise ConnectionAbortedError("the body is shorter than announced")
        self._left -= len(block)
        return block

    def _send(self, reply: Reply) -> None:
        content = msgspec.json.encode(reply.body)
        try:
            while 0 < self._left <= _BLOCK and not self.close_connection:
                self._read(_BLOCK)
            self.close_connection = self.close_connection or self._left > 0
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
            if self.close_connection:
                self._linger()
        except OSError:
            self.close_connection = True
        self.server.log(f"{self.command} {self.path} {reply.status}")

    def _linger(self) -> None:
        self.connection.shutdown(socket.SHUT_WR)
        end = time.monotonic() + _LINGER
        while (left := end - time.monotonic()) > 0:
            self.connection.settimeout(left)
            if not self.connection.recv(_BLOCK):
                return
