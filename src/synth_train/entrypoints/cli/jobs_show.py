"""`synth-ai jobs show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.domain.model.jobs import JobId, JobState, Kind
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.entrypoints.cli.train import kind_of
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Read the job once."""
    found = find(session)
    state = found.state
    if session.as_json:
        session.document(ExitCode.OK, job=described_job(found.kind, state))
        return ExitCode.OK
    session.screen.out(f"Job {state.job_id}: {state.word}{state.reason and f': {state.reason}'}")
    if state.fine_tuned_model is not None:
        session.screen.out(f"Fine-tuned model: {state.fine_tuned_model}")
    return ExitCode.OK


def find(session: Session) -> FoundJob:
    """The job that the command line names."""
    return find_all(session, [session.args.job_id])[0]


def find_all(session: Session, names: Sequence[str]) -> tuple[FoundJob, ...]:
    """Jobs by their names, each once."""
    args = session.args
    return session.app.find_job.several(
        tuple(map(JobId, names)),
        kind=kind_of(args),
        backend=args.backend,
        env_files=tuple(map(Path, args.env_file)),
        insecure_http=args.insecure_http,
    )


def described_job(kind: Kind, state: JobState) -> dict[str, object]:
    """A job as the value that stands in JSON documents."""
    return {
        "job_id": state.job_id,
        "kind": kind.value,
        "status": state.word,
        "phase": state.phase.value,
        "reason": state.reason or None,
        "fine_tuned_model": state.fine_tuned_model,
    }
