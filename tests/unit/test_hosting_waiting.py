"""Jobs that cannot run where the worker is, signs of life from another thread, and results."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.events import Event
from synth_train.domain.model.hosting import (
    Happening,
    Job,
    JobStatus,
    KeyPlace,
    Owner,
    Refusal,
    Task,
    Tick,
    WorkerId,
)
from synth_train.domain.model.jobs import JobId, Kind
from synth_train.domain.usecases.hosting.work import DEAD_AFTER, Queue, Worker
from synth_train.ports.hosting import Trainer

WE = Owner("we")
RL = b'{"data": {"model": "m", "endpoint_base_url": "http://task"}}'
ONE, TWO = WorkerId("one"), WorkerId("two")


class Patient(Trainer):
    """Trains for ever."""

    def train(self, task: Task) -> Generator[Happening, None, None]:
        while True:
            yield Tick()


class World:
    """A queue whose jobs wait for what `why` says, by their ids."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.hosting = InMemoryHosting(clock=self.clock)
        self.hosting.executor.delay = float("inf")
        self.why: dict[JobId, str] = {}
        self.queue = Queue(store=self.hosting.store, clock=self.clock, hindrance=lambda job: self.why.get(job.id, ""))

    def job(self, why: str = "") -> Job:
        job = self.hosting.hosting.jobs.create(WE, Kind.RL, RL, route="rl/jobs", key=None)
        self.why[job.id] = why
        return job

    def now(self, job: Job) -> Job:
        return next(one for one in self.hosting.store.all_jobs if one.id == job.id)

    def events(self, job: Job) -> list[Event]:
        return self.hosting.hosting.jobs.events(WE, job.id)


@pytest.fixture
def world() -> World:
    return World()


# Hindrances


def test_a_job_with_a_hindrance_says_so_once_and_lets_others_pass(world: World) -> None:
    hindered, free = world.job("its key is gone"), world.job()
    for _ in range(2):
        world.queue.claim(ONE)
    assert (world.now(hindered).status, world.now(free).status) == (JobStatus.QUEUED, JobStatus.RUNNING)
    assert world.now(hindered).waits_for == "its key is gone"
    [_, waiting] = world.events(hindered)
    assert (waiting.type, waiting.level, waiting.message) == ("rl.waiting", "warning", "Waits: its key is gone.")
    assert waiting.data == {"reason": "its key is gone"}


def test_another_hindrance_is_said_too_and_none_ends_the_waiting(world: World) -> None:
    job = world.job("one thing")
    world.queue.claim(ONE)
    world.why[job.id] = "another"
    world.queue.claim(ONE)
    world.why[job.id] = ""
    claimed = world.queue.claim(ONE)
    assert claimed is not None
    assert (claimed.id, claimed.waits_for) == (job.id, "")
    assert [event.message for event in world.events(job)][1:] == [
        "Waits: one thing.",
        "Waits: another.",
        "Training begins.",
    ]


def test_a_dead_workers_job_with_a_hindrance_goes_back_to_the_queue(world: World) -> None:
    job = world.job()
    world.queue.claim(ONE)
    world.clock.advance(DEAD_AFTER + 1)
    world.why[job.id] = "its key is gone"
    assert world.queue.claim(TWO) is None
    assert (world.now(job).status, world.now(job).waits_for) == (JobStatus.QUEUED, "its key is gone")


def test_a_job_that_comes_while_hindrances_are_looked_at_is_left_for_the_next_claim(world: World) -> None:
    first = world.job("its key is gone")

    def look(job: Job) -> str:
        if len(world.hosting.store.all_jobs) == 1:
            world.job()
        return world.why[job.id]

    queue = Queue(store=world.hosting.store, clock=world.clock, hindrance=look)
    assert queue.claim(ONE) is None
    claimed = queue.claim(ONE)
    assert claimed is not None
    assert claimed.id != first.id


