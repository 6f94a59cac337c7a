"""A task app and a policy without a network: one step a rollout, and the contract kept unless arranged otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit, urlunsplit

import msgspec

from synth_train.domain.model.scripted_policy import Asked, completion_for
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys, Trouble
from synth_train.ports.policy import PolicyPort, ServedPolicy
from synth_train.ports.task_app import TaskAppDialogue

Json = dict[str, Any]


class InMemoryPolicy(PolicyPort, ServedPolicy):
    """PolicyPort that is asked by a call of `complete`."""

    def __init__(self) -> None:
        self._asked: list[Asked] = []

    @property
    def url(self) -> str:
        """See `ServedPolicy.url`."""
        return "http://127.0.0.1:1"

    def asked(self) -> Sequence[Asked]:
        """See `ServedPolicy.asked`."""
        return tuple(self._asked)

    @contextlib.contextmanager
    def serving(self) -> Iterator[ServedPolicy]:
        yield self

    def complete(self, url: str, headers: Mapping[str, str], body: object) -> Json | None:
        """What the policy answers; None when it fails on purpose."""
        parts = urlsplit(url)
        self._asked.append(Asked(path=parts.path, query=dict(parse_qsl(parts.query)), headers=headers, body=body))
        return None if parts.path.startswith("/failing") else completion_for(body)


class PlayedTaskApp(TaskAppDialogue):
    """TaskAppDialogue over no network. Arrange flaws with `trouble` (it cannot be reached), with `breaks` (a route
    where the connection is cut), with `spoil`, which may change any reply (given route, status and body, it gives
    status and body), and with `ask_policy`, which may change what the policy is sent or keep it. To both a route is
    `info for a stranger` when none of `keys` is presented. Inspect with `requests` and `rollouts`."""

    def __init__(self, policy: InMemoryPolicy, *, keys: set[Secret]) -> None:
        self._policy = policy
        self._keys = keys
        self._runs: dict[str, Json] = {}
        self.trouble: Trouble | None = None
        self.spoil: Callable[[str, int, Any], tuple[int, Any]] = lambda route, status, body: (status, body)
        self.ask_policy: Callable[[str, Json], tuple[str, Json] | None] = lambda url, body: (url, body)
        self.breaks = ""
        self.requests: list[tuple[str, str]] = []
        self.rollouts: list[Json] = []
        """The requests of those that were played."""

    def ask(
        self,
        method: str,
        task_url: str,
        route: str,
        keys: TaskAppKeys | None,
        *,
        body: bytes | None = None,
        within: float,
        hidden: Sequence[Secret] = (),
    ) -> Probe:
        url = f"{task_url.rstrip('/')}/{route}"
        self.requests.append((method, route))
        if self.trouble is not None:
            return Probe(url=url, trouble=self.trouble)
        known = keys is not None and not self._keys.isdisjoint(keys.all)
        whose = route if known else f"{route} for a stranger"
        if whose == self.breaks:
            return Probe(url=url, trouble=Trouble.RESET)
        status, reply = self.spoil(whose, *self._answer(route, body, known=known))
        excerpt = msgspec.json.encode(reply).decode()[:200]
        return Probe(url=url, status=status, content_type="application/json", body=reply, excerpt=excerpt)

    def _answer(self, route: str, body: bytes | None, *, known: bool) -> tuple[int, Any]:
        path, _, query = route.partition("?")
        if path and not known:
            return 401, {"detail": "unauthorised"}
        seeds = [int(seed) for seed in parse_qs(query).get("seed", [])]
        infos = [_info(seed) for seed in seeds]
        answers: dict[str, Any] = {
            "": {"status": "ok"},
            "health": {"healthy": True},
            "info": {
                "service": {"task": "echo", "version": "1"},
                "dataset": {},
                "rubrics": None,
                "inference": {},
                "limits": {},
            },
            "task_info": {"taskset": {}} if not seeds else infos[0] if len(seeds) == 1 else infos,
            "done": {"ok": True},
        }
        return (200, answers[path]) if path in answers else self._rollout(msgspec.json.decode(body or b""))

    def _rollout(self, request: Json) -> tuple[int, Json]:
        config = request["policy"]["config"]
        cid = config.get("trace_correlation_id")
        if request["mode"] == "rl" and not cid:
            return 422, {"detail": "no correlation id"}
        if request["run_id"] not in self._runs:
            self._runs[request["run_id"]] = self._play(request, config, cid)
        return 200, self._runs[request["run_id"]]

    def _play(self, request: Json, config: Json, cid: str | None) -> Json:
        self.rollouts.append(request)
        parts = urlsplit(config["inference_url"])
        path = parts.path
        if not path.endswith("/chat/completions"):
            path += "/chat/completions" if path.endswith("/v1") else "/v1/chat/completions"
        url = urlunsplit(parts._replace(path=path))
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        sent = self.ask_policy(url, {name: value for name, value in config.items() if name in _PASSED_ON} | chat)
        reply = self._policy.complete(sent[0], config["extra_headers"], sent[1]) if sent else None
        info: Json = {"meta": {"inference_url": url}}
        if reply is None:
            info["error"] = "the policy does not answer"
        step = {"obs": {}, "tool_calls": [], "reward": 1.0, "done": True, "info": info}
        trajectory = {
            "env_id": "echo",
            "policy_id": "policy",
            "steps": [step],
            "length": 1,
            "inference_url": url,
            "trace_correlation_id": cid,
        }
        return {
            "run_id": request["run_id"],
            "trajectories": [trajectory],
            "metrics": {"episode_returns": [1.0], "mean_return": 1.0, "num_steps": 1, "num_episodes": 1, "details": {}},
            "branches": {},
            "aborted": False,
            "ops_executed": 2,
            "trace_correlation_id": cid,
            "trace": {"messages": chat["messages"]},
            "pipeline_metadata": {"inference_url": url, "trace_correlation_id": cid},
        }


_PASSED_ON = ("model", "temperature", "top_p", "max_tokens")


def _info(seed: int) -> Json:
    return {"task": {"id": "echo", "name": "Echo"}, "environment": "echo", "task_metadata": {"seed": seed}}
