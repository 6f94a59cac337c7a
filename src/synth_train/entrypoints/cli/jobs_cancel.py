"""`synth-ai jobs cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Ask the job to end. Exit status 0 when it was asked, however it ends."""
    found = find(session)
    state = session.app.cancel_job(found)
    if session.as_json:
        session.document(ExitCode.OK, job=described_job(found.kind, state))
        return ExitCode.OK
    session.screen.out(f"Job {state.job_id}: {state.word}{state.reason and f': {state.reason}'}")
    return ExitCode.OK
