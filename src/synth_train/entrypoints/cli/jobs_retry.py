"""`synth-ai jobs retry`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.domain.model.moments import Created
from synth_train.entrypoints.cli.jobs_show import find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Run the job again, and tell the id of the new one."""
    found = find(session)
    accepted = session.app.retry_job(found, env_files=tuple(map(Path, session.args.env_file)))
    # Told as a creation, so that a program that is cut off before its document has the id.
    session.progress.tell(
        Created(job_id=accepted.job_id, kind=found.kind, status=accepted.status, reply=accepted.reply)
    )
    if session.as_json:
        session.document(ExitCode.OK, job_id=accepted.job_id, kind=found.kind.value, retry_of=found.state.job_id)
    else:
        session.screen.out(f"Job {accepted.job_id} runs {found.state.job_id} again")
    return ExitCode.OK
