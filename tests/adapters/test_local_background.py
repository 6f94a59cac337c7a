"""Work in a thread, told as a generator."""

from __future__ import annotations

import threading

import pytest

from synth_train.adapters.local.background import Say, Stop, Stopped, telling
from synth_train.domain.model.hosting import Note, Step, Tick, TrainingFailed

STEP = Step(step=1, total=1, points={})
NOTE = Note(type="a", message="b")


def test_what_is_said_comes_out_in_order_and_then_it_ends() -> None:
    def work(say: Say, stop: Stop) -> None:
        say(NOTE)
        say(STEP)

    assert list(telling(work)) == [NOTE, STEP]


def test_silence_is_filled_with_ticks() -> None:
    go_on = threading.Event()

    def work(say: Say, stop: Stop) -> None:
        go_on.wait(10)
        say(STEP)

    happenings = telling(work, tick=0.01)
    assert next(happenings) == Tick()
    assert next(happenings) == Tick()
    go_on.set()
    assert [one for one in happenings if one != Tick()] == [STEP]


def test_what_the_work_raises_comes_out_after_what_it_said() -> None:
    def work(say: Say, stop: Stop) -> None:
        say(NOTE)
        raise TrainingFailed("no luck")

    happenings = telling(work)
    assert next(happenings) == NOTE
    with pytest.raises(TrainingFailed, match="no luck"):
        next(happenings)


@pytest.mark.parametrize("waits", [True, False])
def test_closing_asks_the_work_to_stop_and_waits_until_it_has(waits: bool) -> None:
    left = threading.Event()

    def work(say: Say, stop: Stop) -> None:
        say(NOTE)
        try:
            while True:
                stop.wait(30) if waits else stop.check()
        except Stopped:
            left.set()
            raise

    happenings = telling(work)
    next(happenings)
    happenings.close()
    assert left.is_set()


def test_waiting_without_a_request_to_stop_just_takes_its_time() -> None:
    stop = Stop()
    stop.wait(0.0)
    stop.check()
    assert not stop.asked
