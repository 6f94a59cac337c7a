"""A server that plays a script: it answers each request with the reply written down for it, and remembers what came.

A script maps `METHOD /path` patterns (`*` matches anything, slashes too; the first pattern that fits counts) to
replies, played in order, the last one for ever:

    {"POST /api/files": [{"status": 503}, {"json": {"id": "file_1"}}]}

A reply has `status` (200), `headers`, one of `json`, `text`, `delay` (seconds before it is sent) and `drop`:
`before_reply` (the request is read, then the connection closed), `reset` (the same with a TCP reset), `mid_body`
(the whole length is announced, half is sent). In its strings `{{PORT}}` is this server's port, `{{AUTH}}` and
`{{XKEY}}` the `Authorization` and `X-API-Key` that came in. What no pattern fits is answered 404.

It also plays an HTTP proxy: of an absolute target only the path is matched, and `Seen.target` keeps the whole.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Reply = Mapping[str, Any]
Script = Mapping[str, Sequence[Reply]]

KEPT = 1 << 20
"""Bytes of a body that are remembered; of a longer one only length and hash, unless it is spooled."""

NO_SUCH_ROUTE: Reply = {"status": 404, "json": {"detail": "no such route"}}


@dataclass(frozen=True)
class Seen:
    """One request, as it came in."""

    method: str
    path: str
    target: str
    headers: tuple[tuple[str, str], ...]
    length: int
    sha256: str
    body: bytes
    at: float

    @property
    def route(self) -> str:
        return f"{self.method} {self.path}"

    def header(self, name: str) -> str | None:
        """The only value of a header; None when it was not sent."""
        values = self.header_values(name)
        assert len(values) <= 1, f"{name} was sent {len(values)} times"
        return values[0] if values else None

    def header_values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class ScriptedServer:
    """Arrange with a script; assert on `log`."""

    script: Script
    host: str = "127.0.0.1"
    spool: Path | None = None
    """Where the body of an upload is written, for bodies too long to remember."""
    log: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._played: dict[str, int] = {}
        self._closing = threading.Event()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        kind = type("_Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
        self._http: ThreadingHTTPServer = kind((self.host, 0), type("_Bound", (_Handler,), {"played_by": self}))

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def base(self) -> str:
        """The backend base that the cases call B."""
        return f"{self.origin}/api"

    def seen(self, pattern: str) -> list[Seen]:
        """The requests that fit `METHOD /path`, in order."""
        with self._changed:
            return [row for row in self.log if fnmatch.fnmatchcase(row.route, pattern)]

    def wait_for(self, pattern: str, *, times: int = 1, within: float = 20.0) -> list[Seen]:
        """Return once that many requests have come; fail after `within` seconds."""
        with self._changed:
            arrived = self._changed.wait_for(
                lambda: sum(fnmatch.fnmatchcase(row.route, pattern) for row in self.log) >= times, within
            )
            assert arrived, f"{pattern} did not come {times} times in {within} s; came: {[r.route for r in self.log]}"
        return self.seen(pattern)

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()

    def _pick(self, route: str) -> Reply:
        with self._changed:
            for pattern, replies in self.script.items():
                if fnmatch.fnmatchcase(route, pattern):
                    turn = self._played.get(pattern, 0)
                    self._played[pattern] = turn + 1
                    return replies[min(turn, len(replies) - 1)]
        return NO_SUCH_ROUTE

    def _record(self, row: Seen) -> None:
        with self._changed:
            self.log.append(row)
            self._changed.notify_all()

    def _wait(self, seconds: float) -> None:
        """A delay that ends early when the test is over."""
        self._closing.wait(seconds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    played_by: ScriptedServer

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the log is `ScriptedServer.log`."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client went away, which some cases want
            self.close_connection = True

    def _chunks(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0 and (part := self.rfile.read(min(left, 1 << 18))):
            left -= len(part)
            yield part

    def _receive(self) -> Seen:
        length, digest, kept = 0, hashlib.sha256(), bytearray()
        spool = self.played_by.spool
        with contextlib.ExitStack() as files:
            to = files.enter_context(spool.open("wb")) if spool and self.path.endswith("/files") else None
            for part in self._chunks():
                length += len(part)
                digest.update(part)
                kept += part[: KEPT - len(kept)]
                if to:
                    to.write(part)
        return Seen(
            method=self.command,
            path=urlsplit(self.path).path if "://" in self.path else self.path.split("?", 1)[0],
            target=self.path,
            headers=tuple(self.headers.items()),
            length=length,
            sha256=digest.hexdigest(),
            body=bytes(kept) if length <= KEPT else b"",
            at=time.monotonic(),
        )

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        if not isinstance(value, str):
            return value
        for name, text in (
            ("{{PORT}}", str(self.played_by.port)),
            ("{{AUTH}}", self.headers.get("Authorization", "")),
            ("{{XKEY}}", self.headers.get("X-API-Key", "")),
        ):
            value = value.replace(name, text)
        return value

    def _answer(self) -> None:
        seen = self._receive()
        reply = self.played_by._pick(seen.route)
        self.played_by._record(seen)
        self.played_by._wait(reply.get("delay", 0))
        drop = reply.get("drop")
        if drop in ("before_reply", "reset"):
            if drop == "reset":  # a linger time of zero makes close() send RST
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        headers = dict(self._filled(reply.get("headers", {})))
        if "json" in reply:
            body = json.dumps(self._filled(reply["json"])).encode()
            headers.setdefault("Content-Type", "application/json")
        else:
            body = self._filled(reply.get("text", "")).encode()
        self.send_response(reply.get("status", 200))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if drop == "mid_body":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer  # noqa: N815


PAGE: Reply = {
    "text": "<!doctype html><html><title>Sign in</title><body>Please sign in to the network.</body></html>",
    "headers": {"Content-Type": "text/html"},
}
"""What a captive portal answers in place of the service."""

SFT_GOES_WELL: Script = {
    "POST /api/files": [{"json": {"id": "file_1", "status": "ready"}}],
    "GET /api/files/*": [{"json": {"id": "file_1", "status": "ready"}}],
    "POST /api/learning/jobs": [{"status": 201, "json": {"job_id": "job_1", "status": "queued"}}],
    "POST /api/learning/jobs/*/start": [{"json": {"job_id": "job_1", "status": "running"}}],
    "GET /api/learning/jobs/*": [{"json": {"job_id": "job_1", "status": "succeeded"}}],
}

RL_GOES_WELL: Script = {
    "GET /health": [{"json": {"healthy": True}}],
    "GET /task_info": [{"json": {"task": {"id": "demo"}}}],
    "POST /api/rl/verify_task_app": [{"json": {"any_ok": True, "candidates_first15": [], "attempts": []}}],
    "POST /api/rl/jobs": [{"status": 201, "json": {"job_id": "job_1", "status": "queued"}}],
    "GET /api/rl/jobs/*": [{"json": {"job_id": "job_1", "status": "succeeded"}}],
}
"""Backend and task app on one port."""


def sft(script: Script | None = None) -> Script:
    """A backend on which SFT goes well, but for what `script` says."""
    return {**(script or {}), **{key: value for key, value in SFT_GOES_WELL.items() if key not in (script or {})}}


def rl(script: Script | None = None) -> Script:
    """A backend and a task app on which RL goes well, but for what `script` says."""
    return {**(script or {}), **{key: value for key, value in RL_GOES_WELL.items() if key not in (script or {})}}
