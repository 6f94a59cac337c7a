"""`synth-ai jobs watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth_train.domain.model.jobs import Phase
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Follow the job to its end."""
    found = find(session)
    state = session.app.watch(found, interval=session.args.poll_interval, timeout=session.args.poll_timeout)
    code = ExitCode.OK if state.phase is Phase.SUCCEEDED else ExitCode.JOB_FAILED
    if session.as_json:
        session.document(code, job=described_job(found.kind, state))
    return code