def test_where_death_can_be_known_no_time_has_to_pass(world: World) -> None:
    job = world.job()
    queue = Queue(store=world.hosting.store, clock=world.clock, dead=lambda held: held.worker == ONE)
    queue.claim(ONE)
    again = queue.claim(TWO)
    assert again is not None
    assert (again.id, again.claims) == (job.id, 2)
    world.clock.advance(DEAD_AFTER + 1)
    assert queue.claim(WorkerId("three")) is None


def test_there_is_work_where_a_worker_would_have_something_to_do_or_to_say(world: World) -> None:
    seen = [world.queue.has_work]
    job = world.job("its key is gone")
    seen.append(world.queue.has_work)
    world.queue.claim(ONE)
    seen.append(world.queue.has_work)
    world.why[job.id] = ""
    seen.append(world.queue.has_work)
    world.queue.claim(ONE)
    seen.append(world.queue.has_work)
    assert seen == [False, True, False, True, True]


def test_waiting_jobs_say_once_why_there_is_no_worker_and_begin_when_there_is(world: World) -> None:
    job = world.job()
    for _ in range(2):
        world.queue.hold_up("no worker can be started")
    assert [event.message for event in world.events(job)][1:] == ["Waits: no worker can be started."]
    assert world.queue.claim(ONE) is not None


# Where a key is kept

PLACE = KeyPlace(mark="00FF", name="ENVIRONMENT_API_KEY", file="/repo/.env")


@pytest.mark.parametrize(("kind", "kept"), [(Kind.RL, PLACE), (Kind.SFT, None)])
def test_only_an_rl_job_notes_where_its_key_is_kept(world: World, kind: Kind, kept: KeyPlace | None) -> None:
    from synth_train.domain.usecases.hosting.files import Label

    label = Label(filename="a", purpose="fine-tune")
    file = world.hosting.hosting.files.upload(WE, [b"row"], lambda: label)
    body = RL if kind is Kind.RL else b'{"model": "m", "training_file": "%s"}' % file.id.encode()
    job = world.hosting.hosting.jobs.create(WE, kind, body, route="jobs", key=None, key_place=PLACE)
    assert job.key_place == kept


# Signs of life


def test_a_worker_beats_while_its_trainer_is_busy(world: World) -> None:
    job = world.job()
    worker = Worker(id=ONE, queue=world.queue, trainer=Patient())
    assert worker.beat() is None
    worker.step()
    world.clock.advance(30)
    assert worker.beat() is JobStatus.RUNNING
    assert world.now(job).beat_at == world.clock.now()
    assert world.events(job)[-1].type == "rl.heartbeat"
    world.hosting.hosting.jobs.cancel(WE, job.id)
    assert worker.beat() is JobStatus.CANCELLING


def test_a_job_whose_trainer_does_not_come_back_is_given_up(world: World) -> None:
    job = world.job()
    worker = Worker(id=ONE, queue=world.queue, trainer=Patient())
    worker.give_up()
    worker.step()
    world.hosting.hosting.jobs.cancel(WE, job.id)
    worker.give_up()
    assert (world.now(job).status, world.now(job).reason) == (
        JobStatus.CANCELLED,
        "cancelled while it ran; the step under way was cut off",
    )
    assert not worker.has_a_job


# Results


def test_only_what_a_job_has_made_can_be_opened(world: World) -> None:
    world.hosting.executor.delay = 0
    job = world.job()
    results = world.hosting.hosting.results
    with pytest.raises(Refusal) as refused:
        results.listed(WE, job.id)
    assert refused.value.status == 409
    world.clock.advance(world.hosting.trainer.lasts)
    world.hosting.hosting.jobs.show(WE, job.id)
    with pytest.raises(Refusal) as refused:
        results.listed(WE, job.id)
    assert refused.value.status == 410
    world.hosting.results.made[job.id] = {"a": b"1"}
    with pytest.raises(Refusal) as refused:
        results.open(WE, job.id, "b")
    assert refused.value.status == 404
    with pytest.raises(Refusal) as refused:
        results.open(Owner("they"), job.id, "a")
    assert refused.value.status == 404
    with results.open(WE, job.id, "a") as stream:
        assert stream.read() == b"1"
