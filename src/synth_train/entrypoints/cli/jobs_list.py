"""`synth-ai jobs list`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.console.tables import table
from synth_train.domain.model.hosting import JobFilter
from synth_train.domain.model.jobs import JobSummary
from synth_train.entrypoints.cli.train import kind_of
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_HEADINGS = ("JOB", "KIND", "STATUS", "MODEL", "CREATED")


def run(session: Session) -> int:
    """Print the newest jobs."""
    args = session.args
    rows = session.app.list_jobs(
        JobFilter(kind=kind_of(args), status=args.status, limit=args.limit),
        backend=args.backend,
        env_files=tuple(map(Path, args.env_file)),
        insecure_http=args.insecure_http,
    )
    if session.as_json:
        session.document(ExitCode.OK, jobs=[_described(row) for row in rows])
        return ExitCode.OK
    if not rows:
        session.screen.err("There are no jobs.")
        return ExitCode.OK
    for line in table([_HEADINGS, *map(_cells, rows)]):
        session.screen.out(line)
    return ExitCode.OK


def _cells(row: JobSummary) -> tuple[str, ...]:
    kind = row.kind.value if row.kind is not None else "?"
    return (row.job_id, kind, row.word, row.fine_tuned_model or row.model, _when(row.created_at))


def _when(created_at: float | None) -> str:
    if created_at is None:
        return ""
    return datetime.fromtimestamp(created_at).astimezone().isoformat(sep=" ", timespec="minutes")[:16]


def _described(row: JobSummary) -> dict[str, object]:
    """A job as the value that stands in JSON documents."""
    return {
        "job_id": row.job_id,
        "kind": row.kind and row.kind.value,
        "status": row.word,
        "phase": row.phase.value,
        "model": row.model or None,
        "name": row.name or None,
        "created_at": row.created_at,
        "fine_tuned_model": row.fine_tuned_model,
    }
