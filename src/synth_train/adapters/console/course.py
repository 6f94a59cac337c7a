"""What happens to jobs, as lines."""

from __future__ import annotations

from collections.abc import Mapping

from synth_train.domain.model.events import Event
from synth_train.domain.model.jobs import JobId
from synth_train.domain.model.moments import EventSeen, PointsSeen

_STEP = ("step", "current_step")
_TOTAL = ("total_steps", "max_steps")
"""Where an event's data has the step it tells of, and how many there are (wire-contract §4.2)."""

_NOT_SAID = (".heartbeat", ".completed", ".failed", ".cancelled", ".canceled")
"""Ends of the types that say no more than the status does."""


def event_text(event: Event) -> str:
    """What an event says, with the numbers that it brings."""
    numbers = {name: value for name, value in event.data.items() if isinstance(value, (int, float))}
    return f"{event.message}{_values({k: v for k, v in numbers.items() if k not in (*_STEP, *_TOTAL)})}"


def step_of(event: Event) -> tuple[int | None, int | None]:
    """The step that an event tells of, and how many there are; None for what it does not say."""
    return _first(event, _STEP), _first(event, _TOTAL)


class Course:
    """Makes a line of each event and of the metrics of each step, but none of what another line has said."""

    def __init__(self) -> None:
        self._totals: dict[JobId, int] = {}
        self._said: dict[JobId, dict[int, Mapping[str, object]]] = {}

    def of_event(self, moment: EventSeen) -> str:
        """The line; empty when there is nothing to say that the status does not."""
        event = moment.event
        step, total = step_of(event)
        if total is not None:
            self._totals[moment.job_id] = total
        if step is not None:
            self._said.setdefault(moment.job_id, {})[step] = event.data
        return "" if event.level == "info" and event.type.endswith(_NOT_SAID) else event_text(event)

    def of_points(self, moment: PointsSeen) -> str:
        """The line; empty when the event of that step has given the same numbers."""
        said = self._said.get(moment.job_id, {})
        values = {k: v for k, v in moment.values.items() if said.get(moment.step, {}).get(k) != v}
        for step in [step for step in said if step <= moment.step]:
            del said[step]
        if not values:
            return ""
        total = self._totals.get(moment.job_id)
        return f"Step {moment.step}{f' of {total}' if total else ''}.{_values(values)}"


def _values(numbers: Mapping[str, float]) -> str:
    # A count is written whole: 1018368 parameters, not 1.0184e+06.
    return "".join(
        f" {name}={f'{value:d}' if isinstance(value, int) else f'{value:.5g}'}" for name, value in numbers.items()
    )


def _first(event: Event, names: tuple[str, ...]) -> int | None:
    return next((value for name in names if isinstance(value := event.data.get(name), int)), None)
