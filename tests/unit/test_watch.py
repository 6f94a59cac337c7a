"""Watching a job: over the in-memory backend, on a clock that moves only when somebody waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth_train.adapters.in_memory.backend import InMemoryBackend
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnreachable,
    GaveUpWaiting,
    KeyRefused,
    NotKnown,
    UnexpectedReply,
)
from synth_train.domain.model.jobs import IdempotencyKey, JobId, JobState, Kind, Phase
from synth_train.domain.model.moments import JobEnded, Moment, PollFailed, PollingBegun, StatusSeen
from synth_train.domain.model.submission import Stage, Submission
from synth_train.domain.usecases.watch import WatchJob

RL_BODY = (
    b'{"job_type":"rl","data":{"endpoint_base_url":"https://app.example","config":{},"base_model":"Qwen/Qwen3-4B"}}'
)


class Watching:
    """One job on an in-memory backend, and somebody who watches it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = InMemoryBackend(clock=self.clock)
        self.progress = RecordedProgress()
        self.journal = InMemoryJournal()
        self.job_id = self.backend.create(Kind.RL, RL_BODY, IdempotencyKey("K")).job_id

    def __call__(self, *, interval: float = 5.0, timeout: float = 3600.0, job_id: JobId | None = None) -> JobState:
        watch = WatchJob(
            backend=self.backend,
            journal=self.journal,
            patience=TenacityPatience(self.clock),
            clock=self.clock,
            progress=self.progress,
            env_files=(Path("/repo/.env"),),
        )
        return watch(Kind.RL, job_id or self.job_id, interval=interval, timeout=timeout)

    @property
    def seen(self) -> list[tuple[float, str]]:
        return [(moment.elapsed, moment.word) for moment in self.progress.of(StatusSeen)]


@pytest.fixture
def watch() -> Watching:
    return Watching()


def test_each_change_of_status_is_told_once_with_the_time_since_the_watch_began(watch: Watching) -> None:
    state = watch()
    assert state.phase is Phase.SUCCEEDED
    assert watch.seen == [(0.0, "queued"), (10.0, "running"), (30.0, "succeeded")]


def test_the_beginning_and_the_end_are_told(watch: Watching) -> None:
    watch(interval=5, timeout=3600)
    assert watch.progress.of(PollingBegun) == [PollingBegun(job_id=watch.job_id, interval=5, timeout=3600)]
    (end,) = watch.progress.of(JobEnded)
    assert (end.job_id, end.word, end.phase) == (watch.job_id, "succeeded", Phase.SUCCEEDED)
    assert end.fine_tuned_model


def test_a_job_that_fails_is_an_end_with_its_reason_and_no_error_of_the_watch(watch: Watching) -> None:
    watch.backend.world.trainer.failure = "CUDA out of memory"
    state = watch()
    assert state.phase is Phase.FAILED
    assert watch.progress.of(JobEnded)[0].reason == "CUDA out of memory"


@pytest.mark.parametrize(
    "blip",
    [
        BackendBusy("HTTP 502", status=502),
        BackendUnreachable("the connection was cut"),
        UnexpectedReply("a page"),
        BackendRefused("HTTP 422", status=422),
        BackendBusy("HTTP 429", status=429, retry_after=1.0),
    ],
)
def test_a_failed_poll_is_told_and_the_watch_goes_on(watch: Watching, blip: BackendError) -> None:
    watch.backend.fail_next("job", blip, times=2)
    assert watch().phase is Phase.SUCCEEDED
    assert [moment.error for moment in watch.progress.of(PollFailed)] == [str(blip)] * 2


def test_a_server_that_asks_for_time_is_given_it(watch: Watching) -> None:
    watch.backend.fail_next("job", BackendBusy("busy", status=429, retry_after=17.0))
    watch(interval=5)
    assert watch.clock.slept[0] == 17.0


@pytest.mark.parametrize("asked_for", [2.0, 600.0])
def test_a_wait_that_is_shorter_than_the_interval_or_too_long_changes_nothing(
    watch: Watching, asked_for: float
) -> None:
    watch.backend.fail_next("job", BackendBusy("busy", status=429, retry_after=asked_for))
    watch(interval=5)
    assert watch.clock.slept[0] == 5.0


