"""The policy behind `/v1/chat/completions`, for the rollouts that are under way (wire-contract §7.3)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

from synth_train.adapters.local.rl.chat import Chat, Refused, Wanted
from synth_train.adapters.local.rl.sampler import Answer, Sampler, SamplerStopped, seed_of

LARGEST_REQUEST = 16 << 20
"""Bytes of one request."""

IDLE = 75.0
"""Seconds that an unused connection is kept."""

_ROUTE = "/chat/completions"
_CID_NAMES = ("cid", "trace_correlation_id", "trace")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One call of the policy, as it is trained on."""

    prompt: tuple[int, ...]
    answer: Answer
    temperature: float
    """What its log-probabilities are of: see `Sampling.scale`."""


@dataclass
class _Rollout:
    seed: tuple[object, ...]
    begun: int = 0
    turns: dict[int, Turn] = field(default_factory=dict)


class Ledger:
    """The rollouts under way, and what the policy has said in each. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, _Rollout] = {}
        self._unheeded: list[str] = []
        self._strays = 0

    def open(self, cid: str, *seed: object) -> None:
        """A rollout begins; what is drawn in its turns depends on `seed`."""
        with self._lock:
            self._open[cid] = _Rollout(seed)

    def close(self, cid: str) -> list[Turn]:
        """It is over: its turns, in the order in which they were asked for."""
        with self._lock:
            rollout = self._open.pop(cid)
            return [turn for _, turn in sorted(rollout.turns.items())]

    def under_way(self) -> int:
        """How many rollouts are open."""
        return len(self._open)

    def begin(self, cid: str) -> tuple[int, int] | None:
        """A turn begins: its number within the rollout, from 0, and its seed. None when no such rollout is open."""
        with self._lock:
            rollout = self._open.get(cid)
            if rollout is None:
                self._strays += 1
                return None
            number = rollout.begun
            rollout.begun += 1
            return number, seed_of(*rollout.seed, number)

    def record(self, cid: str, number: int, turn: Turn) -> None:
        """A turn has been answered. Of a rollout that is over meanwhile, nothing is kept."""
        with self._lock:
            rollout = self._open.get(cid)
            if rollout is not None:
                rollout.turns[number] = turn

    def strays(self) -> int:
        """How many requests, since this was last asked, named no rollout that was open."""
        with self._lock:
            strays, self._strays = self._strays, 0
            return strays

    def did_not_heed(self, wanted: Wanted) -> None:
        """Remember what a request asked for in vain."""
        with self._lock:
            self._unheeded += [what for what in wanted.unheeded if what not in self._unheeded]

    def unheeded(self) -> list[str]:
        """All that requests have asked for in vain so far, each once."""
        return list(self._unheeded)


class PolicyServer:
    """Serves the policy on an address of this machine until it is stopped.

    Answers only requests that name, by `cid`, a rollout that is open: so nobody else can use it who does not know one,
    and what is left of a rollout that was given up ends soon.
    """

    def __init__(self, chat: Chat, sampler: Sampler, ledger: Ledger, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Begin to serve.

        Args:
            port: 0 for any that is free.

        Raises:
            OSError: the address cannot be had.
        """

        class Handler(_Handler):
            complete = staticmethod(_completer(chat, sampler, ledger))

        self._server = _Server((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="policy", daemon=True)
        self._thread.start()
        self.base = f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_port}"
        """Without a path, and without a slash at its end."""

    def stop(self) -> None:
        """Serve nothing any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def inference_url(base: str, cid: str) -> str:
    """Where the policy is asked in one rollout; complete, so that nobody has to know how to complete it."""
    return f"{base}/v1{_ROUTE}?cid={quote(cid, safe='')}"


def _completer(chat: Chat, sampler: Sampler, ledger: Ledger) -> Callable[[str, bytes], dict[str, object]]:
    def complete(cid: str, raw: bytes) -> dict[str, object]:
        turn = ledger.begin(cid)
        if turn is None:
            raise Refused(
                404,
                "no_such_rollout",
                "no rollout of this cid is under way: ask at the inference_url of the rollout request, with its query",
            )
        number, seed = turn
        wanted = chat.read(raw)
        ledger.did_not_heed(wanted)
        try:
            answer = sampler.ask(wanted.ask(seed))
        except SamplerStopped:
            raise Refused(503, "stopped", "the training has been stopped") from None
        except Exception as error:  # the trainer finds it at the sampler
            raise Refused(500, "sampling_failed", f"sampling failed ({type(error).__name__})") from error
        ledger.record(cid, number, Turn(prompt=wanted.prompt, answer=answer, temperature=wanted.sampling.scale))
        return chat.reply(wanted, answer, f"{cid}-{number}")

    return complete


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "synth-train-policy"
    sys_version = ""
    timeout = IDLE
    wbufsize = -1  # head and body leave together: apart, the second would wait for the other side's acknowledgement
    complete: Callable[[str, bytes], dict[str, object]]

    def do_GET(self) -> None:
        self._send(200, {"status": "ok", "service": "policy"})

    def do_POST(self) -> None:
        try:
            raw = self._body()
            path, cid = _route(self.path)
            if not path.rstrip("/").endswith(_ROUTE):
                raise Refused(404, "not_found", f"there is only POST /v1{_ROUTE}")
            self._send(200, self.complete(cid, raw))
        except Refused as refused:
            self._send(refused.status, refused.body)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            self.close_connection = True
            raise Refused(411, "length_required", "the request must say its Content-Length")
        if int(length) > LARGEST_REQUEST:
            self.close_connection = True
            raise Refused(413, "too_large", f"a request has at most {LARGEST_REQUEST >> 20} MiB")
        return self.rfile.read(int(length))

    def _send(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """A request is no news."""


def _route(target: str) -> tuple[str, str]:
    """Path and correlation id of a request. A client that hangs the path behind the query is understood as well."""
    parts = urlsplit(target)
    query = parse_qs(parts.query)
    cid = next((query[name][0].strip() for name in _CID_NAMES if query.get(name, [""])[0].strip()), "")
    name, found, _ = cid.partition("/")
    return (parts.path + cid[len(name) :] if found else parts.path), name
