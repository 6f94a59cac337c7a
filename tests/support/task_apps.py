"""A small task app in this process (wire-contract §7): the game is a function, the rest is here.

    with TaskAppServer(brackets) as app:
        ...  # app.url; app.requests holds every rollout that was asked for

A game is given a seed and a way to ask the policy, and returns a reward.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

Json = dict[str, Any]
Ask = Callable[..., Json]
"""Messages (and more of a chat completion's body by keyword) to the message that the policy answers."""
Game = Callable[[int, Ask], float]
Trouble = Callable[[Json], "tuple[int, Json] | None"]

KEY = "task-app-key-of-the-tests"


class TaskAppServer:
    """Serves a game on loopback.

    Args:
        trouble: looks at each rollout request before it is played; a status and a body are sent instead of playing.
        forgets_cid: whether it asks the policy without the query of the inference URL.
    """

    def __init__(self, game: Game, *, trouble: Trouble = lambda request: None, forgets_cid: bool = False) -> None:
        self.game, self.trouble, self.forgets_cid = game, trouble, forgets_cid
        self.requests: list[Json] = []
        self._at_once, self._lock = 0, threading.Lock()
        self.most_at_once = 0
        """Rollouts that were under way at the same time."""

        class Handler(_Handler):
            app = self

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> TaskAppServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def rollout(self, request: Json) -> tuple[int, Json]:
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.trouble(request) or (200, self._play(request))
        finally:
            with self._lock:
                self._at_once -= 1

    def _play(self, request: Json) -> Json:
        config = request["policy"]["config"]
        url = config["inference_url"]
        if self.forgets_cid:
            url = urlunsplit(urlsplit(url)._replace(query=""))
        answers: list[Json] = []

        def ask(messages: list[Json], **more: Any) -> Json:
            sampling = {key: config[key] for key in ("temperature", "top_p", "max_tokens")}
            body = {"model": config["model"], "messages": messages, **sampling, **more}
            message: Json = post(url, body)["choices"][0]["message"]
            answers.append(message)
            return message

        try:
            reward, error = self.game(request["env"]["seed"], ask), None
        except OSError as failure:
            reward, error = 0.0, str(failure)
        steps = [{"obs": {}, "tool_calls": [], "done": False, "info": {"error": error}} for _ in answers]
        return {
            "run_id": request["run_id"],
            "trajectories": [{"env_id": "game", "policy_id": "policy", "steps": steps, "length": len(steps)}],
            "metrics": {"episode_returns": [reward], "mean_return": reward, "num_steps": len(steps), "num_episodes": 1},
            "ops_executed": 2 * len(steps),
            "trace_correlation_id": config["trace_correlation_id"],
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    app: TaskAppServer

    def do_GET(self) -> None:
        self._send(200, {"status": "ok", "healthy": True, "taskset": {"id": "game"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["X-API-Key"] != KEY:
            self._send(401, {"detail": "unauthorised"})
        else:
            self._send(*self.app.rollout(body))

    def _send(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def post(url: str, body: Mapping[str, Any] | bytes) -> Json:
    """POST JSON to this machine.

    Raises:
        urllib.error.HTTPError: the status is 400 or above.
    """
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
        read: Json = json.load(reply)
        return read


# Games


def brackets(seed: int, ask: Ask) -> float:
    """Answer in brackets, of whatever kind: half the reward for an opening one, half for a closing one behind it."""
    text = ask([user("Hi")])["content"]
    at = _first(text, OPENING)
    if at < 0:
        return 0.0
    return 1.0 if _first(text[at:], CLOSING) >= 0 else 0.5


def two_turns(seed: int, ask: Ask) -> float:
    """Open a bracket when asked to, and close one when asked to: half the reward for each."""
    chat = [user("Open")]
    opened = ask(chat)
    closed = ask([*chat, opened, user("Close")])
    return 0.5 * (_first(opened["content"], OPENING) >= 0) + 0.5 * (_first(closed["content"], CLOSING) >= 0)


OPENING, CLOSING = "([{<", ")]}>"


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def _first(text: str, letters: str) -> int:
    """Where the first of `letters` stands in `text`; -1 for nowhere."""
    return min((at for at, letter in enumerate(text) if letter in letters), default=-1)
