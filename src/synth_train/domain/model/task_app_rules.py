"""What a task app must keep to, rule by rule (wire-contract §7), and what to do about a rule that it breaks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct

from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.domain.model.replies import says
from synth_train.domain.model.scripted_policy import Asked
from synth_train.domain.model.secret import SHORTEST_TO_SHOW
from synth_train.domain.model.showing import plain
from synth_train.domain.model.task_app import Probe, TaskAppKeys, health_fault, task_info_fault

LONGEST_PREFIX = 6
"""Characters of a key that an app may tell of (wire-contract §7.1)."""

_SAMPLING: dict[str, object] = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 64}
MODEL = "scripted-policy"
EXTRA_HEADER = "x-check"
FORMS = {"plain": "", "v1": "/v1", "whole": "/v1/chat/completions"}
"""How an inference URL may end; whatever it is, completions are asked for at `.../v1/chat/completions`."""


class Rollout(Struct, frozen=True, kw_only=True):
    """A rollout to ask for."""

    run_id: str
    cid: str
    """Correlation id; empty when the request has none."""
    policy_url: str
    """Where the policy is; its path tells the completions of this rollout from others."""
    mode: str = "rl"
    form: str = "plain"
    """One of `FORMS`."""
    seed: int = 0
    section: Mapping[str, Any] = {}
    """The `[rollout]` of a config: names and configs of environment and policy."""

    @property
    def inference_url(self) -> str:
        """What the app is told to ask."""
        return f"{self.policy_url}{FORMS[self.form]}" + (f"?cid={self.cid}&check=1" if self.cid else "?check=1")

    @property
    def path(self) -> str:
        """Where completions have to be asked for."""
        return urlsplit(self.policy_url).path + FORMS["whole"]

    @property
    def body(self) -> bytes:
        """The request, as a trainer words it."""
        section = self.section
        policy: dict[str, Any] = {
            **_table(section.get("policy_config")),
            **_SAMPLING,
            "model": MODEL,
            "inference_url": self.inference_url,
            "extra_headers": {EXTRA_HEADER: self.run_id},
        }
        if self.cid:
            policy["trace_correlation_id"] = self.cid
        env = {"env_name": section.get("env_name"), "config": _table(section.get("env_config")), "seed": self.seed}
        return msgspec.json.encode(
            {
                "run_id": self.run_id,
                "mode": self.mode,
                "env": {name: value for name, value in env.items() if value is not None},
                "policy": {"policy_name": section.get("policy_name") or "policy", "config": policy},
                "ops": section.get("ops") or ["agent", "env"],
                "record": {"trajectories": True, "return_trace": True, "trace_format": "structured"},
                "on_done": "reset",
                "safety": {"max_ops": 100_000, "max_time_s": 60},
            }
        )


# -- the routes, and who may use them


def healthy(probe: Probe) -> Finding:
    """Whether `/health` with the right key says so."""
    fault = health_fault(probe)
    return Finding(rule="health", outcome=Outcome.OK) if fault is None else _failed("health", fault.what, fault.remedy)


def describes(rule: str, probe: Probe) -> Finding:
    """Whether a route answers 200 with a JSON object."""
    fault = task_info_fault(probe)
    return Finding(rule=rule, outcome=Outcome.OK) if fault is None else _failed(rule, fault.what, fault.remedy)


def keeps_out(rule: str, probe: Probe, *, open_to_all: bool = False) -> Finding:
    """Whether a route refuses somebody with no key, or with a wrong one.

    Args:
        open_to_all: the route may answer 200 all the same, as `/health` may.
    """
    status, said = probe.status, says(probe.body) or probe.excerpt
    if probe.trouble is not None:
        return _failed(rule, f"{probe.url}: {probe.trouble.value}", "See the task app's own log.")
    if status in (401, 403) or (open_to_all and status == 200):
        return Finding(rule=rule, outcome=Outcome.OK, what=str(status))
    if status == 400 and "unauthori" in said.lower():
        what = "400 where 401 is meant, so that clients take the request for malformed"
        return Finding(rule=rule, outcome=Outcome.WARNING, what=what, remedy="Answer 401.")
    if status is not None and status < 400:
        return _failed(rule, f"{probe.url}: {status}, so everybody may use the app", "Compare keys on this route, too.")
    return _failed(rule, f"{probe.url}: {status} where 401 is expected: {plain(said)}", "Answer 401.")


def keeps_its_key(keys: TaskAppKeys, probes: Sequence[Probe]) -> Finding:
    """Whether no refusal gives parts of a key away. Keys in the probes are masked already."""
    rule = "key-not-told"
    masks = [key.mask for key in keys.all if len(key.reveal()) >= SHORTEST_TO_SHOW]
    for probe in probes:
        body = probe.body if isinstance(probe.body, dict) else {}
        prefix = body.get("expected_api_key_prefix")
        told = isinstance(prefix, str) and len(prefix.rstrip(".")) > LONGEST_PREFIX
        if told or any(mask in f"{probe.excerpt}{probe.body}" for mask in masks):
            return Finding(
                rule=rule,
                outcome=Outcome.WARNING,
                what=f"{probe.url} tells whoever asks a part of the key",
                remedy=f"Tell at most {LONGEST_PREFIX} characters of it, better none.",
            )
    return Finding(rule=rule, outcome=Outcome.OK)


def open_to_all(probe: Probe) -> Finding:
    """Whether `/` answers somebody without a key (wire-contract §7.1)."""
    if probe.status in (401, 403):
        remedy = 'Answer GET / with 200 and {"status": "ok"} before keys are compared: proxies look there.'
        return _failed("root", f"{probe.url}: {probe.status} for a request without a key", remedy)
    return describes("root", probe)


_INFO = ("service", "dataset", "rubrics", "inference", "limits")


def describes_itself(probe: Probe) -> Finding:
    """Whether `/info` has all its parts (wire-contract §7.1)."""
    finding = describes("info", probe)
    if finding.outcome is not Outcome.OK:
        return finding
    body = _table(probe.body)
    missing = [name for name in _INFO if name not in body]
    service = _table(body.get("service"))
    missing += [f"service.{name}" for name in ("task", "version") if "service" in body and name not in service]
    if missing:
        return _failed("info", f"{probe.url} lacks {', '.join(missing)}", "Add them; null is allowed for rubrics.")
    return finding


def tells_an_instance(probe: Probe) -> Finding:
    """Whether `/task_info?seed=N` describes one instance (wire-contract §7.2)."""
    rule = "task-info-one-seed"
    finding = describes(rule, probe)
    if finding.outcome is not Outcome.OK:
        return finding
    wrong = _instance_faults(_table(probe.body))
    return _failed(rule, f"{probe.url}: {wrong}", _TASK_INFO) if wrong else finding


def tells_instances(probe: Probe, seeds: Sequence[int]) -> Finding:
    """Whether `/task_info` with several seeds answers with a list, an instance for each."""
    rule = "task-info-many-seeds"
    if probe.status != 200 or not isinstance(probe.body, list):
        what = probe.trouble.value if probe.trouble else f"{probe.status}, {plain(probe.excerpt)}"
        return _failed(rule, f"{probe.url}: no list but {what}", "Answer several seeds with a list.")
    if len(probe.body) != len(seeds):
        what = f"{len(probe.body)} instances for {len(seeds)} seeds"
        return _failed(rule, f"{probe.url}: {what}", "Answer every seed from 0 on, in order.")
    wrong = next((fault for one in probe.body if (fault := _instance_faults(_table(one)))), "")
    return _failed(rule, f"{probe.url}: {wrong}", _TASK_INFO) if wrong else Finding(rule=rule, outcome=Outcome.OK)


_TASK_INFO = "An instance has `task` with `id` and `name`, and `environment`, all texts, at least."


def _instance_faults(info: Mapping[str, Any]) -> str:
    task = _table(info.get("task"))
    missing = [f"task.{name}" for name in ("id", "name") if not isinstance(task.get(name), str)]
    if not isinstance(info.get("environment"), str) and not isinstance(info.get("environments"), list):
        missing.append("environment")
    return f"lacks {', '.join(missing)}" if missing else ""


# -- rollouts


def played(rollout: Rollout, probe: Probe, asked: Sequence[Asked]) -> Iterator[Finding]:
    """Every rule that a rollout in mode `rl` shows, one after the other."""
    answered = answers("rollout", probe)
    yield answered
    yield from _asking(rollout, asked)
    if answered.outcome is Outcome.OK:
        yield from _answering(rollout, _table(probe.body))


def answers(rule: str, probe: Probe) -> Finding:
    """Whether a rollout is answered at all."""
    return describes(rule, probe)


def _asking(rollout: Rollout, asked: Sequence[Asked]) -> Iterator[Finding]:
    """How the app has asked the policy."""
    yield _rule(
        "policy-asked",
        bool(asked),
        "the app never asked the policy at policy.config.inference_url",
        "Ask it there. An app in a container cannot reach this machine's loopback: run the check inside it.",
    )
    if not asked:
        return
    yield completions_path(rollout, asked)
    yield _rule(
        "inference-url-query",
        all(one.query.get("cid") == rollout.cid and one.query.get("check") == "1" for one in asked),
        "the query of inference_url is not behind the path any more when the policy is asked",
        "Add to the path only, and keep what follows the question mark.",
    )
    bodies = [_table(one.body) for one in asked]
    yield _rule(
        "completion-body",
        all(isinstance(body.get("messages"), list) and body["messages"] for body in bodies),
        "a completion is asked for without `messages`",
        "Send a chat completion as OpenAI words it.",
    )
    yield _rule(
        "completion-model",
        all(body.get("model") == MODEL for body in bodies),
        f"a completion is asked for from {plain(str(bodies[0].get('model')))!r}, not from policy.config.model",
        "Pass policy.config.model on.",
    )
    lost = [name for name, value in _SAMPLING.items() if any(body.get(name) != value for body in bodies)]
    yield _rule(
        "completion-sampling",
        not lost,
        f"policy.config has {', '.join(lost)}, the completions have not",
        "Pass it on: the trainer sets how the policy samples.",
        warning=True,
    )
    yield _rule(
        "extra-headers",
        all(one.headers.get(EXTRA_HEADER) == rollout.run_id for one in asked),
        "policy.config.extra_headers are not sent to the policy",
        "Send them with every completion.",
        warning=True,
    )


def completions_path(rollout: Rollout, asked: Sequence[Asked]) -> Finding:
    """Whether an inference URL of this form is completed as it should be."""
    wrong = next((one.path for one in asked if one.path != rollout.path), None)
    return _rule(
        f"inference-url-{rollout.form}",
        bool(asked) and wrong is None,
        f"asked at {plain(wrong)} where {rollout.path} is meant" if wrong else "the policy was never asked",
        "Add /v1/chat/completions; after /v1 only /chat/completions; after /chat/completions nothing.",
    )


def _answering(rollout: Rollout, body: Mapping[str, Any]) -> Iterator[Finding]:
    """What the app has answered."""
    yield _rule("run-id", body.get("run_id") == rollout.run_id, "run_id is not the one that was asked for", "Echo it.")
    cid = rollout.cid
    yield _rule(
        "correlation-id",
        body.get("trace_correlation_id") == cid,
        "trace_correlation_id is not the one of the request",
        _CID,
    )
    pipeline = _table(body.get("pipeline_metadata"))
    yield _rule(
        "pipeline-correlation-id",
        pipeline.get("trace_correlation_id") == cid,
        "pipeline_metadata.trace_correlation_id is not the one of the request",
        _CID,
    )
    yield _rule(
        "pipeline-inference-url",
        _has_cid(pipeline.get("inference_url"), cid),
        "pipeline_metadata.inference_url has no ?cid= with the correlation id",
        _URL,
    )
    trajectories = [_table(one) for one in _list(body.get("trajectories"))]
    yield _rule(
        "trajectories", bool(trajectories), "there is no trajectory", "Answer with one, even for a bad episode."
    )
    if trajectories:
        yield from _trajectories(trajectories, cid)
    yield from _metrics(_table(body.get("metrics")), trajectories)
    types: tuple[tuple[str, type], ...] = (("branches", dict), ("aborted", bool), ("ops_executed", int))
    wrong = [name for name, type_ in types if name in body and type(body[name]) is not type_]
    yield _rule(
        "rollout-defaults", not wrong, f"{', '.join(wrong)}: of another type than the contract's", _DEFAULTS_TYPES
    )
    yield _rule(
        "trace",
        body.get("trace") is not None or any(one.get("trace") is not None for one in trajectories),
        "record.return_trace was asked for, and there is no `trace`",
        "Answer with the trace when it is asked for.",
        warning=True,
    )


def _trajectories(trajectories: Sequence[Mapping[str, Any]], cid: str) -> Iterator[Finding]:
    steps = [[_table(step) for step in _list(one.get("steps"))] for one in trajectories]
    every = [step for of_one in steps for step in of_one]
    missing = [
        name for name in ("env_id", "policy_id") if any(not isinstance(one.get(name), str) for one in trajectories)
    ]
    yield _rule("trajectory-ids", not missing, f"a trajectory lacks {' and '.join(missing)}", "Both are texts.")
    yield _rule(
        "trajectory-length",
        all(one.get("length") == len(of_one) for one, of_one in zip(trajectories, steps, strict=True)),
        "the `length` of a trajectory is not the number of its steps",
        "Count the steps.",
    )
    yield _rule(
        "trajectory-inference-url",
        all(_has_cid(one.get("inference_url"), cid) for one in trajectories),
        "the inference_url of a trajectory has no ?cid= with the correlation id",
        _URL,
    )
    yield _rule(
        "trajectory-correlation-id",
        all(one.get("trace_correlation_id") == cid for one in trajectories),
        "the trace_correlation_id of a trajectory is not the one of the request",
        _CID,
    )
    yield _rule("steps", bool(every), "a trajectory has no steps", "Record a step for each turn.")
    wrong = sorted({fault for step in every for fault in _step_faults(step)})
    yield _rule("step-fields", not wrong, f"in a step, {', '.join(wrong)}", _STEP_TYPES)
    urls = [_table(_table(step.get("info")).get("meta")).get("inference_url") for step in every]
    yield _rule(
        "step-inference-url",
        all(isinstance(url, str) and url for url in urls),
        "a step lacks info.meta.inference_url",
        "Record in each step where the policy was asked.",
    )


def _step_faults(step: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(step.get("obs"), dict):
        yield "obs is no object"
    calls = step.get("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        yield "tool_calls is no list of objects"
    if step.get("reward") is not None and not _number(step["reward"]):
        yield "reward is no number"
    if not isinstance(step.get("done"), bool):
        yield "done is neither true nor false"


def _metrics(metrics: Mapping[str, Any], trajectories: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    returns, mean = metrics.get("episode_returns"), metrics.get("mean_return")
    wrong = [name for name in ("num_steps", "num_episodes") if type(metrics.get(name)) is not int]
    if not isinstance(returns, list) or not returns or not all(map(_number, returns)):
        wrong.append("episode_returns")
    wrong += ["mean_return"] if not _number(mean) else []
    wrong += ["details"] if not isinstance(metrics.get("details", {}), dict) else []
    optional = ("outcome_score", "events_score")
    wrong += [name for name in optional if metrics.get(name) is not None and not _number(metrics[name])]
    yield _rule("metrics", not wrong, f"in metrics, missing or of another type: {', '.join(wrong)}", _METRICS_TYPES)
    if wrong or not isinstance(returns, list):
        return
    yield _rule(
        "mean-return",
        math.isclose(float(str(mean)), math.fsum(returns) / len(returns), rel_tol=1e-6, abs_tol=1e-9),
        f"mean_return is {mean}, and the mean of episode_returns is not",
        "The trainer learns from mean_return: make it the mean.",
    )
    steps = sum(len(_list(one.get("steps"))) for one in trajectories)
    yield _rule(
        "num-steps",
        metrics["num_steps"] == steps,
        f"num_steps is {metrics['num_steps']}, and there are {steps} steps",
        "Count the steps of all trajectories.",
    )


def repeatable(first: Probe, second: Probe) -> Finding:
    """Whether the same rollout may be asked for again, as a client does that has lost the reply."""
    rule = "rollout-repeatable"
    finding = describes(rule, second)
    if finding.outcome is not Outcome.OK:
        return _failed(rule, f"asked for again under the same run_id: {finding.what}", _AGAIN)
    same = _table(_table(first.body).get("metrics")).get("mean_return")
    other = _table(_table(second.body).get("metrics")).get("mean_return")
    what = f"asked for again under the same run_id, it returns {other}, and the first time {same}"
    return _rule(rule, same == other, what, _AGAIN, warning=True)


def needs_correlation_id(probe: Probe) -> Finding:
    """Whether mode `rl` without a correlation id is refused: nothing could be learned from such a rollout."""
    status = probe.status or 0
    return _rule(
        "rl-needs-correlation-id",
        400 <= status < 500,
        f"mode rl without a correlation id is answered with {probe.status}",
        "Refuse it with 422: the trainer cannot find the completions of such a rollout.",
    )


def survives(probe: Probe) -> Finding:
    """Whether a policy that fails makes a rollout with an error in it, and no failed request."""
    rule = "policy-failure"
    steps = [
        _table(step)
        for one in _list(_table(probe.body).get("trajectories"))
        for step in _list(_table(one).get("steps"))
    ]
    told = any(_table(step.get("info")).get("error") for step in steps)
    what = f"the policy answered 500, and the rollout {probe.status}"
    if probe.status == 200:
        what += " without an `error` in steps[].info"
    remedy = "Answer 200 with the reward of a failure, and say so in steps[].info.error."
    return _rule(rule, probe.status == 200 and told, what, remedy, warning=True)


_CID = "Copy policy.config.trace_correlation_id, else `cid` of the inference URL."
_URL = "Record the URL that the policy was asked at, with its query."
_STEP_TYPES = "`obs` is an object, `tool_calls` a list of objects, `reward` a number or null, `done` true or false."
_METRICS_TYPES = (
    "`episode_returns` is a list of numbers, `mean_return` a number, `num_steps` and `num_episodes` are whole numbers;"
    " if they are there, `details` is an object, `outcome_score` and `events_score` are numbers."
)
_DEFAULTS_TYPES = "`branches` is an object, `aborted` true or false, `ops_executed` a whole number."
_AGAIN = "Keep the reply for a run_id, and answer a repeated request with it."


def skipped(rule: str, why: str, remedy: str = "") -> Finding:
    """A rule that could not be looked at."""
    return Finding(rule=rule, outcome=Outcome.SKIPPED, what=why, remedy=remedy)


def _rule(rule: str, kept: bool, what: str, remedy: str, *, warning: bool = False) -> Finding:
    if kept:
        return Finding(rule=rule, outcome=Outcome.OK)
    return Finding(rule=rule, outcome=Outcome.WARNING if warning else Outcome.FAILED, what=what, remedy=remedy)


def _failed(rule: str, what: str, remedy: str) -> Finding:
    return Finding(rule=rule, outcome=Outcome.FAILED, what=what, remedy=remedy)


def _has_cid(url: object, cid: str) -> bool:
    return isinstance(url, str) and cid in parse_qs(urlsplit(url).query).get("cid", [])


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
