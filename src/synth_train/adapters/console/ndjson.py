"""What happens to watched jobs, for a program that reads along: one JSON object a line (NDJSON)."""

from __future__ import annotations

import msgspec

from synth_train.adapters.console.events import Events
from synth_train.domain.model.events import Event
from synth_train.domain.model.moments import EventSeen, JobEnded, Moment, PointsSeen, PollFailed, StatusSeen


class Ndjson(Events):
    """ProgressPort for `jobs watch --output json`: every line on stdout has `event`, which tells what the rest is.

    Raises `OutputClosed` from `tell` when nobody reads any more.
    """

    def tell(self, moment: Moment) -> None:
        super().tell(moment)
        match moment:
            case StatusSeen():
                self._line("status", moment, status=moment.word, phase=moment.phase.value, elapsed=moment.elapsed)
            case EventSeen():
                self._line("event", moment, **described_event(moment.event))
            case PointsSeen():
                self._line("metrics", moment, step=moment.step, values=moment.values)
            case PollFailed():
                self._line("poll_failed", moment, error=moment.error)
            case JobEnded():
                self._line(
                    "ended",
                    moment,
                    status=moment.word,
                    phase=moment.phase.value,
                    reason=moment.reason or None,
                    fine_tuned_model=moment.fine_tuned_model,
                )
            case _:
                pass

    def _line(
        self, event: str, moment: StatusSeen | EventSeen | PointsSeen | PollFailed | JobEnded, **fields: object
    ) -> None:
        line = {"version": 1, "event": event, "job_id": moment.job_id, **fields}
        self._screen.data(msgspec.json.encode(line) + b"\n")


def described_event(event: Event) -> dict[str, object]:
    """An event as the value that stands in JSON documents."""
    return {
        "seq": event.seq,
        "type": event.type,
        "level": event.level,
        "message": event.message,
        "data": event.data,
        "created_at": event.created_at,
    }
