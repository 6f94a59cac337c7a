"""`synth-ai jobs list`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.console.tables import table
from synth_train.domain.model.hosting import JobFilter
from synth_train.domain.model.jobs import JobSummary
from synth_train.domain.model.showing import plain
from synth_train.entrypoints.cli.train import kind_of
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_CELLS: dict[str, tuple[str, Callable[[JobSummary], str]]] = {
    "id": ("JOB", lambda row: row.job_id),
    "kind": ("KIND", lambda row: row.kind.value if row.kind is not None else "?"),
    "status": ("STATUS", lambda row: row.word),
    "model": ("MODEL", lambda row: row.fine_tuned_model or row.model),
    "created": ("CREATED", lambda row: _when(row.created_at)),
    "name": ("NAME", lambda row: plain(row.name)),
    "base_model": ("BASE MODEL", lambda row: row.model),
    "fine_tuned_model": ("FINE-TUNED MODEL", lambda row: row.fine_tuned_model or ""),
}
"""Heading and cell of each of `parser.JOB_COLUMNS`."""


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
        narrowed = args.status is not None or kind_of(args) is not None
        session.screen.err("There are no such jobs." if narrowed else "There are no jobs.")
        return ExitCode.OK
    columns = [_CELLS[name] for name in args.columns]
    headings = [heading for heading, _ in columns]
    for line in table([headings, *([cell(row) for _, cell in columns] for row in rows)]):
        session.screen.out(line)
    return ExitCode.OK


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
