"""Events and points while a job is watched: each once, in order, whatever happens to the connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from synth_train.adapters.in_memory.backend import InMemoryBackend
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendRefused,
    BackendUnreachable,
    GaveUpWaiting,
    KeyRefused,
    NotKnown,
    NotOffered,
    TrainingError,
    UnexpectedReply,
)
from synth_train.domain.model.events import Point
from synth_train.domain.model.jobs import IdempotencyKey, JobId, JobState, Kind, Phase
from synth_train.domain.model.moments import (
    EventSeen,
    JobEnded,
    Noted,
    PointsSeen,
    PollingBegun,
    SeveralWatched,
    StatusSeen,
    WatchFailed,
)
from synth_train.domain.usecases import feeds
from synth_train.domain.usecases.watch import FEED_POLICY, WatchJob

RL = b'{"job_type":"rl","data":{"base_model":"Qwen/Qwen3-4B","endpoint_base_url":"https://t.example","config":{}}}'


class Desk:
    """Somebody who watches jobs of a backend in memory. A job waits 10 s, and runs 20 s in four steps."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = InMemoryBackend(clock=self.clock)
        self.progress = RecordedProgress()
        self._count = 0

    def job(self) -> JobId:
        self._count += 1
        return self.backend.create(Kind.RL, RL, IdempotencyKey(f"K-{self._count}")).job_id

    @property
    def usecase(self) -> WatchJob:
        return WatchJob(
            backend=self.backend,
            feed=self.backend,
            journal=InMemoryJournal(),
            patience=TenacityPatience(self.clock),
            clock=self.clock,
            progress=self.progress,
        )

    def watch(self, *, timeout: float = 600.0) -> JobState:
        return self.usecase(Kind.RL, self.job(), interval=5.0, timeout=timeout)

    def several(self, *jobs: JobId, timeout: float = 600.0) -> tuple[JobState | TrainingError, ...]:
        return self.usecase.several([(Kind.RL, job) for job in jobs], interval=5.0, timeout=timeout)

    @property
    def seqs(self) -> list[int]:
        return [moment.event.seq for moment in self.progress.of(EventSeen)]

    @property
    def steps(self) -> list[int]:
        return [moment.step for moment in self.progress.of(PointsSeen)]

    @property
    def warnings(self) -> list[str]:
        return [moment.text for moment in self.progress.of(Noted) if moment.warning]


@pytest.fixture
def desk() -> Desk:
    return Desk()


ALL_STEPS = [1, 2, 3, 4]


def test_every_event_and_every_step_is_told_once_and_in_order(desk: Desk) -> None:
    assert desk.watch().phase is Phase.SUCCEEDED
    assert desk.seqs == list(range(1, len(desk.seqs) + 1))
    assert desk.progress.of(EventSeen)[-1].event.type == "rl.job.completed"
    assert desk.steps == ALL_STEPS
    last = desk.progress.of(PointsSeen)[-1]
    assert last.values["train.reward_mean"] == pytest.approx(0.9)
    assert last.created_at > 0


def test_things_are_told_while_they_happen_and_the_last_word_is_the_status(desk: Desk) -> None:
    desk.watch()
    told = [m for m in desk.progress.moments if isinstance(m, (EventSeen, PointsSeen, StatusSeen, JobEnded))]
    words = [at for at, moment in enumerate(told) if isinstance(moment, StatusSeen)]
    assert words[1] < next(at for at, moment in enumerate(told) if isinstance(moment, PointsSeen)) < words[-1]
    assert [type(moment) for moment in told[-2:]] == [StatusSeen, JobEnded]


@pytest.mark.parametrize("call", ["events", "points"])
@pytest.mark.parametrize("error", [BackendBusy("502", status=502), BackendUnreachable("cut")])
@pytest.mark.parametrize("after_effect", [True, False])
def test_a_lost_reply_loses_nothing_and_doubles_nothing(
    desk: Desk, call: str, error: Exception, after_effect: bool
) -> None:
    desk.backend.fail_next(call, error, times=3, after_effect=after_effect)
    desk.watch()
    assert desk.seqs == list(range(1, len(desk.seqs) + 1))
    assert desk.steps == ALL_STEPS
    assert desk.warnings == []


def test_a_long_story_is_read_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PAGE", 2)
    desk.watch()
    assert desk.seqs == list(range(1, len(desk.seqs) + 1))
    assert desk.steps == ALL_STEPS


def test_the_rest_is_read_to_its_end_even_where_a_backend_gives_less_than_it_is_asked_for(desk: Desk) -> None:
    class Stingy(InMemoryBackend):
        def points(self, kind: Kind, job_id: JobId, *, after_step: int = 0, limit: int = 200) -> Sequence[Point]:
            return super().points(kind, job_id, after_step=after_step, limit=1)

    desk.backend = Stingy(clock=desk.clock)
    desk.backend.world.trainer.lasts = 1.0
    desk.watch()
    assert desk.steps == ALL_STEPS


