"""Jobs as their owners see them. What every client sees of creation is in tests/contracts/test_backend.py."""

from __future__ import annotations

import msgspec
import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.events import Point
from synth_train.domain.model.hosting import Job, JobFilter, JobStatus, Owner, Refusal, WorkerId
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind
from synth_train.domain.usecases.hosting.events import QUIET
from synth_train.domain.usecases.hosting.files import Label
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.service import Hosting
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.ports.hosting import Executor

WE, THEY = Owner("we"), Owner("they")
RL = b'{"data": {"model": "m", "endpoint_base_url": "http://task"}}'


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(clock: ManualClock) -> InMemoryHosting:
    return InMemoryHosting(clock=clock)


@pytest.fixture
def hosting(world: InMemoryHosting) -> Hosting:
    return world.hosting


@pytest.fixture
def jobs(hosting: Hosting) -> Jobs:
    return hosting.jobs


def rl_job(jobs: Jobs, *, owner: Owner = WE, key: str | None = None) -> Job:
    return jobs.create(owner, Kind.RL, RL, route="rl/jobs", key=None if key is None else IdempotencyKey(key))


def sft_job(hosting: Hosting) -> Job:
    file = hosting.files.upload(WE, [b"row\n"], lambda: Label(filename="a", purpose="fine-tune"))
    body = msgspec.json.encode({"model": "m", "training_file_id": file.id})
    return hosting.jobs.create(WE, Kind.SFT, body, route="learning/jobs", key=None)


def running(world: InMemoryHosting, clock: ManualClock) -> Job:
    job = rl_job(world.hosting.jobs)
    clock.advance(world.executor.delay)
    job = world.hosting.jobs.show(WE, job.id)
    assert job.status is JobStatus.RUNNING
    return job


def words(jobs: Jobs, job: Job) -> list[str]:
    return [event.type for event in jobs.events(WE, job.id)]


def test_without_a_key_every_request_is_a_new_job(jobs: Jobs) -> None:
    assert rl_job(jobs).id != rl_job(jobs).id


def test_a_key_counts_on_its_own_route(jobs: Jobs) -> None:
    one = jobs.create(WE, Kind.RL, RL, route="rl/jobs", key=IdempotencyKey("K"))
    assert jobs.create(WE, Kind.RL, RL, route="elsewhere", key=IdempotencyKey("K")) != one


def test_a_key_belongs_to_the_body_it_came_with(jobs: Jobs) -> None:
    first = rl_job(jobs, key="K")
    with pytest.raises(Refusal, match=f"K belongs to job {first.id}") as caught:
        jobs.create(WE, Kind.RL, RL + b" ", route="rl/jobs", key=IdempotencyKey("K"))
    assert (caught.value.status, caught.value.code) == (409, "idempotency_conflict")


def test_a_file_that_is_not_there_is_named(jobs: Jobs) -> None:
    body = b'{"model": "m", "training_file_id": "file_0"}'
    with pytest.raises(Refusal, match="no file file_0") as caught:
        jobs.create(WE, Kind.SFT, body, route="learning/jobs", key=None)
    assert (caught.value.status, caught.value.code) == (422, "unknown_file")


def test_a_replay_is_the_first_answer_whatever_has_become_of_the_job(jobs: Jobs) -> None:
    first = rl_job(jobs, key="K")
    jobs.cancel(WE, first.id)
    assert rl_job(jobs, key="K") == first
    assert jobs.show(WE, first.id).status is JobStatus.CANCELLED


def test_an_event_is_there_from_the_first_moment(jobs: Jobs) -> None:
    [event] = jobs.events(WE, rl_job(jobs).id)
    assert (event.seq, event.type, event.level) == (1, "rl.created", "info")


def test_a_file_that_was_rejected_is_named_with_its_reason(world: InMemoryHosting) -> None:
    world.inspector.complaint = "line 3 is no JSON"
    with pytest.raises(Refusal, match="is rejected: line 3 is no JSON"):
        sft_job(world.hosting)


def test_a_waiting_job_is_cancelled_at_once(jobs: Jobs) -> None:
    job = jobs.cancel(WE, rl_job(jobs).id)
    assert (job.status, job.reason) == (JobStatus.CANCELLED, "cancelled before it ran")
    assert words(jobs, job) == ["rl.created", "rl.job.cancelled"]


def test_a_running_job_is_asked_and_then_gone(world: InMemoryHosting, clock: ManualClock, jobs: Jobs) -> None:
    job = jobs.cancel(WE, running(world, clock).id)
    assert job.status is JobStatus.CANCELLING
    job = jobs.show(WE, job.id)
    assert (job.status, job.reason) == (JobStatus.CANCELLED, "cancelled while it ran")
    assert words(jobs, job)[-2:] == ["rl.cancelling", "rl.job.cancelled"]


def test_cancelling_again_changes_nothing(world: InMemoryHosting, clock: ManualClock, jobs: Jobs) -> None:
    job = running(world, clock)
    jobs.cancel(WE, job.id)
    over = jobs.show(WE, job.id)
    assert jobs.cancel(WE, job.id) == over


def test_a_cancelled_job_cannot_be_started(hosting: Hosting) -> None:
    job = sft_job(hosting)
    cancelled = hosting.jobs.cancel(WE, job.id)
    assert hosting.jobs.start(WE, job.id) == cancelled


