#!/usr/bin/env python3
"""A task app to learn from, with two tasks. It needs nothing but Python.

    ENVIRONMENT_API_KEY=... python task_app.py [--task {sums,brackets}] [--host HOST] [--port PORT] [--env-file FILE]

`sums` shows the policy two numbers and wants their sum, by one tool, `submit`: the reward is 1 for the right sum, 0 for
a wrong one, and -1 when the tool was not called. `brackets` wants a word in brackets: 1 for text in brackets, a half
for a bracket that is left open. A model that can do nothing yet learns it within minutes on a laptop.

Each seed is another instance. A rollout is one turn: the app asks the policy at the `inference_url` that the trainer
sends along. For a task of your own write another `Task`.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import random
import sys
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit, urlunsplit

VERSION = "1.1"

REWARD_RIGHT = 1.0
REWARD_WRONG = 0.0
REWARD_NO_ANSWER = -1.0

WORDS = ("apple", "bread", "chair", "drum", "eagle", "forest", "glove", "house", "island", "jacket", "kettle", "lamp")
BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}

LONGEST_BODY = 1 << 20
LONGEST_INFERENCE = 120.0
REMEMBERED_RUNS = 10_000

SUBMIT = {
    "type": "function",
    "function": {
        "name": "submit",
        "description": "Hand in the sum.",
        "parameters": {
            "type": "object",
            "properties": {"answer": {"type": "string", "description": "The sum, in digits."}},
            "required": ["answer"],
        },
    },
}

Json = dict[str, Any]


class Refused(Exception):
    """A request that is answered with an error: its status, a short code, and words for a person."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"detail": {"error": {"code": code, "message": message}}}


# ---- the tasks ----


class Task:
    """What is asked of the policy, and what its answer is worth."""

    id: str
    title: str
    description: str
    goal: str
    tools: tuple[Json, ...] = ()

    def messages(self, seed: int) -> list[Json]:
        """What the policy is shown."""
        raise NotImplementedError

    def score(self, seed: int, text: str, tool_calls: list[Json]) -> float:
        """The reward for what the policy said and called; without an answer both are empty."""
        raise NotImplementedError

    def facts(self, seed: int) -> Json:
        """What makes this instance different from the others."""
        raise NotImplementedError

    # What the routes tell about it.

    @property
    def dataset(self) -> Json:
        return {"id": self.id, "name": self.title, "version": VERSION, "splits": ["train"], "default_split": "train"}

    @property
    def rubrics(self) -> Json:
        criterion = {"id": f"{self.id}-goal", "description": self.goal, "weight": 1.0, "required": True}
        outcome = {"version": VERSION, "goal_text": self.goal, "aggregation": "sum", "criteria": [criterion]}
        return {"outcome": outcome, "events": None}

    @property
    def service_info(self) -> Json:
        return {
            "service": {"task": self.id, "version": VERSION},
            "dataset": self.dataset,
            "rubrics": self.rubrics,
            "inference": {},
            "limits": LIMITS,
        }

    def instance(self, seed: int) -> Json:
        """One instance, as `/task_info?seed=N` describes it."""
        return {
            "task": {"id": self.id, "name": self.title, "description": self.description, "version": VERSION},
            "environment": self.id,
            "dataset": self.dataset,
            "rubric": self.rubrics,
            "inference": {"model": "", "inference_url": ""},
            "limits": LIMITS,
            "task_metadata": {"seed": seed, **self.facts(seed)},
        }


class Sums(Task):
    id, title, description = "sums", "Sums", "Add two numbers below 100."
    goal = "The submitted answer is the sum."
    tools = (SUBMIT,)

    def messages(self, seed: int) -> list[Json]:
        left, right = numbers(seed)
        rule = "You add numbers. Answer by calling the tool `submit`, and in no other way."
        return [{"role": "system", "content": rule}, {"role": "user", "content": f"What is {left} + {right}?"}]

    def score(self, seed: int, text: str, tool_calls: list[Json]) -> float:
        answers = [call["arguments"].get("answer") for call in tool_calls if call["tool_name"] == "submit"]
        if not answers:
            return REWARD_NO_ANSWER
        return REWARD_RIGHT if str(answers[0]).strip() == str(sum(numbers(seed))) else REWARD_WRONG

    def facts(self, seed: int) -> Json:
        left, right = numbers(seed)
        return {"left": left, "right": right}


