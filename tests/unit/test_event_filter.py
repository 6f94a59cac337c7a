"""Which events somebody wants to read."""

from __future__ import annotations

import pytest

from synth_train.domain.model.event_filter import EventFilter, since
from synth_train.domain.model.events import Event

EVENT = Event(seq=1, type="rl.train.step", message="Step 3 of 9", created_at=100.0, level="warning")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90s", 910.0),
        ("1.5 m", 910.0),
        ("1h", -2600.0),
        ("1d", -85400.0),
        ("100", 100.0),
        ("1970-01-01T00:01:40Z", 100.0),
    ],
)
def test_a_time_is_an_age_or_a_date(text: str, time: float) -> None:
    assert since(text, 1000.0) == time


@pytest.mark.parametrize("text", ["", "soon", "5w", "-1h"])
def test_other_texts_are_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is neither a time ago"):
        since(text, 1000.0)


@pytest.mark.parametrize(
    ("wanted", "admitted"),
    [
        (EventFilter(), True),
        (EventFilter(level="warning"), True),
        (EventFilter(level="error"), False),
        (EventFilter(since=100.0), True),
        (EventFilter(since=100.1), False),
        (EventFilter(search="STEP 3"), True),
        (EventFilter(search="rl.train"), True),
        (EventFilter(search="loss"), False),
    ],
)
def test_an_event_is_wanted_by_level_time_and_text(wanted: EventFilter, admitted: bool) -> None:
    assert wanted.admits(EVENT) is admitted


def test_a_level_of_its_own_is_never_left_out() -> None:
    event = Event(seq=1, type="t", message="m", created_at=0.0, level="panic")
    assert EventFilter(level="error").admits(event)
