"""Asking a task app for rollouts: what counts as one, what is tried again, what is said when none comes."""

from __future__ import annotations

import socket
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

from support.raw_server import RawServer, reply
from support.task_apps import KEY, TaskAppServer
from synth_train.adapters.local.background import Stop, Stopped
from synth_train.adapters.local.rl.task_app import RolloutFailed, TaskApp, reward_in
from synth_train.domain.model.hosting import TrainingFailed
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys

Json = dict[str, Any]

PLAYED = {"metrics": {"mean_return": 0.5}}

KEYS = TaskAppKeys(Secret(KEY), (Secret("an-alias-of-the-key"),))


def app_at(url: str, *, keys: TaskAppKeys = KEYS, timeout: float = 10.0, stop: Stop | None = None) -> TaskApp:
    return TaskApp(url, keys, timeout=timeout, stop=stop or Stop(), first_wait=0.001)


def request(attempt: int) -> Json:
    url = "http://127.0.0.1:9/v1/chat/completions?cid=1"
    config = {"inference_url": url, "trace_correlation_id": "1", "model": "tiny"}
    return {"run_id": f"run-{attempt}", "mode": "rl", "env": {"seed": 3}, "policy": {"config": config}}


class Script:
    """Replies to rollout requests, in order; the last one repeats."""

    def __init__(self, *replies: tuple[int, Json]) -> None:
        self._replies = [*replies]

    def __call__(self, request: Json) -> tuple[int, Json]:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def failure_of(app: TaskApp) -> str:
    with pytest.raises(RolloutFailed) as failed:
        app.play(request)
    return str(failed.value)


def nowhere() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_rollout_comes_back_with_its_reward() -> None:
    with TaskAppServer(lambda seed, ask: 0.25) as app:
        assert app_at(app.url).play(request).reward == 0.25
        assert app.requests == [request(1)]


def test_the_key_is_presented_in_every_way_that_apps_look_for_it() -> None:
    with RawServer((reply(b'{"metrics": {"mean_return": 1}}', "Content-Type: application/json"),)) as server:
        app_at(server.origin).play(request)
    head = server.heard[0].partition(b"\r\n\r\n")[0].decode().splitlines()
    assert head[0] == "POST /rollout HTTP/1.1"
    assert f"X-API-Key: {KEY}" in head
    assert f"X-API-Keys: {KEY},an-alias-of-the-key" in head
    assert f"Authorization: Bearer {KEY}" in head


def test_after_a_5xx_a_rollout_is_asked_for_again_as_another_run() -> None:
    with TaskAppServer(lambda seed, ask: 0.0, trouble=Script((503, {}), (500, {}), (200, PLAYED))) as app:
        assert app_at(app.url).play(request).reward == 0.5
        assert [asked["run_id"] for asked in app.requests] == ["run-1", "run-2", "run-3"]


def test_after_three_5xx_the_rollout_has_failed_and_the_app_is_quoted() -> None:
    with TaskAppServer(lambda seed, ask: 0.0, trouble=Script((500, {"detail": "out of cards"}))) as app:
        assert failure_of(app_at(app.url)) == f"POST {app.url}/rollout: 500: out of cards, 3 times"
        assert len(app.requests) == 3


@pytest.mark.parametrize("status", [400, 404, 422, 429])
def test_a_4xx_is_final(status: int) -> None:
    with TaskAppServer(lambda seed, ask: 0.0, trouble=Script((status, {"detail": "no"}))) as app:
        assert failure_of(app_at(app.url)) == f"POST {app.url}/rollout: {status}: no"
        assert len(app.requests) == 1


def test_an_app_that_is_gone_is_tried_three_times() -> None:
    url = nowhere()
    assert failure_of(app_at(url)).startswith(f"POST {url}/rollout: the connection was refused")


def test_a_rollout_that_takes_too_long_has_failed() -> None:
    with RawServer((b"HTTP/1.1 200 OK\r\n", b"late"), pause=5.0) as server:
        assert "/rollout: no reply in time: " in failure_of(app_at(server.origin, timeout=0.1))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"null", b""])
def test_what_is_no_json_object_is_no_rollout(body: bytes) -> None:
    with RawServer((reply(body),)) as server:
        assert failure_of(app_at(server.origin)).endswith("200, but the reply is no JSON object")


def test_a_reply_of_absurd_length_is_no_rollout() -> None:
    with RawServer((reply(b" " * (5 << 20)),)) as server:
        assert failure_of(app_at(server.origin)).endswith("the reply is longer than 4 MiB")


def test_a_key_that_the_app_repeats_is_not_told() -> None:
    with TaskAppServer(lambda seed, ask: 0.0, trouble=Script((400, {"detail": f"bad key {KEY}"}))) as app:
        assert KEY not in failure_of(app_at(app.url))
    with RawServer((reply(f"bad key {KEY}".encode(), status="403 Forbidden"),)) as server:
        said = failure_of(app_at(server.origin))
        assert "bad key" in said
        assert KEY not in said


def test_nothing_is_asked_for_once_it_is_to_stop() -> None:
    stop = Stop()
    stop.ask()
    with TaskAppServer(lambda seed, ask: 0.0) as app:
        with pytest.raises(Stopped):
            app_at(app.url, stop=stop).play(request)
        assert app.requests == []


@pytest.mark.parametrize(
    ("body", "reward"),
    [
        ({"metrics": {"mean_return": 0.5, "outcome_score": 1.0}}, 0.5),
        ({"metrics": {"mean_return": None, "outcome_score": 1}}, 1.0),
        ({"metrics": {"mean_return": -2}}, -2.0),
        ({"trajectories": [{"steps": [{"reward": 0.5}, {"reward": None}, {"reward": 0.25}]}]}, 0.75),
        ({"metrics": {}, "trajectories": [{"steps": [{"reward": 1}]}, {"steps": [{"reward": 1}]}]}, 2.0),
    ],
)
def test_the_reward_is_the_first_that_the_contract_names(body: Json, reward: float) -> None:
    assert reward_in(body) == reward


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metrics": []},
        {"metrics": {"mean_return": "1"}},
        {"metrics": {"mean_return": True}},
        {"trajectories": [{"steps": []}, "x"]},
    ],
)
def test_a_reply_without_a_reward_is_no_rollout(body: Json) -> None:
    with pytest.raises(RolloutFailed, match="no reward"):
        reward_in(body)


def test_a_rollout_that_the_app_aborted_is_none() -> None:
    with pytest.raises(RolloutFailed, match="aborted"):
        reward_in({"aborted": True, "metrics": {"mean_return": 1.0}})


def test_a_healthy_app_passes_the_check() -> None:
    with TaskAppServer(lambda seed, ask: 0.0) as app:
        app_at(app.url).check()


def test_an_app_that_is_gone_does_not_pass_the_check() -> None:
    url = nowhere()
    with pytest.raises(TrainingFailed, match=r"the task app is not healthy: GET .*refused.*Start the task app"):
        app_at(url).check()


def test_an_app_that_does_not_know_the_key_is_not_asked_again() -> None:
    with RawServer((reply(b"{}", status="401 Unauthorized"),)) as server:
        with pytest.raises(TrainingFailed, match="does not accept our ENVIRONMENT_API_KEY"):
            app_at(server.origin).check()
        assert len(server.heard) == 1