def numbers(seed: int) -> tuple[int, int]:
    """The two numbers of a seed."""
    chance = random.Random(f"sums {seed}")
    return chance.randrange(1, 100), chance.randrange(1, 100)


class Brackets(Task):
    id, title, description = "brackets", "Brackets", "Say a word in brackets."
    goal = "There is text in brackets, of whatever kind."

    def messages(self, seed: int) -> list[Json]:
        return [{"role": "user", "content": f"{self._word(seed)}, in brackets"}]

    def score(self, seed: int, text: str, tool_calls: list[Json]) -> float:
        opened = [at for at, letter in enumerate(text) if letter in BRACKETS]
        if not opened:
            return 0.0
        return 1.0 if any(BRACKETS[text[at]] in text[at + 2 :] for at in opened) else 0.5

    def facts(self, seed: int) -> Json:
        return {"word": self._word(seed)}

    def _word(self, seed: int) -> str:
        return WORDS[seed % len(WORDS)]


TASKS: dict[str, Task] = {task.id: task for task in (Sums(), Brackets())}
LIMITS = {"max_turns": 1, "max_response_tokens": 512, "timeout_seconds": LONGEST_INFERENCE}


# ---- asking the policy ----


def completions_url(inference_url: str) -> str:
    """Where chat completions are asked for; the query stays behind the path."""
    parts = urlsplit(inference_url)
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions" if path.endswith("/v1") else "/v1/chat/completions"
    return urlunsplit(parts._replace(path=path))


def correlation_id(policy_config: Json) -> str:
    """What ties a rollout to its completions; empty when the request names none."""
    query = parse_qs(urlsplit(str(policy_config.get("inference_url") or "")).query)
    candidates = [policy_config.get("trace_correlation_id"), policy_config.get("trace")]
    candidates += [query.get(name, [""])[0] for name in ("cid", "trace_correlation_id", "trace")]
    return next((text for text in (str(candidate or "").strip() for candidate in candidates) if text), "")


def with_cid(url: str, cid: str) -> str:
    """`url` with `?cid=` in front of the rest of its query."""
    if not cid:
        return url
    parts = urlsplit(url)
    others = [f"{quote(name)}={quote(value)}" for name, value in parse_qsl(parts.query) if name != "cid"]
    return urlunsplit(parts._replace(query="&".join([f"cid={quote(cid, safe='')}", *others])))


