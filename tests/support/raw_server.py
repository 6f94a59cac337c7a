"""A loopback server that says exactly the bytes it is given, as slowly as wanted, with or without TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("loopback.pem")
"""Key and certificate for 127.0.0.1 and localhost, good for tests only: everybody has the key."""


def reply(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """An HTTP reply that announces its length, or another."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass
class RawServer:
    """Reads one request per connection, says `pieces` with `pause` seconds before each, and hangs up.

    Assert on `heard`: what came in, per connection.
    """

    pieces: tuple[bytes, ...]
    pause: float = 0.0
    tls: bool = False
    heard: list[bytes] = field(default_factory=list)

    def __enter__(self) -> RawServer:
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with contextlib.suppress(OSError):  # wakes `accept` where closing does not, and is refused where it does
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    @property
    def origin(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                if self.tls:
                    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                    context.load_cert_chain(CERTIFICATE)
                    connection = context.wrap_socket(connection, server_side=True)
                with connection:
                    self.heard.append(self._request(connection))
                    for piece in self.pieces:
                        if self._over.wait(self.pause):
                            return
                        connection.sendall(piece)
            except OSError:  # the client went away, which is what some tests are about
                return

    def _request(self, connection: socket.socket) -> bytes:
        heard = b""
        while b"\r\n\r\n" not in heard:
            block = connection.recv(1 << 16)
            if not block:
                return heard
            heard += block
        head, _, body = heard.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        left = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
        while left > 0 and (block := connection.recv(1 << 16)):
            heard, left = heard + block, left - len(block)
        return heard
