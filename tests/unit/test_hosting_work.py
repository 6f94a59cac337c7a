"""Whose turn it is, and what a worker makes of it."""

from __future__ import annotations

from collections.abc import Callable, Generator

import msgspec
import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.events import Event
from synth_train.domain.model.hosting import (
    Happening,
    Job,
    JobStatus,
    Note,
    Owner,
    Step,
    Task,
    Tick,
    TrainingFailed,
    WorkerId,
)
from synth_train.domain.model.jobs import Kind
from synth_train.domain.usecases.hosting.events import QUIET
from synth_train.domain.usecases.hosting.files import Label
from synth_train.domain.usecases.hosting.work import DEAD_AFTER, MOST_CLAIMS, Activity, Queue, Worker
from synth_train.ports.hosting import Trainer

WE = Owner("we")
RL = b'{"data": {"model": "m", "endpoint_base_url": "http://task"}}'
ONE, TWO = WorkerId("one"), WorkerId("two")
STEP = Step(step=1, total=2, points={"train.loss": 0.5, "val.loss": 0.75})


class Scripted(Trainer):
    """Trains by a function; remembers what it was given and whether it was stopped."""

    def __init__(self, act: Callable[[], Generator[Happening, None, None]]) -> None:
        self.tasks: list[Task] = []
        self.stopped = False
        self._act = act

    def train(self, task: Task) -> Generator[Happening, None, None]:
        self.tasks.append(task)
        try:
            yield from self._act()
        except GeneratorExit:
            self.stopped = True
            raise


def for_ever() -> Generator[Happening, None, None]:
    while True:
        yield Tick()


def one_step() -> Generator[Happening, None, None]:
    yield STEP


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(clock: ManualClock) -> InMemoryHosting:
    world = InMemoryHosting(clock=clock)
    world.executor.delay = float("inf")
    return world


@pytest.fixture
def queue(world: InMemoryHosting, clock: ManualClock) -> Queue:
    return Queue(store=world.store, clock=clock)


def rl_job(world: InMemoryHosting) -> Job:
    return world.hosting.jobs.create(WE, Kind.RL, RL, route="rl/jobs", key=None)


def now(world: InMemoryHosting, job: Job) -> Job:
    with world.store.transaction() as rows:
        found = rows.job(job.id)
    assert found is not None
    return found


def events(world: InMemoryHosting, job: Job) -> list[Event]:
    with world.store.transaction() as rows:
        return rows.events(job.id, since=0, limit=99)


# Whose turn


def test_the_job_that_has_waited_longest_is_next_and_only_one_runs(world: InMemoryHosting, queue: Queue) -> None:
    assert queue.claim(ONE) is None
    first, second = rl_job(world), rl_job(world)
    claimed = queue.claim(ONE)
    assert claimed is not None
    assert (claimed.id, claimed.status, claimed.worker) == (first.id, JobStatus.RUNNING, ONE)
    assert queue.claim(TWO) is None
    assert now(world, second).status is JobStatus.QUEUED


def test_more_run_at_once_when_told_so(world: InMemoryHosting, clock: ManualClock) -> None:
    queue = Queue(store=world.store, clock=clock, at_once=2)
    jobs = [rl_job(world) for _ in range(3)]
    claimed = [queue.claim(worker) for worker in (ONE, TWO, WorkerId("three"))]
    assert [job and job.id for job in claimed] == [jobs[0].id, jobs[1].id, None]


def test_a_dead_workers_job_comes_before_the_queue(world: InMemoryHosting, queue: Queue, clock: ManualClock) -> None:
    first, _ = rl_job(world), rl_job(world)
    queue.claim(ONE)
    clock.advance(DEAD_AFTER)
    assert queue.claim(TWO) is None
    clock.advance(1)
    again = queue.claim(TWO)
    assert again is not None
    assert (again.id, again.worker, again.claims) == (first.id, TWO, 2)
    assert events(world, first)[-1].message == "Training begins again, after its worker died (2 of 4)."


def test_a_dead_workers_job_waits_while_another_one_runs(world: InMemoryHosting, clock: ManualClock) -> None:
    queue = Queue(store=world.store, clock=clock, at_once=2)
    first, second = rl_job(world), rl_job(world)
    queue.claim(ONE)
    clock.advance(DEAD_AFTER + 1)
    with world.store.transaction() as rows:
        rows.save_job(second.claimed(TWO, clock.now()))
    assert Queue(store=world.store, clock=clock).claim(WorkerId("three")) is None
    assert [now(world, job).worker for job in (first, second)] == [ONE, TWO]