@pytest.mark.parametrize(
    "error",
    [
        NotOffered("no such route", status=404),
        KeyRefused("not for you"),
        UnexpectedReply("a page"),
        BackendRefused("limit: too high", status=422),
    ],
)
@pytest.mark.parametrize("call", ["events", "points"])
def test_a_feed_that_is_not_to_be_had_is_asked_for_once_and_the_other_goes_on(
    desk: Desk, call: str, error: Exception
) -> None:
    desk.backend.fail_next(call, error, times=99)
    assert desk.watch().phase is Phase.SUCCEEDED
    assert len(desk.backend.called(call)) == 1
    assert (desk.seqs == [], desk.steps == []) == (call == "events", call == "points")
    assert desk.warnings == []


def test_a_feed_that_does_not_know_the_job_yet_is_asked_again(desk: Desk) -> None:
    desk.backend.fail_next("events", NotKnown("no such job", status=404), times=3)
    desk.watch()
    assert desk.seqs == list(range(1, len(desk.seqs) + 1))


def test_a_feed_that_knows_the_job_never_does_not_hold_up_its_end(desk: Desk) -> None:
    desk.backend.fail_next("events", NotKnown("no such job", status=404), times=99)
    desk.watch()
    assert (desk.seqs, desk.warnings, desk.clock.monotonic()) == ([], [], 30.0)


def test_what_cannot_be_read_at_the_end_is_said_to_be_missing(desk: Desk) -> None:
    desk.backend.fail_next("points", BackendUnreachable("cut"), times=99)
    assert desk.watch().phase is Phase.SUCCEEDED
    [warning] = desk.warnings
    assert warning == "what happened last to job job_000000000000000000000001 could not be read: cut"
    assert desk.clock.monotonic() <= 30.0 + (FEED_POLICY.total or 0.0)


@pytest.mark.parametrize(("asked_for", "waits"), [(17.0, 17.0), (2.0, 5.0), (600.0, 5.0), (None, 5.0)])
def test_a_feed_that_asks_for_time_is_given_it(desk: Desk, asked_for: float | None, waits: float) -> None:
    desk.backend.fail_next("events", BackendBusy("busy", status=429, retry_after=asked_for))
    desk.watch()
    assert desk.clock.slept[0] == waits


# Several at once


def test_several_jobs_are_watched_in_turn_to_their_ends(desk: Desk) -> None:
    jobs = [desk.job() for _ in range(3)]
    states = desk.several(*jobs)
    assert [state.phase for state in states if isinstance(state, JobState)] == [Phase.SUCCEEDED] * 3
    assert desk.progress.of(SeveralWatched) == [SeveralWatched(job_ids=tuple(jobs), interval=5.0, timeout=600.0)]
    assert desk.progress.of(PollingBegun) == []
    assert [moment.job_id for moment in desk.progress.of(JobEnded)] == jobs
    for job in jobs:
        assert [moment.step for moment in desk.progress.of(PointsSeen) if moment.job_id == job] == ALL_STEPS


def test_one_that_cannot_be_watched_does_not_stop_the_others(desk: Desk) -> None:
    job = desk.job()
    desk.backend.fail_next("job", KeyRefused("no"))
    refused, state = desk.several(JobId("job_x"), job)
    assert isinstance(refused, KeyRefused)
    assert isinstance(state, JobState)
    assert desk.progress.of(WatchFailed) == [WatchFailed(job_id=JobId("job_x"), error=refused)]


def test_the_time_is_over_for_all_of_them_at_once(desk: Desk) -> None:
    first, second, third = desk.job(), desk.job(), desk.job()
    outcomes = desk.several(first, second, third, timeout=42.0)
    assert [type(outcome) for outcome in outcomes] == [JobState, GaveUpWaiting, GaveUpWaiting]
    assert desk.clock.monotonic() == 42.0
    assert [moment.job_id for moment in desk.progress.of(WatchFailed)] == [second, third]


def test_no_job_is_asked_for_after_the_deadline_because_others_took_long(desk: Desk) -> None:
    class Slow(InMemoryBackend):
        def job(self, kind: Kind, job_id: JobId) -> JobState:
            desk.clock.advance(4.0)
            return super().job(kind, job_id)

    desk.backend = Slow(clock=desk.clock)
    jobs = [desk.job() for _ in range(3)]
    outcomes: Any = desk.several(*jobs, timeout=6.0)
    assert [str(outcome).rpartition("was ")[2] for outcome in outcomes] == [
        "last seen 'queued'", "last seen 'queued'", "never seen",
    ]  # fmt: skip
