"""PatiencePort by tenacity, with every second taken from ClockPort."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import tenacity
from tenacity import RetryCallState, wait_random_exponential

from synth_train.domain.model.errors import BackendBusy
from synth_train.ports.clock import ClockPort
from synth_train.ports.patience import PatiencePort, RetryPolicy

T = TypeVar("T")

_TOO_LATE = object()


class TenacityPatience(PatiencePort):
    """Waits on `clock`, so that with a `ManualClock` it takes no time at all."""

    def __init__(self, clock: ClockPort) -> None:
        self._clock = clock

    def retrying(
        self,
        call: Callable[[], T],
        *,
        policy: RetryPolicy,
        again: Callable[[Exception], bool],
        waiting: Callable[[Exception, float], None],
    ) -> T:
        began = self._clock.monotonic()
        jitter = wait_random_exponential(multiplier=policy.first_wait, max=policy.longest_wait)

        def left() -> float:
            return float("inf") if policy.total is None else began + policy.total - self._clock.monotonic()

        def wait(state: RetryCallState) -> float:
            asked_for = _asked_for(state)
            return min(jitter(state), left()) if asked_for is None else asked_for

        def stop(state: RetryCallState) -> bool:
            asked_for = _asked_for(state) or 0.0
            return (
                state.attempt_number >= policy.attempts
                or left() <= 0
                or asked_for > policy.longest_retry_after
                or asked_for >= left()
            )

        return tenacity.Retrying(
            sleep=self._clock.sleep,
            wait=wait,
            stop=stop,
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
            before_sleep=lambda state: waiting(_error_of(state), state.upcoming_sleep),
            reraise=True,
        )(call)

    def until(
        self,
        ask: Callable[[], T],
        *,
        done: Callable[[T], bool],
        interval: Callable[[T], float],
        deadline: float,
    ) -> T | None:
        asked = False

        def ask_in_time() -> T | object:
            nonlocal asked
            if asked and self._clock.monotonic() >= deadline:
                return _TOO_LATE
            asked = True
            return ask()

        def wait(state: RetryCallState) -> float:
            answer = cast("T", state.outcome.result() if state.outcome else None)
            return max(0.0, min(interval(answer), deadline - self._clock.monotonic()))

        answer = tenacity.Retrying(
            sleep=self._clock.sleep,
            wait=wait,
            stop=tenacity.stop_never,
            retry=tenacity.retry_if_result(lambda answer: answer is not _TOO_LATE and not done(answer)),
        )(ask_in_time)
        return None if answer is _TOO_LATE else cast("T", answer)


def _error_of(state: RetryCallState) -> Exception:
    return cast("Exception", state.outcome.exception() if state.outcome else None)


def _asked_for(state: RetryCallState) -> float | None:
    error = _error_of(state)
    return error.retry_after if isinstance(error, BackendBusy) else None
