"""Chats with models: what is looked at before a model is asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.hosting import Owner, Refusal
from synth_train.domain.model.jobs import Kind
from synth_train.domain.usecases.hosting.chats import MOST_TOKENS, USUAL_TOKENS

WE, THEY = Owner("we"), Owner("they")
HELLO = [{"role": "user", "content": "Hello there"}]


@pytest.fixture
def world() -> InMemoryHosting:
    return InMemoryHosting(clock=ManualClock())


def ask(world: InMemoryHosting, owner: Owner = WE, **body: object) -> Any:
    request = msgspec.json.encode({"model": "tiny", "messages": HELLO, **body})
    return msgspec.json.decode(world.hosting.chats.complete(owner, request))


def refused(world: InMemoryHosting, owner: Owner = WE, **body: object) -> tuple[int, str]:
    with pytest.raises(Refusal) as refusal:
        ask(world, owner, **body)
    return refusal.value.status, refusal.value.code


def test_a_model_answers(world: InMemoryHosting) -> None:
    [choice] = ask(world)["choices"]
    assert choice["message"] == {"role": "assistant", "content": world.speaker.answer}


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        ({}, USUAL_TOKENS),
        ({"max_tokens": 3}, 3),
        ({"max_tokens": 3, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 10**9}, MOST_TOKENS),
        ({"max_tokens": None}, USUAL_TOKENS),
    ],
)
def test_an_answer_has_an_end(world: InMemoryHosting, asked: dict[str, Any], tokens: int) -> None:
    ask(world, **asked)
    [request] = world.speaker.asked
    assert request["max_tokens"] == tokens
    assert "max_completion_tokens" not in request


def test_what_the_client_puts_in_by_itself_does_no_harm_and_the_rest_is_handed_on(world: InMemoryHosting) -> None:
    ask(world, thinking_budget=256, stream=False, n=1, temperature=0.5)
    [request] = world.speaker.asked
    assert {"thinking_budget", "stream"}.isdisjoint(request)
    assert request["temperature"] == 0.5


@pytest.mark.parametrize(
    ("asked", "no"),
    [
        ({"stream": True}, (400, "not_streamed")),
        ({"n": 2}, (400, "one_answer")),
        ({"messages": []}, (422, "invalid_request")),
        ({"messages": "hello"}, (422, "invalid_request")),
        ({"model": ""}, (422, "invalid_request")),
        ({"model": None}, (422, "invalid_request")),
        ({"max_tokens": 0}, (422, "invalid_request")),
        ({"model": "other"}, (404, "unknown_model")),
        ({"messages": [{"role": "user", "content": 1}]}, (400, "unsupported")),
    ],
)
def test_what_cannot_be_answered_is_refused(world: InMemoryHosting, asked: dict[str, Any], no: tuple[int, str]) -> None:
    assert refused(world, **asked) == no


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(world: InMemoryHosting, body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        world.hosting.chats.complete(WE, body)
    assert (refusal.value.status, refusal.value.code) in ((400, "invalid_json"), (422, "invalid_request"))


def test_a_model_that_a_job_has_made_answers_its_owner_as_long_as_it_is_there(world: InMemoryHosting) -> None:
    body = b'{"data": {"model": "m", "endpoint_base_url": "http://task"}}'
    job = world.hosting.jobs.create(WE, Kind.RL, body, route="rl/jobs", key=None)
    model = f"rl:m:{job.id}"
    assert refused(world, model=model) == (404, "unknown_model")
    assert isinstance(world.clock, ManualClock)
    for seconds in (world.executor.delay, world.trainer.lasts):
        world.clock.advance(seconds)
        world.hosting.jobs.show(WE, job.id)
    assert ask(world, model=model)["model"] == model
    assert refused(world, THEY, model=model) == (404, "unknown_model")
    world.hosting.results.remove(WE, model)
    assert refused(world, model=model) == (404, "unknown_model")
