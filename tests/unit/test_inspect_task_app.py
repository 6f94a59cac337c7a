"""Each rule of the task-app contract, on an app in memory that breaks it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.played_task_app import InMemoryPolicy, PlayedTaskApp
from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys, Trouble
from synth_train.domain.model.task_app_rules import FORMS
from synth_train.domain.usecases.inspect_task_app import Inspection, InspectTaskApp

KEY = Secret("environment-key-vqzjxkwy")
URL = "http://127.0.0.1:8001"
Json = dict[str, Any]


class Bench:
    """A good task app, and somebody who inspects it."""

    def __init__(self) -> None:
        self.policy = InMemoryPolicy()
        self.app = PlayedTaskApp(self.policy, keys={KEY})
        self.clock = ManualClock()
        self.told: list[Finding] = []

    def __call__(self, url: str = URL, **options: Any) -> Inspection:
        inspect = InspectTaskApp(app=self.app, policy=self.policy, clock=self.clock, entropy=CountingEntropy())
        return inspect(url, TaskAppKeys(KEY), tell=self.told.append, **options)

    def spoil(self, route: str, change: Callable[[int, Any], tuple[int, Any]]) -> None:
        self.app.spoil = lambda which, status, body: change(status, body) if which == route else (status, body)

    def broken(self) -> dict[str, Outcome]:
        """The rules that are not kept."""
        return {one.rule: one.outcome for one in self().findings if one.outcome is not Outcome.OK}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_good_app_keeps_every_rule(bench: Bench) -> None:
    inspection = bench()
    assert bench.broken() == {}
    assert inspection.ok
    assert inspection.findings == tuple(bench.told[: len(inspection.findings)])
    assert len({finding.rule for finding in inspection.findings}) == len(inspection.findings) == 44


def test_the_first_rollout_is_timed(bench: Bench) -> None:
    def slowly(url: str, body: Json) -> tuple[str, Json]:
        bench.clock.advance(2.5)
        return url, body

    bench.app.ask_policy = slowly
    assert bench().seconds == 2.5


def test_the_rollout_section_of_a_config_goes_into_the_request(bench: Bench) -> None:
    section = {"env_name": "e", "policy_name": "p", "env_config": {"a": 1}, "policy_config": {"x": 2}, "ops": ["agent"]}
    bench(section=section)
    first = bench.app.rollouts[0]
    assert first["env"] == {"env_name": "e", "config": {"a": 1}, "seed": 0}
    assert (first["policy"]["policy_name"], first["policy"]["config"]["x"]) == ("p", 2)
    assert first["ops"] == ["agent"]


def test_what_is_no_url_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="the task URL 'nowhere' does not begin with http://"):
        bench("nowhere")


def test_an_app_that_cannot_be_reached_is_asked_once(bench: Bench) -> None:
    bench.app.trouble = Trouble.REFUSED
    assert bench.broken() == {"health": Outcome.FAILED}
    assert bench.app.requests == [("GET", "health")]


def test_an_app_elsewhere_is_spared_the_rollouts_and_this_is_said(bench: Bench) -> None:
    inspection = bench("https://task.example")
    [skipped] = [finding for finding in inspection.findings if finding.outcome is Outcome.SKIPPED]
    assert skipped.rule == "rollout"
    assert "on the machine of the task app" in skipped.remedy
    assert (inspection.ok, inspection.seconds) == (True, None)


# Routes and keys

ROUTES: list[tuple[str, int, Any, dict[str, Outcome]]] = [
    ("health", 200, {"healthy": False}, {"health": Outcome.FAILED}),
    ("health for a stranger", 200, {"authorized": False}, {}),
    ("health for a stranger", 400, {"detail": "unauthorised"}, {
        "health-no-key": Outcome.WARNING, "health-wrong-key": Outcome.WARNING,
    }),
    ("health for a stranger", 500, {"detail": "boom"}, {
        "health-no-key": Outcome.FAILED, "health-wrong-key": Outcome.FAILED,
    }),
    ("task_info for a stranger", 200, {"taskset": {}}, {
        "task-info-no-key": Outcome.FAILED, "task-info-wrong-key": Outcome.FAILED,
    }),
    ("task_info for a stranger", 401, {"expected_api_key_prefix": "environ..."}, {"key-not-told": Outcome.WARNING}),
    ("task_info for a stranger", 401, {"expected_api_key_prefix": "enviro..."}, {}),
    ("task_info for a stranger", 401, {"detail": f"not {KEY.mask}"}, {"key-not-told": Outcome.WARNING}),
    ("task_info for a stranger", 401, "no", {}),
    (" for a stranger", 404, {}, {"root": Outcome.FAILED}),
    ("info", 404, {}, {"info": Outcome.FAILED}),
    ("info", 200, {"service": {"task": "x"}, "dataset": {}, "rubrics": 0, "inference": {}}, {"info": Outcome.FAILED}),
    ("info", 200, {"dataset": {}, "rubrics": None, "inference": {}, "limits": {}}, {"info": Outcome.FAILED}),
    ("task_info", 200, [], {"task-info": Outcome.FAILED}),
    ("task_info?seed=3", 422, {}, {"task-info-one-seed": Outcome.FAILED}),
    ("task_info?seed=3", 200, {"taskset": {}}, {"task-info-one-seed": Outcome.FAILED}),
    ("task_info?seed=3", 200, {"task": {"id": "a", "name": "A"}, "environments": []}, {}),
    ("done", 404, {}, {"done": Outcome.FAILED}),
    ("rollout for a stranger", 200, {}, {"rollout-no-key": Outcome.FAILED}),
]  # fmt: skip


@pytest.mark.parametrize(("route", "status", "body", "broken"), ROUTES)
def test_a_route_that_breaks_a_rule_is_named(
    bench: Bench, route: str, status: int, body: Any, broken: dict[str, Outcome]
) -> None:
    bench.spoil(route, lambda *_: (status, body))
    assert bench.broken() == broken


@pytest.mark.parametrize("status", [401, 403])
def test_an_app_that_wants_a_key_at_its_root_is_told_to_open_it_and_not_to_change_the_key(
    bench: Bench, status: int
) -> None:
    bench.spoil(" for a stranger", lambda *_: (status, {"detail": "bad key"}))
    assert bench.broken() == {"root": Outcome.FAILED}
    [root] = [finding for finding in bench.told if finding.rule == "root"]
    assert root.what.endswith(f": {status} for a request without a key")
    assert root.remedy.startswith("Answer GET / with 200")
    assert "ENVIRONMENT_API_KEY" not in root.remedy


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("task_info?seed=3", {"taskset": {}}, "`task` with `id` and `name`"),
        ("rollout", {"run_id": "a", "metrics": {}}, "`mean_return` a number"),
        ("rollout", {"run_id": "a", "branches": 1}, "`branches` is an object"),
        ("rollout", {"trajectories": [{"steps": [{}]}]}, "`tool_calls` a list of objects"),
    ],
)
def test_what_has_the_wrong_type_is_told_the_right_one(bench: Bench, route: str, body: Json, words: str) -> None:
    bench.spoil(route, lambda *_: (200, body))
    bench.broken()
    assert any(words in finding.remedy for finding in bench.told if finding.outcome is Outcome.FAILED)


def test_a_key_too_short_to_show_has_no_mask_to_be_found(bench: Bench) -> None:
    short = Secret("short-key")
    bench.app = PlayedTaskApp(bench.policy, keys={short})
    inspect = InspectTaskApp(app=bench.app, policy=bench.policy, clock=bench.clock, entropy=CountingEntropy())
    bench.spoil("task_info for a stranger", lambda *_: (401, {"detail": "no..."}))
    assert inspect(URL, TaskAppKeys(short), tell=bench.told.append).ok


SEEDS = "&".join(f"seed={seed}" for seed in range(10))


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (422, {"detail": "one seed only"}, "no list but 422"),
        (200, {"task": {}}, "no list but 200"),
        (200, [{}], "1 instances for 10 seeds"),
        (200, [{}] * 10, "lacks task.id, task.name, environment"),
    ],
)
def test_several_seeds_need_as_many_instances(bench: Bench, status: int, body: Any, says: str) -> None:
    bench.spoil(f"task_info?{SEEDS}", lambda *_: (status, body))
    [finding] = [one for one in bench().findings if one.outcome is Outcome.FAILED]
    assert finding.rule == "task-info-many-seeds"
    assert says in finding.what


@pytest.mark.parametrize("route", ["task_info for a stranger", f"task_info?{SEEDS}"])
def test_a_connection_that_breaks_later_is_told_where_it_broke(bench: Bench, route: str) -> None:
    bench.app.breaks = route
    failed = [one for one in bench().findings if one.outcome is Outcome.FAILED]
    assert failed
    assert all("the connection was cut" in one.what for one in failed)


# Asking the policy


ASKING: list[tuple[Callable[[str, Json], tuple[str, Json] | None], set[str]]] = [
    (lambda url, body: None, {"policy-asked", "inference-url-v1", "inference-url-whole"}),
    (lambda url, body: (url.replace("/v1/chat", "/chat"), body), {f"inference-url-{form}" for form in FORMS}),
    (lambda url, body: (url.replace("/first/v1", "/first"), body), {"inference-url-plain"}),
    (lambda url, body: (url.partition("?")[0], body), {"inference-url-query"}),
    (lambda url, body: (url.replace("check=1", "check=2"), body), {"inference-url-query"}),
    (lambda url, body: (url, body | {"messages": []}), {"completion-body"}),
    (lambda url, body: (url, body | {"model": "gpt-4"}), {"completion-model"}),
    (lambda url, body: (url, body | {"temperature": 1.0, "top_p": 1.0}), {"completion-sampling"}),
]  # fmt: skip


@pytest.mark.parametrize(("change", "broken"), ASKING)
def test_a_policy_that_is_asked_wrongly_is_told_by_rule(
    bench: Bench, change: Callable[[str, Json], tuple[str, Json] | None], broken: set[str]
) -> None:
    bench.app.ask_policy = change
    assert set(bench.broken()) == broken


def test_headers_that_are_not_passed_on_are_a_warning(bench: Bench) -> None:
    complete = bench.policy.complete
    bench.policy.complete = lambda url, headers, body: complete(url, {}, body)  # type: ignore[method-assign]
    assert bench.broken() == {"extra-headers": Outcome.WARNING}


# Answering


def trajectory(**fields: Any) -> Callable[[Json], None]:
    return lambda body: body["trajectories"][0].update(fields)


def step(**fields: Any) -> Callable[[Json], None]:
    return lambda body: body["trajectories"][0]["steps"][0].update(fields)


def metrics(**fields: Any) -> Callable[[Json], None]:
    return lambda body: body["metrics"].update(fields)


def top(**fields: Any) -> Callable[[Json], None]:
    return lambda body: body.update(fields)


def pipeline(**fields: Any) -> Callable[[Json], None]:
    return lambda body: body["pipeline_metadata"].update(fields)


ANSWERS: list[tuple[Callable[[Json], None], set[str]]] = [
    (top(run_id="another"), {"run-id"}),
    (top(trace_correlation_id=None), {"correlation-id"}),
    (pipeline(trace_correlation_id="x"), {"pipeline-correlation-id"}),
    (pipeline(inference_url="http://h/v1/chat/completions"), {"pipeline-inference-url"}),
    (top(pipeline_metadata=None), {"pipeline-correlation-id", "pipeline-inference-url"}),
    (top(trajectories=[]), {"trajectories", "num-steps", "policy-failure"}),
    (
        top(trajectories=[3]),
        {
            "trajectory-ids",
            "trajectory-length",
            "trajectory-inference-url",
            "trajectory-correlation-id",
            "steps",
            "num-steps",
            "policy-failure",
        },
    ),
    (trajectory(env_id=None), {"trajectory-ids"}),
    (trajectory(length=2), {"trajectory-length"}),
    (trajectory(inference_url="http://h?cid="), {"trajectory-inference-url"}),
    (trajectory(trace_correlation_id=""), {"trajectory-correlation-id"}),
    (step(obs=[], tool_calls={}, reward="1", done=1), {"step-fields"}),
    (step(tool_calls=["call"]), {"step-fields"}),
    (step(reward=None), set()),
    (step(info={"error": "x"}), {"step-inference-url"}),
    (step(info=None), {"step-inference-url", "policy-failure"}),
    (metrics(episode_returns=[]), {"metrics"}),
    (metrics(episode_returns=[True]), {"metrics"}),
    (metrics(mean_return=None), {"metrics"}),
    (metrics(num_steps=1.0, num_episodes="1"), {"metrics"}),
    (metrics(details=[], outcome_score="good"), {"metrics"}),
    (metrics(outcome_score=0.5, events_score=None), set()),
    (metrics(mean_return=0.5), {"mean-return"}),
    (metrics(num_steps=3), {"num-steps"}),
    (top(metrics=None), {"metrics"}),
    (top(branches=[], aborted=0), {"rollout-defaults"}),
    (top(trace=None), {"trace"}),
]  # fmt: skip


@pytest.mark.parametrize(("change", "broken"), ANSWERS)
def test_a_rollout_that_is_answered_wrongly_is_told_by_rule(
    bench: Bench, change: Callable[[Json], None], broken: set[str]
) -> None:
    def spoilt(status: int, body: Any) -> tuple[int, Any]:
        body = copy.deepcopy(body)
        if status == 200:
            change(body)
        return status, body

    bench.spoil("rollout", spoilt)
    assert set(bench.broken()) == broken


def test_a_trace_may_be_in_the_trajectory(bench: Bench) -> None:
    def moved(status: int, body: Any) -> tuple[int, Any]:
        if status == 200:
            body = copy.deepcopy(body)
            body["trajectories"][0]["trace"] = body.pop("trace")
        return status, body

    bench.spoil("rollout", moved)
    assert bench.broken() == {}


def test_an_app_without_rollouts_is_asked_for_one_only(bench: Bench) -> None:
    bench.spoil("rollout", lambda *_: (500, {"detail": "boom"}))
    assert bench.broken() == {"rollout": Outcome.FAILED}
    assert [route for _, route in bench.app.requests].count("rollout") == 2


def nth(number: int, change: Callable[[Any], tuple[int, Any]]) -> Callable[[int, Any], tuple[int, Any]]:
    """Change the reply to one rollout of those that are asked for."""
    count = 0

    def spoilt(status: int, body: Any) -> tuple[int, Any]:
        nonlocal count
        count += 1
        return change(copy.deepcopy(body)) if count == number else (status, body)

    return spoilt


def test_a_rollout_has_to_be_repeatable(bench: Bench) -> None:
    bench.spoil("rollout", nth(2, lambda body: (409, {"detail": "run_id in use"})))
    assert bench.broken() == {"rollout-repeatable": Outcome.FAILED}


def test_a_repeated_rollout_that_returns_something_else_is_a_warning(bench: Bench) -> None:
    def other(body: Any) -> tuple[int, Any]:
        body["metrics"]["mean_return"] = 0.0
        return 200, body

    bench.spoil("rollout", nth(2, other))
    assert bench.broken() == {"rollout-repeatable": Outcome.WARNING}


@pytest.mark.parametrize(
    ("number", "status", "rule", "outcome"),
    [
        (5, 422, "eval-without-correlation-id", Outcome.FAILED),
        (6, 200, "rl-needs-correlation-id", Outcome.FAILED),
        (6, 500, "rl-needs-correlation-id", Outcome.FAILED),
        (7, 502, "policy-failure", Outcome.WARNING),
    ],
)
def test_each_kind_of_rollout_has_its_rule(bench: Bench, number: int, status: int, rule: str, outcome: Outcome) -> None:
    bench.spoil("rollout", nth(number, lambda body: (status, {"detail": "x"})))
    assert bench.broken() == {rule: outcome}
