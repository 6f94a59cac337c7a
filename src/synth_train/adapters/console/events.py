"""What happens, for a program that reads: as little as possible before the one document at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from synth_train.domain.model.events import Event
from synth_train.domain.model.moments import Created, EventSeen, Moment, Noted, ProblemFound, Resumed
from synth_train.ports.progress import ProgressPort

if TYPE_CHECKING:
    from synth_train.adapters.console.screen import Screen


class Events(ProgressPort):
    """ProgressPort for `--output json`: a created job becomes one line of JSON on stderr at once, since the process
    may not live to write its document; warnings are kept in `warnings` for it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.warnings: list[str] = []

    def tell(self, moment: Moment) -> None:
        match moment:
            case Created() | Resumed(job_id=str()):
                event = {"version": 1, "event": "created", "job_id": moment.job_id}
                self._screen.err(msgspec.json.encode(event).decode())
            case ProblemFound():
                self.warnings.append(str(moment.problem))
            case Noted(warning=True):
                self.warnings.append(moment.text)
            case EventSeen(event=Event(level="warning")):
                self.warnings.append(f"job {moment.job_id}: {moment.event.message}")
            case _:
                pass