def test_a_key_that_is_refused_ends_the_watch(watch: Watching) -> None:
    watch.backend.fail_next("job", KeyRefused("HTTP 401"))
    with pytest.raises(KeyRefused):
        watch()


@pytest.mark.parametrize("status", [400, 410])
def test_a_refusal_ends_the_watch(watch: Watching, status: int) -> None:
    error = NotKnown("gone", status=status) if status == 410 else BackendRefused("no", status=status)
    watch.backend.fail_next("job", error)
    with pytest.raises(BackendRefused) as caught:
        watch()
    assert caught.value is error


def test_a_job_that_is_not_visible_yet_is_waited_for(watch: Watching) -> None:
    watch.backend.fail_next("job", NotKnown("no such job", status=404), times=5)
    assert watch(interval=5).phase is Phase.SUCCEEDED


def test_a_job_that_is_not_visible_after_half_a_minute_is_not_there(watch: Watching) -> None:
    with pytest.raises(NotKnown):
        watch(interval=5, job_id=JobId("job_of_nobody"))
    assert watch.clock.monotonic() == 30.0


def test_a_job_that_was_seen_and_is_gone_ends_the_watch_at_once(watch: Watching) -> None:
    class GoneOnceSeen(RecordedProgress):
        def tell(self, moment: Moment) -> None:
            super().tell(moment)
            if isinstance(moment, StatusSeen):
                watch.backend.fail_next("job", NotKnown("no such job", status=404))

    watch.progress = GoneOnceSeen()
    with pytest.raises(NotKnown):
        watch(interval=5)
    assert watch.clock.monotonic() == 5.0


def test_the_watch_gives_up_at_its_time_with_the_word_last_seen_and_a_way_to_watch_again(watch: Watching) -> None:
    watch.backend.world.trainer.lasts = 1e6
    with pytest.raises(GaveUpWaiting) as caught:
        watch(interval=5, timeout=33)
    assert watch.clock.monotonic() == 33.0
    assert (str(watch.job_id) in str(caught.value), caught.value.word) == (True, "running")
    command = f"synth-ai jobs watch {watch.job_id} --type rl --backend https://backend.test --env-file /repo/.env"
    assert caught.value.hint == f"The job goes on. Watch it again with: {command}"


def test_giving_up_while_the_backend_is_down_says_what_was_heard_last(watch: Watching) -> None:
    watch.backend.fail_next("job", BackendBusy("GET /rl/jobs: HTTP 502", status=502), times=99)
    with pytest.raises(GaveUpWaiting, match="was never seen, and cannot be read now: GET /rl/jobs: HTTP 502") as caught:
        watch(interval=1, timeout=4)
    assert caught.value.word == ""


def test_giving_up_while_the_backend_is_out_of_reach_says_so(watch: Watching) -> None:
    watch.backend.fail_next("job", BackendUnreachable("no route"), times=99)
    with pytest.raises(GaveUpWaiting, match="cannot be reached now: no route"):
        watch(interval=1, timeout=4)


def test_a_failure_that_has_passed_is_not_held_against_the_backend(watch: Watching) -> None:
    watch.backend.world.trainer.lasts = 1e6
    watch.backend.fail_next("job", BackendUnreachable("no route"))
    with pytest.raises(GaveUpWaiting) as caught:
        watch(interval=1, timeout=20)
    assert "no route" not in str(caught.value)


def test_the_status_last_seen_is_kept_in_the_journal(watch: Watching) -> None:
    entry = Submission(
        id="1",
        fingerprint="f",
        backend=watch.backend.base,
        account="a",
        kind=Kind.RL,
        config="rl.toml",
        key=IdempotencyKey("K"),
        key_is_users=True,
        stage=Stage.HANDED_OVER,
        job_id=watch.job_id,
    )
    watch.journal.open(entry)
    watch()
    assert watch.journal.entries["1"].last_word == "succeeded"
