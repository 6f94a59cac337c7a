"""`synth-ai jobs logs`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from synth_train.adapters.console.course import event_text
from synth_train.adapters.console.ndjson import described_event
from synth_train.domain.model.event_filter import EventFilter, since
from synth_train.domain.model.events import Event
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode, exit_code_of_state

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Print what has happened; with `--follow`, until nothing more will, and then as `jobs watch` ends."""
    args, follow = session.args, session.app.follow_job
    wanted = EventFilter(
        level=args.level,
        since=None if args.since is None else since(args.since, session.app.train.clock.now()),
        search=args.search or "",
    )
    found = find(session)
    events: list[Event] = []

    def tell(event: Event) -> None:
        if not wanted.admits(event):
            return
        if session.as_json:
            events.append(event)
        else:
            session.screen.out(_line(event))

    state, code = found.state, ExitCode.OK
    if args.follow:
        state = follow(found, interval=args.poll_interval, timeout=args.poll_timeout, tell=tell)
        code = exit_code_of_state(state)
    else:
        for event in follow.so_far(found):
            tell(event)
    if session.as_json:
        session.document(
            code, job=described_job(found.kind, state), events=[described_event(event) for event in events]
        )
    return code


def _line(event: Event) -> str:
    when = datetime.fromtimestamp(event.created_at).astimezone().isoformat(sep=" ", timespec="seconds")[:19]
    level = "" if event.level == "info" else f"{event.level}: "
    return f"{when} {level}{event_text(event)}"
