"""What every PatiencePort promises, with all its time taken from a clock that only moves when slept on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import BackendBusy, BackendRefused, BackendUnreachable
from synth_train.ports.patience import PatiencePort, RetryPolicy


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def patience(clock: ManualClock) -> PatiencePort:
    return TenacityPatience(clock)


def failing(*errors: Exception) -> tuple[Callable[[], str], list[int]]:
    """A call that raises each error in turn and then returns, and a list that grows with every call."""
    left: Iterator[Exception] = iter(errors)
    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        error = next(left, None)
        if error is not None:
            raise error
        return "done"

    return call, calls


def retry(patience: PatiencePort, call: Callable[[], str], policy: RetryPolicy | None = None) -> str:
    return patience.retrying(
        call,
        policy=policy or RetryPolicy(),
        again=lambda error: not isinstance(error, BackendRefused),
        waiting=lambda error, seconds: None,
    )


def test_a_call_that_succeeds_is_made_once_and_nobody_waits(patience: PatiencePort, clock: ManualClock) -> None:
    call, calls = failing()
    assert retry(patience, call) == "done"
    assert (len(calls), clock.slept) == (1, [])


def test_a_passing_failure_is_tried_again(patience: PatiencePort) -> None:
    call, calls = failing(BackendUnreachable("gone"), BackendBusy("busy"))
    assert retry(patience, call) == "done"
    assert len(calls) == 3


def test_an_error_that_is_not_to_be_tried_again_comes_out_at_once(patience: PatiencePort) -> None:
    refused = BackendRefused("no")
    call, calls = failing(refused)
    with pytest.raises(BackendRefused) as caught:
        retry(patience, call)
    assert caught.value is refused
    assert len(calls) == 1


def test_after_the_last_attempt_the_last_error_itself_comes_out(patience: PatiencePort) -> None:
    errors = [BackendUnreachable(f"gone {n}") for n in range(9)]
    call, calls = failing(*errors)
    with pytest.raises(BackendUnreachable) as caught:
        retry(patience, call)
    assert caught.value is errors[4]
    assert len(calls) == 5


def test_waits_stay_below_a_bound_that_doubles_up_to_eight_seconds(clock: ManualClock) -> None:
    for _ in range(50):
        clock.slept.clear()
        call, _calls = failing(*[BackendUnreachable("gone")] * 6)
        assert retry(TenacityPatience(clock), call, RetryPolicy(attempts=7, total=None)) == "done"
        assert all(slept <= bound for slept, bound in zip(clock.slept, (0.5, 1, 2, 4, 8, 8), strict=False))


def test_the_wait_that_a_server_asks_for_is_kept_exactly(patience: PatiencePort, clock: ManualClock) -> None:
    call, _ = failing(BackendBusy("busy", retry_after=7.5))
    assert retry(patience, call) == "done"
    assert clock.slept == [7.5]


@pytest.mark.parametrize("asked_for", [60.5, 3600.0])
def test_a_server_that_asks_for_more_than_a_minute_ends_the_call_at_once(
    patience: PatiencePort, clock: ManualClock, asked_for: float
) -> None:
    call, calls = failing(BackendBusy("busy", retry_after=asked_for))
    with pytest.raises(BackendBusy):
        retry(patience, call)
    assert (len(calls), clock.slept) == (1, [])


def test_a_server_that_asks_for_more_than_is_left_ends_the_call_at_once(
    patience: PatiencePort, clock: ManualClock
) -> None:
    call, calls = failing(BackendBusy("busy", retry_after=40), BackendBusy("busy", retry_after=40))
    with pytest.raises(BackendBusy):
        retry(patience, call)
    assert (len(calls), clock.slept) == (2, [40])


def test_no_attempt_begins_once_the_total_is_over(patience: PatiencePort, clock: ManualClock) -> None:
    calls = []

    def slow() -> str:
        calls.append(clock.monotonic())
        clock.advance(25)
        raise BackendUnreachable("no reply in time")

    with pytest.raises(BackendUnreachable):
        retry(patience, slow)
    assert len(calls) == 3
    assert max(calls) < 60


def test_without_a_total_only_the_attempts_count(patience: PatiencePort, clock: ManualClock) -> None:
    calls = []

    def slow() -> str:
        calls.append(clock.monotonic())
        clock.advance(1000)
        raise BackendUnreachable("cut")

    with pytest.raises(BackendUnreachable):
        retry(patience, slow, RetryPolicy(total=None))
    assert len(calls) == 5


def test_each_wait_is_told_with_its_error_before_it_is_waited(patience: PatiencePort, clock: ManualClock) -> None:
    gone, busy = BackendUnreachable("gone"), BackendBusy("busy", retry_after=2)
    call, _ = failing(gone, busy)
    told: list[tuple[Exception, float]] = []
    patience.retrying(
        call, policy=RetryPolicy(), again=lambda error: True, waiting=lambda error, wait: told.append((error, wait))
    )
    assert [error for error, _ in told] == [gone, busy]
    assert [wait for _, wait in told if wait] == clock.slept


def test_an_interrupt_is_never_tried_again(patience: PatiencePort) -> None:
    calls = []

    def interrupted() -> str:
        calls.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retry(patience, interrupted)
    assert len(calls) == 1


def test_an_answer_that_is_liked_at_once_takes_no_time(patience: PatiencePort, clock: ManualClock) -> None:
    assert patience.until(lambda: 7, done=lambda n: n == 7, interval=lambda _: 5.0, deadline=100.0) == 7
    assert clock.slept == []


def test_it_is_asked_again_after_the_interval_that_the_answer_calls_for(
    patience: PatiencePort, clock: ManualClock
) -> None:
    answers = iter([1.0, 2.0, 0.0])
    assert patience.until(lambda: next(answers), done=lambda n: not n, interval=lambda n: n, deadline=100.0) == 0.0
    assert clock.slept == [1.0, 2.0]


def test_nothing_is_asked_once_the_deadline_is_reached_and_the_last_wait_is_cut_to_it(
    patience: PatiencePort, clock: ManualClock
) -> None:
    asked_at: list[float] = []

    def ask() -> bool:
        asked_at.append(clock.monotonic())
        return False

    assert patience.until(ask, done=bool, interval=lambda _: 4.0, deadline=10.0) is None
    assert asked_at == [0.0, 4.0, 8.0]
    assert clock.monotonic() == 10.0


def test_a_deadline_that_is_over_already_still_allows_one_question(patience: PatiencePort, clock: ManualClock) -> None:
    clock.advance(5)
    assert patience.until(lambda: True, done=bool, interval=lambda _: 1.0, deadline=0.0) is True


def test_what_the_question_raises_comes_out(patience: PatiencePort) -> None:
    def ask() -> bool:
        raise BackendRefused("no")

    with pytest.raises(BackendRefused):
        patience.until(ask, done=bool, interval=lambda _: 1.0, deadline=10.0)
