"""What every look at a task app promises (`ports.task_app.TaskAppPort`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pytest

from cases.scripted_server import Script, ScriptedServer
from synth_train.adapters.http.task_app import HttpTaskApp
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys, Trouble, health_fault, task_info_fault
from synth_train.ports.task_app import TaskAppPort

KEY, ALIAS = Secret("ours-5f1c2a9e7b3d4f60-001"), Secret("alias-9c0d1e2f3a4b5c6d-002")
KEYS = TaskAppKeys(KEY, (ALIAS,))

Answers = dict[str, tuple[int, object]]


@dataclass(frozen=True)
class Side:
    """A port, and how an app that answers in a certain way is arranged behind it."""

    port: TaskAppPort
    url: str


Arrange = Callable[[Answers], AbstractContextManager[Side]]


def in_memory(answers: Answers) -> Iterator[Side]:
    app = InMemoryTaskApp()
    app.replies = answers
    yield Side(app, "http://task.test/app")


def over_http(answers: Answers) -> Iterator[Side]:
    script: Script = {f"GET /app/{route}": [{"status": s, "json": body}] for route, (s, body) in answers.items()}
    with ScriptedServer(script) as server:
        yield Side(HttpTaskApp(), f"{server.origin}/app")


@pytest.fixture(params=[in_memory, over_http])
def arranged(request: pytest.FixtureRequest) -> Arrange:
    make: Callable[[Answers], Iterator[Side]] = request.param
    return contextmanager(make)


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_healthy_app_is_found_healthy(arranged: Arrange, slash: str) -> None:
    with arranged({"health": (200, {"healthy": True}), "task_info": (200, {"taskset": {}})}) as side:
        health = side.port.health(side.url + slash, KEYS)
        info = side.port.task_info(side.url + slash, KEYS, within=5.0)

    assert health == Probe(
        url=f"{side.url}/health",
        status=200,
        content_type="application/json",
        body={"healthy": True},
        excerpt=health.excerpt,
    )
    assert health.excerpt.replace(" ", "") == '{"healthy":true}'
    assert info.url == f"{side.url}/task_info"
    assert (health_fault(health), task_info_fault(info)) == (None, None)


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
def test_what_the_app_answers_is_told_and_not_raised(arranged: Arrange, status: int) -> None:
    answer = (status, {"detail": "because"})
    with arranged({"health": answer, "task_info": answer}) as side:
        for probe in (side.port.health(side.url, KEYS), side.port.task_info(side.url, KEYS)):
            assert (probe.status, probe.body, probe.trouble) == (status, {"detail": "because"}, None)


def test_an_app_that_is_not_there_is_told_too() -> None:
    gone = InMemoryTaskApp()
    gone.trouble = Trouble.REFUSED
    for port, url in ((gone, "http://task.test"), (HttpTaskApp(), "http://127.0.0.1:1")):
        probe = port.health(url, KEYS)

        assert probe.url == f"{url}/health"
        assert (probe.status, probe.trouble) == (None, Trouble.REFUSED)