def test_a_worker_that_does_not_heed_is_killed_after_the_grace(world: InMemoryHosting, clock: ManualClock) -> None:
    class Deaf(Executor):
        def __init__(self) -> None:
            self.killed: list[WorkerId] = []

        def wake(self) -> None:
            pass

        def kill(self, worker: WorkerId) -> None:
            self.killed.append(worker)

    executor = Deaf()
    jobs = Jobs(store=world.store, executor=executor, clock=clock, entropy=world.hosting.jobs.entropy)
    job = rl_job(jobs)
    Queue(store=world.store, clock=clock).claim(WorkerId("w"))
    jobs.cancel(WE, job.id)
    clock.advance(jobs.cancel_grace)
    assert jobs.show(WE, job.id).status is JobStatus.CANCELLING
    assert executor.killed == []
    clock.advance(1)
    job = jobs.show(WE, job.id)
    assert (job.status, job.reason) == (JobStatus.CANCELLED, "killed: it did not stop when asked")
    assert executor.killed == ["w"]
    jobs.show(WE, job.id)
    assert executor.killed == ["w"]


def test_events_and_points_can_be_followed(world: InMemoryHosting, clock: ManualClock, jobs: Jobs) -> None:
    job = running(world, clock)
    for _ in range(5):
        clock.advance(5)
        jobs.show(WE, job.id)
    events = jobs.events(WE, job.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert words(jobs, job) == ["rl.created", "rl.train.started", *["rl.train.step"] * 4, "rl.job.completed"]
    assert events[-1].data == {"fine_tuned_model": f"rl:m:{job.id}"}
    assert jobs.events(WE, job.id, since=2, limit=1) == events[2:3]
    points = jobs.points(WE, job.id)
    assert [(point.name, point.step) for point in points] == [("train.reward_mean", step) for step in (1, 2, 3, 4)]
    assert jobs.points(WE, job.id, after_step=3) == points[3:]
    assert jobs.points(WE, job.id, limit=1) == points[:1]
    assert jobs.points(WE, job.id, name="train.loss") == []


def test_jobs_are_listed_as_they_stand(world: InMemoryHosting, clock: ManualClock, jobs: Jobs) -> None:
    job = rl_job(jobs)
    clock.advance(world.executor.delay)
    assert [listed.status for listed in jobs.listed(WE, JobFilter())] == [JobStatus.RUNNING]
    assert jobs.listed(THEY, JobFilter()) == []
    assert [listed.id for listed in jobs.listed(WE, JobFilter(status="running"))] == [job.id]


def test_nobody_gets_at_the_jobs_of_others(jobs: Jobs) -> None:
    job_id = rl_job(jobs).id
    for call in (jobs.show, jobs.start, jobs.cancel, jobs.events, jobs.points):
        for owner, asked in ((THEY, job_id), (WE, JobId("job_0"))):
            with pytest.raises(Refusal) as caught:
                call(owner, asked)
            assert (caught.value.status, caught.value.code) == (404, "unknown_job")


def test_an_sft_job_that_cannot_be_started_begins_by_itself(hosting: Hosting) -> None:
    file = hosting.files.upload(WE, [b"row\n"], lambda: Label(filename="a", purpose="fine-tune"))
    body = msgspec.json.encode({"model": "m", "training_file": file.id})
    assert hosting.jobs.create(WE, Kind.SFT, body, route="sft/jobs", key=None, begins=True).started


def test_a_job_that_waits_for_its_turn_is_heard_of_by_those_who_look(
    world: InMemoryHosting, clock: ManualClock, jobs: Jobs
) -> None:
    world.executor.delay = float("inf")
    job = rl_job(jobs)
    clock.advance(QUIET - 1)
    assert words(jobs, job) == ["rl.created"]
    clock.advance(1)
    assert words(jobs, job) == words(jobs, job) == ["rl.created", "rl.heartbeat"]
    clock.advance(QUIET)
    assert words(jobs, job) == ["rl.created", "rl.heartbeat", "rl.heartbeat"]


def test_a_job_that_nobody_has_started_has_nothing_to_say(hosting: Hosting, clock: ManualClock) -> None:
    job = sft_job(hosting)
    clock.advance(QUIET)
    assert words(hosting.jobs, job) == ["sft.created"]


def with_points(world: InMemoryHosting, job: Job, steps: int) -> None:
    with world.store.transaction() as rows:
        rows.save_points(
            job.id,
            [
                Point(name=name, step=step, value=step % 7, created_at=0)
                for step in range(1, steps + 1)
                for name in "ab"
            ],
        )


def test_a_long_curve_is_given_in_as_many_stretches_as_are_asked_for(
    world: InMemoryHosting, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synth_train.domain.usecases.hosting.jobs.AT_A_TIME", 30)
    job = rl_job(jobs)
    with_points(world, job, 200)
    told = jobs.thinned_points(WE, job.id, buckets=10, name="a")
    assert told.stretch == 20
    assert [(point.step, point.value) for point in told.points][:5] == [(1, 1), (6, 6), (7, 0), (20, 6), (21, 0)]
    assert {point.name for point in told.points} == {"a"}
    assert told.points[-1].step == 200
    assert len(told.points) < 25


def test_what_is_new_of_a_curve_is_given_whole(world: InMemoryHosting, jobs: Jobs) -> None:
    job = rl_job(jobs)
    with_points(world, job, 200)
    told = jobs.thinned_points(WE, job.id, buckets=10, after_step=190)
    assert told.stretch == 1
    assert [(point.step, point.name) for point in told.points] == [
        (step, name) for step in range(191, 201) for name in "ab"
    ]
    assert jobs.thinned_points(WE, job.id, buckets=10, after_step=900).points == ()


def test_the_curves_of_another_owners_job_are_not_given(jobs: Jobs) -> None:
    job = rl_job(jobs)
    with pytest.raises(Refusal, match=f"no job {job.id}"):
        jobs.thinned_points(THEY, job.id, buckets=10)
