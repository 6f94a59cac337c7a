"""A policy on loopback that follows a script, for a task app to ask."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import msgspec

from synth_train.domain.model.scripted_policy import Asked, completion_for
from synth_train.ports.policy import PolicyPort, ServedPolicy

LARGEST = 4 << 20
"""Bytes of a request; of a longer one the rest is not read."""

IDLE = 30.0
"""Seconds that a connection is kept on which nothing comes."""


class LoopbackPolicy(PolicyPort):
    """PolicyPort over HTTP on 127.0.0.1, at a port that is free."""

    @contextlib.contextmanager
    def serving(self) -> Iterator[ServedPolicy]:
        served = _Served()
        handler = type("Bound", (_Handler,), {"served": served})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            server.daemon_threads = True
            served.url = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield served
            finally:
                server.shutdown()
                thread.join()


class _Served(ServedPolicy):
    url = ""

    def __init__(self) -> None:
        self._asked: list[Asked] = []
        self._lock = threading.Lock()

    def asked(self) -> Sequence[Asked]:
        with self._lock:
            return tuple(self._asked)

    def take(self, asked: Asked) -> None:
        with self._lock:
            self._asked.append(asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE
    served: _Served

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        length = self.headers.get("Content-Length", "")
        content = self.rfile.read(min(int(length), LARGEST)) if length.isdecimal() else b""
        try:
            body: object = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            body = None
        self.served.take(
            Asked(
                path=parts.path,
                query=dict(parse_qsl(parts.query)),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
            )
        )
        failing = parts.path.startswith("/failing")
        reply = {"error": {"message": "this policy fails on purpose"}} if failing else completion_for(body)
        raw = msgspec.json.encode(reply)
        self.send_response(500 if failing else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if not length.isdecimal() or int(length) > LARGEST:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        pass