def ask_policy(task: Task, url: str, seed: int, policy_config: Json, longest: float) -> Json:
    """The policy's message for a seed.

    Raises:
        InferenceFailed: no usable answer came.
    """
    body: Json = {
        "model": policy_config.get("model") or "policy",
        "messages": task.messages(seed),
    }
    if task.tools:
        body |= {
            "tools": task.tools,
            "tool_choice": {"type": "function", "function": {"name": task.tools[0]["function"]["name"]}},
        }
    body |= {name: policy_config[name] for name in ("temperature", "top_p", "max_tokens") if name in policy_config}
    headers = {"Content-Type": "application/json", **(policy_config.get("extra_headers") or {})}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    # The trainer's server is often on this machine, where a proxy has no business.
    local = urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
    try:
        with opener.open(request, timeout=longest) as reply:
            message = json.load(reply)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        error.close()
        raise InferenceFailed(f"the policy answered {error.code}") from error
    except OSError as error:
        raise InferenceFailed(f"the policy cannot be reached: {error}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise InferenceFailed("the policy's answer is no chat completion") from error
    if not isinstance(message, dict):
        raise InferenceFailed("the policy's answer is no chat completion")
    return message


class InferenceFailed(Exception):
    """The policy gave no usable answer; the rollout still gets a reply, with the reward for no answer."""


def read_tool_calls(message: Json) -> list[Json]:
    """The calls of a message as `{tool_name, arguments}`; arguments that are no object count as none.

    Raises:
        InferenceFailed: one of them is no call of a function.
    """
    read = []
    for call in message.get("tool_calls") or []:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise InferenceFailed("the policy's tool call has no function")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                arguments = None
        arguments = arguments if isinstance(arguments, dict) else {}
        read.append({"id": call.get("id"), "tool_name": function.get("name"), "arguments": arguments})
    return read


# ---- one rollout ----


def table(parent: Json, name: str) -> Json:
    """An object inside a request; absent and null are empty ones."""
    value = parent.get(name) or {}
    if not isinstance(value, dict):
        raise Refused(422, "invalid_request", f"{name} is no object")
    return value


def rollout(task: Task, request: Json) -> Json:
    """Play one episode and answer as the trainer expects it.

    Raises:
        Refused: the request lacks something.
    """
    run_id, mode = request.get("run_id"), request.get("mode")
    if not isinstance(run_id, str) or not run_id:
        raise Refused(422, "invalid_request", "run_id is missing")
    if mode not in ("rl", "eval"):
        raise Refused(422, "invalid_request", 'mode must be "rl" or "eval"')
    env, policy, record, safety = (table(request, name) for name in ("env", "policy", "record", "safety"))
    config = table(policy, "config")
    if not isinstance(config.get("inference_url"), str):
        raise Refused(422, "invalid_request", "policy.config.inference_url is missing")
    cid = correlation_id(config)
    if mode == "rl" and not cid:
        raise Refused(
            422, "missing_correlation_id", "mode rl needs policy.config.trace_correlation_id, or cid in the URL"
        )
    seed, longest = env.get("seed") or 0, safety.get("max_time_s") or LONGEST_INFERENCE
    if not isinstance(seed, int) or not isinstance(longest, int | float):
        raise Refused(422, "invalid_request", "env.seed is an integer, safety.max_time_s a number of seconds")
    inference_url = with_cid(completions_url(config["inference_url"]), cid)

    info: Json = {"meta": {"inference_url": inference_url}}
    tool_calls: list[Json] = []
    message: Json | None = None
    try:
        message = ask_policy(task, inference_url, seed, config, min(longest, LONGEST_INFERENCE))
        tool_calls = read_tool_calls(message)
    except InferenceFailed as error:
        info["error"] = str(error)
    text = message.get("content") if message else None
    reward = task.score(seed, text if isinstance(text, str) else "", tool_calls)

    step = {
        "obs": {"messages": task.messages(seed)},
        "tool_calls": tool_calls,
        "reward": reward,
        "done": True,
        "truncated": False,
        "info": info,
    }
    trace = {"trace_correlation_id": cid, "messages": [*task.messages(seed), *([message] if message else [])]}
    trajectory = {
        "env_id": env.get("env_id") or env.get("env_name") or task.id,
        "policy_id": policy.get("policy_id") or policy.get("policy_name") or "policy",
        "steps": [step],
        "length": 1,
        "inference_url": inference_url,
        "final": {"reward": reward, "observation": task.facts(seed)},
        "trace_correlation_id": cid,
    }
    return {
        "run_id": run_id,
        "trajectories": [trajectory],
        "metrics": {
            "episode_returns": [reward],
            "mean_return": reward,
            "num_steps": 1,
            "num_episodes": 1,
            "outcome_score": reward,
            "events_score": None,
            "details": {"seed": seed, "answered": message is not None, "called": bool(tool_calls)},
        },
        "branches": {},
        "aborted": False,
        "ops_executed": 2,
        "trace_correlation_id": cid,
        "trace": trace if record.get("return_trace") else None,
        "pipeline_metadata": {"inference_url": inference_url, "trace_correlation_id": cid},
    }


class Runs:
    """The rollouts played so far, so that a trainer that asks twice for one gets the same episode, played once."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, tuple[Json, Future[Json]]] = OrderedDict()

    def play(self, request: Json) -> Json:
        """The reply for `request`, now or from the time it was first asked for.

        Raises:
            Refused: the request lacks something, or its run_id belongs to another one.
        """
        run_id = str(request.get("run_id") or "")
        with self._lock:
            before = self._runs.get(run_id)
            if before is None:
                mine: Future[Json] = Future()
                self._runs[run_id] = (request, mine)
                if len(self._runs) > REMEMBERED_RUNS:
                    self._runs.popitem(last=False)
        if before is not None:
            first_request, reply = before
            if first_request != request:
                raise Refused(409, "run_id_in_use", "this run_id belongs to another rollout")
            return reply.result()
        try:
            mine.set_result(rollout(self._task, request))
        except Exception as error:
            with self._lock:
                self._runs.pop(run_id, None)
            mine.set_exception(error)
            raise
        return mine.result()


# ---- the service ----


def accepted_keys(environment: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The keys that open this app: `ENVIRONMENT_API_KEY` or one of its aliases, and `ENVIRONMENT_API_KEY_ALIASES`."""
    values = dict(environment)
    names = ("ENVIRONMENT_API_KEY", "dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY")
    first = next((values[name].strip() for name in names if values.get(name, "").strip()), "")
    others = values.get("ENVIRONMENT_API_KEY_ALIASES", "").split(",")
    return tuple(key for key in (first, *(other.strip() for other in others)) if key)


class TaskApp(BaseHTTPRequestHandler):
    """The routes of a task app."""

    protocol_version = "HTTP/1.1"
    server_version = f"task-app/{VERSION}"
    timeout = 75  # seconds that an idle connection is kept
    task: Task
    keys: tuple[str, ...]
    runs: Runs

    def do_GET(self) -> None:
        self._serve(
            {
                "/": lambda: {"status": "ok", "service": self.task.id},
                "/health": self._health,
                "/health/rollout": self._health,
                "/info": lambda: self.task.service_info,
                "/task_info": self._task_info,
            }
        )

    def do_HEAD(self) -> None:
        self._serve({"/": lambda: {"status": "ok", "service": self.task.id}})

    def do_POST(self) -> None:
        self._serve(
            {
                "/rollout": lambda: self.runs.play(self._body()),
                "/done": lambda: {"ok": True, "service": self.task.id},
            }
        )

    def _serve(self, routes: dict[str, Callable[[], object]]) -> None:
        path = urlsplit(self.path).path
        status, reply, self._body_read = 200, None, False
        try:
            if path not in routes:
                raise Refused(404, "not_found", f"there is no {self.command} {path}")
            if path != "/":
                self._authenticate()
            reply = routes[path]()
        except Refused as refused:
            status, reply = refused.status, refused.body
        body = json.dumps(reply).encode()
        self.send_response(status)
        if self.headers.get("Content-Length", "0") != "0" and not self._body_read:
            self.send_header("Connection", "close")  # the unread body would be taken for the next request
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _authenticate(self) -> None:
        """One of the keys presented must be one of ours. No part of a key is ever told."""
        if not self.keys:
            raise Refused(503, "missing_environment_api_key", "set ENVIRONMENT_API_KEY and start the task app again")
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        texts = [*self.headers.get_all("X-API-Key", []), *self.headers.get_all("X-API-Keys", [])]
        texts += [token] if scheme.lower() == "bearer" else []
        presented = [part.strip().encode() for text in texts for part in text.split(",")]
        if not any(hmac.compare_digest(one, key.encode()) for one in presented for key in self.keys):
            raise Refused(401, "unauthorised", "this key does not open the task app: check ENVIRONMENT_API_KEY")

    def _health(self) -> Json:
        return {"healthy": True, "auth": {"required": True}}

    def _task_info(self) -> object:
        query = parse_qs(urlsplit(self.path).query)
        texts = [*query.get("seed", []), *(part for text in query.get("seeds", []) for part in text.split(","))]
        try:
            seeds = [int(text) for text in texts]
        except ValueError:
            raise Refused(422, "invalid_request", "a seed is an integer") from None
        if not seeds:
            return {"taskset": {**self.task.dataset, "description": "Every integer is a seed."}}
        infos = [self.task.instance(seed) for seed in seeds]
        return infos[0] if len(infos) == 1 else infos

    def _body(self) -> Json:
        try:
            length = int(self.headers.get("Content-Length") or "")
        except ValueError:
            raise Refused(411, "length_required", "say how long the body is") from None
        if not 0 <= length <= LONGEST_BODY:
            raise Refused(413, "too_large", f"a request is at most {LONGEST_BODY} bytes")
        content, self._body_read = self.rfile.read(length), True
        try:
            request = json.loads(content)
        except ValueError:
            raise Refused(422, "invalid_request", "the body is no JSON") from None
        if not isinstance(request, dict):
            raise Refused(422, "invalid_request", "the body is no JSON object")
        return request

    def log_message(self, format: str, *args: Any) -> None:
        """One line per request, without the query, where a trainer may put ids of its own."""
        print(f"{self.command} {urlsplit(self.path).path} {args[1] if len(args) > 1 else ''}", flush=True)


class TaskAppServer(ThreadingHTTPServer):
    """Serves each request in a thread of its own."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A trainer that ends closes its connections, which is no error of ours; all else is told."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(host: str, port: int, keys: tuple[str, ...], task: Task = TASKS["sums"]) -> TaskAppServer:
    """A task app bound to `host` and `port` (0 picks a free one); call `serve_forever()` on it.

    Raises:
        OSError, OverflowError: it cannot be bound there.
    """
    return TaskAppServer(
        (host, port), type("BoundTaskApp", (TaskApp,), {"keys": keys, "task": task, "runs": Runs(task)})
    )


def read_env_file(path: Path) -> list[tuple[str, str]]:
    """The plain `NAME=value` lines of a file."""
    lines = (line.strip().removeprefix("export ") for line in path.read_text(encoding="utf-8-sig").splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return [(name.strip(), value.strip().strip("\"'")) for name, _, value in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description="A sample task app.", allow_abbrev=False)
    parser.add_argument("--task", choices=sorted(TASKS), default="sums")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001, help="0 picks a free one (default: 8001)")
    parser.add_argument("--env-file", type=Path, help="a .env file that holds ENVIRONMENT_API_KEY")
    arguments = parser.parse_args()
    try:
        from_file = read_env_file(arguments.env_file) if arguments.env_file else []
    except (OSError, UnicodeDecodeError) as error:
        parser.error(
            f"--env-file {arguments.env_file} cannot be read: {getattr(error, 'strerror', None) or 'no UTF-8'}"
        )
    keys = accepted_keys([*from_file, *((name, value) for name, value in os.environ.items() if value)])
    if not keys:
        parser.error("no key: set ENVIRONMENT_API_KEY, or name a file that holds it with --env-file")
    try:
        app = serve(arguments.host, arguments.port, keys, TASKS[arguments.task])
    except (OSError, OverflowError) as error:
        where, why = f"{arguments.host}:{arguments.port}", getattr(error, "strerror", None) or error
        parser.error(f"cannot listen on {where}: {why}. Choose another port with --port; 0 picks a free one")
    count = f"{len(keys)} key{'s' if len(keys) > 1 else ''}"
    print(f"Task app {arguments.task} on http://{arguments.host}:{app.server_port} ({count})", flush=True)
    try:
        app.serve_forever()
    except KeyboardInterrupt:
        print("stopped")
    finally:
        app.server_close()


if __name__ == "__main__":
    main()