def test_a_job_whose_workers_keep_dying_fails(world: InMemoryHosting, queue: Queue, clock: ManualClock) -> None:
    first, second = rl_job(world), rl_job(world)
    for _ in range(MOST_CLAIMS):
        claimed = queue.claim(ONE)
        assert claimed is not None
        assert claimed.id == first.id
        clock.advance(DEAD_AFTER + 1)
    claimed = queue.claim(TWO)
    assert claimed is not None
    assert claimed.id == second.id
    job = now(world, first)
    assert (job.status, job.reason) == (JobStatus.FAILED, "its worker died 4 times")


def test_a_job_that_was_to_stop_when_its_worker_died_is_cancelled(
    world: InMemoryHosting, queue: Queue, clock: ManualClock
) -> None:
    job = rl_job(world)
    queue.claim(ONE)
    world.hosting.jobs.cancel(WE, job.id)
    clock.advance(DEAD_AFTER + 1)
    assert queue.claim(TWO) is None
    assert now(world, job).status is JobStatus.CANCELLED


# A worker


def worker_for(queue: Queue, trainer: Trainer, *, id: WorkerId = ONE) -> Worker:
    return Worker(id=id, queue=queue, trainer=trainer)


def drained(worker: Worker) -> None:
    while worker.step() is not Activity.IDLE:
        pass


def test_a_worker_drains_the_queue(world: InMemoryHosting, queue: Queue) -> None:
    first, second = rl_job(world), rl_job(world)
    worker = worker_for(queue, Scripted(one_step))
    assert not worker.has_a_job
    drained(worker)
    assert not worker.has_a_job
    assert [now(world, job).status for job in (first, second)] == [JobStatus.SUCCEEDED] * 2
    assert now(world, first).fine_tuned_model == f"rl:m:{first.id}"


def test_a_trainer_is_given_the_job_and_its_files(world: InMemoryHosting, queue: Queue) -> None:
    files = [
        world.hosting.files.upload(WE, [content], lambda: Label(filename="a", purpose="fine-tune"))
        for content in (b"train", b"validate")
    ]
    body = {"model": "m", "training_file": files[0].id, "validation_file": files[1].id}
    job = world.hosting.jobs.create(WE, Kind.SFT, msgspec.json.encode(body), route="sft/jobs", key=None)
    world.hosting.jobs.start(WE, job.id)
    trainer = Scripted(one_step)
    drained(worker_for(queue, trainer))
    [task] = trainer.tasks
    assert (task.job.id, task.training, task.validation) == (job.id, *files)
    assert [event.type for event in events(world, job)] == [
        "sft.created",
        "sft.training.started",
        "sft.progress",
        "sft.job.completed",
    ]


def test_steps_and_notes_are_written_down(world: InMemoryHosting, queue: Queue, clock: ManualClock) -> None:
    def act() -> Generator[Happening, None, None]:
        yield STEP
        clock.advance(1)
        yield Step(step=2, total=2, points={"train.loss": 0.25}, message="Nearly there.")
        yield Note(type="eval.summary", message="Evaluated.", level="warning", data={"n": 3})

    job = rl_job(world)
    drained(worker_for(queue, Scripted(act)))
    step, second, note = events(world, job)[2:5]
    assert (step.type, step.message) == ("rl.train.step", "Step 1 of 2.")
    assert step.data == {"step": 1, "total_steps": 2, "train.loss": 0.5, "val.loss": 0.75}
    assert second.message == "Nearly there."
    assert (note.type, note.message, note.level, note.data) == ("rl.eval.summary", "Evaluated.", "warning", {"n": 3})
    with world.store.transaction() as rows:
        points = rows.points(job.id, after_step=0, limit=99)
    assert [(point.step, point.name, point.value, point.created_at) for point in points] == [
        (1, "train.loss", 0.5, 1_700_000_000.0),
        (1, "val.loss", 0.75, 1_700_000_000.0),
        (2, "train.loss", 0.25, 1_700_000_001.0),
    ]


def test_a_quiet_trainer_is_known_to_be_alive(world: InMemoryHosting, queue: Queue, clock: ManualClock) -> None:
    job = rl_job(world)
    worker = worker_for(queue, Scripted(for_ever))
    assert worker.step() is Activity.BUSY
    assert worker.has_a_job
    for _ in range(20):
        clock.advance(DEAD_AFTER / 2)
        assert worker.step() is Activity.WAITING
        assert queue.claim(TWO) is None
    times = [event.created_at for event in events(world, job)]
    assert events(world, job)[-1].type == "rl.heartbeat"
    assert len(times) == 2 + 20


