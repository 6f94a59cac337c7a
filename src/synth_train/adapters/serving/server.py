"""A web server for hosting: uvicorn, with the limits that it does not have itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import h11
import msgspec
import uvicorn
from litestar.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from synth_train.adapters.serving.app import routes
from synth_train.adapters.serving.door import LINGER, LONGEST_HEAD, STALL, Door
from synth_train.adapters.serving.serving import Serving
from synth_train.domain.model.hosting import Refusal
from synth_train.domain.model.jobs import JobId
from synth_train.domain.usecases.hosting.service import Hosting

HEAD = 10.0
"""Seconds in which the head of a request must have come, once it has begun or the connection is new."""

KEPT = 30.0
"""Seconds that an idle connection is kept."""

CONNECTIONS = 500
"""At the same time. Those beyond are told to come back (503)."""

FRESH = 0.2
"""Seconds that a connection without a request yet is kept open for one when the server is told to end."""

GRACE = 30.0
"""Seconds in which what is in flight may finish when the server is told to end."""

Log = Callable[[str], None]


class Server:
    """Serves hosting on a socket.

    Args:
        log: told a line per request, and the traceback of a bug. From any thread.
        log_file: where what the training of a job has written is kept.
        stall: seconds without a byte of a body after which a request is given up.
        head: seconds; see `HEAD`.
        around: puts something in front of the whole app.
    """

    def __init__(
        self,
        hosting: Hosting,
        listener: socket.socket,
        *,
        log: Log = lambda line: None,
        log_file: Callable[[JobId], Path] | None = None,
        stall: float = STALL,
        head: float = HEAD,
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ) -> None:
        self.serving = Serving(hosting, log=log, log_file=log_file)
        self.listener = listener
        app = Door(_WithServing(self.serving), largest_file=hosting.files.largest, stall=stall, log=log)
        config = uvicorn.Config(
            around(app),
            http=_protocol(head),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            timeout_keep_alive=int(KEPT),
            limit_concurrency=CONNECTIONS,
        )
        self._server = _Uvicorn(config, self.serving)

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        host, port = self.listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT comes, or `stop` is called; then finish what is in flight."""
        try:
            self._server.run(sockets=[self.listener])
        finally:
            self.listener.close()  # uvicorn does not when it is told to end before it has begun
            self.serving.uploading.shutdown()
            self.serving.hosting.chats.speaker.close()

    def stop(self) -> None:
        """Let `run` come to its end. May be called from any thread."""
        self._server.end()


class ServerThread:
    """A server on a port of this machine while the `with` block lasts."""

    def __init__(self, hosting: Hosting, *, port: int = 0, log: Log = lambda line: None, **more: Any) -> None:
        self._server = Server(hosting, listening("127.0.0.1", port), log=log, **more)
        self._thread = threading.Thread(target=self._server.run, name="server")

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return self._server.url

    def __enter__(self) -> ServerThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is one of the system's choice.

    Raises:
        OSError: it is taken, or not ours to have.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: only then does asyncio switch off Nagle's algorithm, by which the body of a reply would
    # wait 40 ms for the acknowledgement of its head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


class _WithServing:
    """Hands the routes what they work with."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._routes = routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["serving"] = self._serving
        await self._routes(scope, receive, send)


class _Uvicorn(uvicorn.Server):
    """Ends at once when it is told to, streams first, and leaves the exit status to its caller."""

    def __init__(self, config: uvicorn.Config, serving: Serving) -> None:
        super().__init__(config)
        self._serving = serving
        self._told = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    def end(self) -> None:
        self._serving.closing.set()
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.end()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        counter = 0
        while not await self.on_tick(counter):
            counter = (counter + 1) % 864_000
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), 0.1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        # What a new connection has sent may not have been read yet, and is in flight all the same.
        soon = time.monotonic() + FRESH
        while (
            any(getattr(one, "cycle", None) is None for one in self.server_state.connections)
            and time.monotonic() < soon
        ):
            await asyncio.sleep(0.01)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        deadline = time.monotonic() + GRACE
        while self.server_state.connections or self.server_state.tasks:
            if self.force_exit or time.monotonic() > deadline:
                self._serving.hosting.chats.speaker.close()  # a thread that waits for an answer cannot be cancelled
                for task in self.server_state.tasks:
                    task.cancel()
                break
            await asyncio.sleep(0.01)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _protocol(head: float) -> type[H11Protocol]:
    class Protocol(_Guarded):
        longest_head = head

    return Protocol


class _Guarded(H11Protocol):
    """HTTP/1.1 that does not wait for ever for a head, and refuses what it cannot read in the shape of all refusals."""

    longest_head = HEAD
    _timer: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._timer is None:
            self._wait_for_a_head()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Refusal(400, "invalid_http", "this is no HTTP request that can be read here"))

    def _wait_for_a_head(self) -> None:
        self._timer = self.loop.call_later(self.longest_head, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self._refuse(Refusal(408, "stalled", f"no whole request came within {self.longest_head:g} s"))

    def _refuse(self, no: Refusal) -> None:
        self._refused = True
        self._stop_waiting()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Whoever works on the request learns that nobody waits for an answer.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        content = msgspec.json.encode(no.body)
        head = f"HTTP/1.1 {no.status} {HTTPStatus(no.status).phrase}\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)
        # Closed over unread bytes, the connection would be reset, and the client never see why.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)
