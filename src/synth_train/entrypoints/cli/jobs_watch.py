"""`synth-ai jobs watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth_train.domain.model.errors import TrainingError
from synth_train.domain.model.jobs import JobState
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.entrypoints.cli.jobs_show import described_job, find_all
from synth_train.entrypoints.cli.report import described
from synth_train.entrypoints.exit_codes import ExitCode, exit_code_for, exit_code_of_state, worst

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Follow the jobs to their ends. The exit code of several is the worst of theirs."""
    args = session.args
    found = find_all(session, args.job_ids)
    interval, timeout, env_files = args.poll_interval, args.poll_timeout, session.progress.env_files
    outcomes: tuple[JobState | TrainingError, ...]
    if len(found) == 1:
        outcomes = (session.app.watch(found[0], interval=interval, timeout=timeout, env_files=env_files),)
    else:
        outcomes = session.app.watch_several(found, interval=interval, timeout=timeout, env_files=env_files)
    code = worst(map(_code, outcomes))
    if session.as_json:
        jobs = [_described(*pair) for pair in zip(found, outcomes, strict=True)]
        session.document(code, event="result", jobs=jobs)
    return code


def _code(outcome: JobState | TrainingError) -> ExitCode:
    return exit_code_for(outcome) if isinstance(outcome, TrainingError) else exit_code_of_state(outcome)


def _described(found: FoundJob, outcome: JobState | TrainingError) -> dict[str, object]:
    if isinstance(outcome, TrainingError):
        return described_job(found.kind, found.state) | {"error": described(outcome)}
    return described_job(found.kind, outcome)
