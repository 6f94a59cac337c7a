"""`synth-ai jobs logs`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from synth_train.domain.model.hosting import Event
from synth_train.domain.model.jobs import Phase
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_SAID_ANYWAY = ("step", "total_steps")
"""Numbers in an event's data that its message holds, too."""


def run(session: Session) -> int:
    """Print what has happened; with `--follow`, until nothing more will, and then as `jobs watch` ends."""
    args, follow = session.args, session.app.follow_job
    found = find(session)
    events: list[Event] = []

    def tell(event: Event) -> None:
        if session.as_json:
            events.append(event)
        else:
            session.screen.out(_line(event))

    state, code = found.state, ExitCode.OK
    if args.follow:
        state = follow(found, interval=args.poll_interval, timeout=args.poll_timeout, tell=tell)
        code = ExitCode.OK if state.phase is Phase.SUCCEEDED else ExitCode.JOB_FAILED
    else:
        for event in follow.so_far(found):
            tell(event)
    if session.as_json:
        session.document(code, job=described_job(found.kind, state), events=[_described(event) for event in events])
    return code


def _line(event: Event) -> str:
    when = datetime.fromtimestamp(event.created_at).astimezone().isoformat(sep=" ", timespec="seconds")[:19]
    level = "" if event.level == "info" else f"{event.level}: "
    values = "".join(
        f" {name}={value:.5g}"
        for name, value in event.data.items()
        if isinstance(value, (int, float)) and name not in _SAID_ANYWAY
    )
    return f"{when} {level}{event.message}{values}"


def _described(event: Event) -> dict[str, object]:
    """An event as the value that stands in JSON documents."""
    return {
        "seq": event.seq,
        "type": event.type,
        "level": event.level,
        "message": event.message,
        "data": event.data,
        "created_at": event.created_at,
    }
