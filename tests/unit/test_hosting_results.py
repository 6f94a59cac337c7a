"""Models that jobs have made, and their removal."""

from __future__ import annotations

import msgspec
import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.hosting import Job, Owner, Refusal, maker_of
from synth_train.domain.model.jobs import Kind
from synth_train.domain.usecases.hosting.results import Results

WE, THEY = Owner("we"), Owner("they")


@pytest.fixture
def world() -> InMemoryHosting:
    return InMemoryHosting(clock=ManualClock())


@pytest.fixture
def results(world: InMemoryHosting) -> Results:
    return world.hosting.results


def asked(world: InMemoryHosting, model: str, *, owner: Owner = WE) -> Job:
    body = msgspec.json.encode({"data": {"model": model, "endpoint_base_url": "http://task"}})
    return world.hosting.jobs.create(owner, Kind.RL, body, route="rl/jobs", key=None)


def done(world: InMemoryHosting, job: Job) -> Job:
    clock = world.clock
    assert isinstance(clock, ManualClock)
    for seconds in (world.executor.delay, world.trainer.lasts):
        clock.advance(seconds)
        job = world.hosting.jobs.show(job.owner, job.id)
    world.results.made[job.id] = {"a": b"1"}
    return job


def refused(refusal: pytest.ExceptionInfo[Refusal]) -> tuple[int, str]:
    return refusal.value.status, refusal.value.code


def test_a_model_is_found_by_its_id(world: InMemoryHosting, results: Results) -> None:
    job = done(world, asked(world, "m"))
    assert results.maker(WE, f"rl:m:{job.id}") == job


@pytest.mark.parametrize("name", ["m", "rl:m:", "rl:m:job_0", ":job_1"])
def test_what_is_no_model_is_not_found(world: InMemoryHosting, results: Results, name: str) -> None:
    with pytest.raises(Refusal, match="there is no model") as refusal:
        results.maker(WE, name)
    assert refused(refusal) == (404, "unknown_model")


def test_a_job_without_a_model_and_a_misspelt_id_are_no_model(world: InMemoryHosting, results: Results) -> None:
    waiting = asked(world, "m")
    with pytest.raises(Refusal, match="there is no model"):
        results.maker(WE, f"rl:m:{waiting.id}")
    made = done(world, waiting)
    with pytest.raises(Refusal, match="there is no model"):
        results.maker(WE, f"ft:m:{made.id}")


def test_a_removed_model_is_gone_and_its_job_stays(world: InMemoryHosting, results: Results) -> None:
    job = done(world, asked(world, "m"))
    model = f"rl:m:{job.id}"
    assert results.remove(WE, model) == job
    assert world.results.made == {}
    for again in (results.maker, results.remove):
        with pytest.raises(Refusal, match="there is no model") as refusal:
            again(WE, model)
        assert refused(refusal) == (404, "unknown_model")
    kept = world.hosting.jobs.show(WE, job.id)
    assert (kept.fine_tuned_model, kept.model, kept.model_removed_at) == (model, None, world.clock.now())
    with pytest.raises(Refusal, match=f"the model of job {job.id} was deleted") as refusal:
        results.listed(WE, job.id)
    assert refused(refusal) == (410, "result_removed")


def test_a_model_that_a_job_needs_is_not_removed_before_that_is_over(world: InMemoryHosting, results: Results) -> None:
    job = done(world, asked(world, "m"))
    model = f"rl:m:{job.id}"
    asked(world, "other")
    user = asked(world, model)
    with pytest.raises(Refusal, match=f"{model} is needed by job {user.id}") as refusal:
        results.remove(WE, model)
    assert refused(refusal) == (409, "model_in_use")
    assert results.listed(WE, job.id)
    world.hosting.jobs.cancel(WE, user.id)
    results.remove(WE, model)


def test_the_models_of_others_are_not_there(world: InMemoryHosting, results: Results) -> None:
    model = f"rl:m:{done(world, asked(world, 'm')).id}"
    for what in (results.maker, results.remove):
        with pytest.raises(Refusal, match="there is no model"):
            what(THEY, model)
    with pytest.raises(Refusal, match=f"there is no model {model}") as refusal:
        asked(world, model, owner=THEY)
    assert refused(refusal) == (422, "unknown_model")
    assert results.maker(WE, model).model == model


def test_no_job_begins_with_a_model_that_was_removed(world: InMemoryHosting, results: Results) -> None:
    model = f"rl:m:{done(world, asked(world, 'm')).id}"
    results.remove(WE, model)
    with pytest.raises(Refusal, match=f"there is no model {model}"):
        asked(world, model)


def test_the_id_of_a_model_names_its_job() -> None:
    assert maker_of("ft:org/name:job_1") == "job_1"
    assert maker_of("org/name") is None