def test_a_trainer_that_was_just_heard_of_needs_no_heartbeat(
    world: InMemoryHosting, queue: Queue, clock: ManualClock
) -> None:
    job = rl_job(world)
    worker = worker_for(queue, Scripted(for_ever))
    worker.step()
    clock.advance(QUIET - 1)
    worker.step()
    assert len(events(world, job)) == 2
    assert now(world, job).beat_at == clock.now()


def test_training_that_fails_says_why(world: InMemoryHosting, queue: Queue) -> None:
    def act() -> Generator[Happening, None, None]:
        yield STEP
        raise TrainingFailed("no rollout succeeded")

    job = rl_job(world)
    drained(worker_for(queue, Scripted(act)))
    job = now(world, job)
    assert (job.status, job.reason, job.fine_tuned_model) == (JobStatus.FAILED, "no rollout succeeded", None)
    assert (events(world, job)[-1].type, events(world, job)[-1].level) == ("rl.job.failed", "error")


def test_a_bug_in_the_trainer_fails_its_job_and_tells_nothing_that_it_knew(
    world: InMemoryHosting, queue: Queue
) -> None:
    def act() -> Generator[Happening, None, None]:
        yield STEP
        raise KeyError("sk-secret")

    broken, after = rl_job(world), rl_job(world)
    drained(worker_for(queue, Scripted(act)))
    assert now(world, broken).reason == "the trainer broke (KeyError)"
    assert now(world, after).status is JobStatus.FAILED


def test_a_worker_heeds_a_request_to_stop(world: InMemoryHosting, queue: Queue) -> None:
    job = rl_job(world)
    trainer = Scripted(for_ever)
    worker = worker_for(queue, trainer)
    worker.step()
    worker.step()
    world.hosting.jobs.cancel(WE, job.id)
    assert worker.step() is Activity.BUSY
    assert trainer.stopped
    assert (now(world, job).status, now(world, job).reason) == (JobStatus.CANCELLED, "cancelled while it ran")
    assert worker.step() is Activity.IDLE


def test_what_breaks_while_stopping_does_not_matter(world: InMemoryHosting, queue: Queue) -> None:
    def act() -> Generator[Happening, None, None]:
        try:
            yield from for_ever()
        finally:
            raise OSError("cannot clean up")

    job = rl_job(world)
    worker = worker_for(queue, Scripted(act))
    worker.step()
    world.hosting.jobs.cancel(WE, job.id)
    drained(worker)
    assert now(world, job).status is JobStatus.CANCELLED


@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.FAILED])
def test_a_job_that_ends_before_it_hears_the_request_has_ended(
    world: InMemoryHosting, queue: Queue, status: JobStatus
) -> None:
    def act() -> Generator[Happening, None, None]:
        yield Tick()
        if status is JobStatus.FAILED:
            raise TrainingFailed("by itself")

    job = rl_job(world)
    worker = worker_for(queue, Scripted(act))
    worker.step()
    worker.step()
    world.hosting.jobs.cancel(WE, job.id)
    drained(worker)
    assert now(world, job).status is status


def test_a_worker_that_was_taken_for_dead_lets_go(world: InMemoryHosting, queue: Queue, clock: ManualClock) -> None:
    job = rl_job(world)
    trainer = Scripted(for_ever)
    slow = worker_for(queue, trainer)
    slow.step()
    clock.advance(DEAD_AFTER + 1)
    quick = worker_for(queue, Scripted(one_step), id=TWO)
    quick.step()
    before = now(world, job)
    assert slow.step() is Activity.BUSY
    assert not slow.has_a_job
    assert now(world, job) == before
    drained(quick)
    assert now(world, job).status is JobStatus.SUCCEEDED


def test_a_worker_that_was_taken_for_dead_does_not_end_the_job(
    world: InMemoryHosting, queue: Queue, clock: ManualClock
) -> None:
    def act() -> Generator[Happening, None, None]:
        yield Tick()

    job = rl_job(world)
    slow = worker_for(queue, Scripted(act))
    slow.step()
    slow.step()
    clock.advance(DEAD_AFTER + 1)
    queue.claim(ONE)
    assert slow.step() is Activity.BUSY
    assert (now(world, job).status, now(world, job).claims) == (JobStatus.RUNNING, 2)
