"""`synth-ai jobs metrics`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.console.tables import sparkline, table
from synth_train.adapters.console.words import counted
from synth_train.domain.model.curves import Curve, curves_of, panels_compared, panels_of
from synth_train.domain.model.events import Point
from synth_train.domain.model.jobs import JobId, short_ids
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.entrypoints.cli.jobs_show import described_job, find_all
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_HEADINGS = ("METRIC", "STEPS", "FIRST", "LAST", "LOWEST", "HIGHEST", "COURSE")
_CURVE = 32
"""Cells."""


def run(session: Session) -> int:
    """Print a line for each metric, or every point; or draw them. Several jobs are compared."""
    args = session.args
    picture = Path(args.plot) if args.plot else None
    if picture is not None:
        from synth_train.adapters import matplotlib_pictures

        matplotlib_pictures.check(picture)
    found = find_all(session, args.job_ids)
    points = [
        [
            point
            for point in session.app.read_metrics(one)
            if not args.name or any(fnmatchcase(point.name, pattern) for pattern in args.name)
        ]
        for one in found
    ]
    ids = [one.state.job_id for one in found]
    curves = dict(zip(short_ids(ids), map(curves_of, points), strict=True))
    count = sum(map(len, curves.values()))
    if picture is not None and count:
        panels = panels_compared(curves) if len(found) > 1 else panels_of(*curves.values())
        matplotlib_pictures.draw(picture, title=_title(found), panels=panels, logarithmic=args.log)
    if session.as_json:
        jobs = [described_job(one.kind, one.state) for one in found]
        session.document(
            ExitCode.OK,
            **{"job": jobs[0]} if len(jobs) == 1 else {},
            jobs=jobs,
            points=[_described(*pair) for pair in _with_jobs(ids, points)],
            plot=str(picture.absolute()) if picture is not None and count else None,
        )
    elif args.csv:
        session.screen.data(_csv(_with_jobs(ids, points)))
    elif not count:
        session.screen.err("There are no metrics.")
    elif picture is not None:
        whose = f"job {ids[0]}" if len(ids) == 1 else counted(len(ids), "job")
        session.screen.out(f"Metrics of {whose}: {picture} ({counted(count, 'curve')})")
    else:
        for line in table(_rows(curves)):
            session.screen.out(line)
    return ExitCode.OK


def _title(found: Sequence[FoundJob]) -> str:
    if len(found) > 1:
        return f"{len(found)} jobs compared"
    return f"{found[0].state.job_id} ({found[0].kind.value.upper()}, {found[0].state.word})"


def _rows(curves: Mapping[str, Sequence[Curve]]) -> list[tuple[str, ...]]:
    """The table. Of several jobs, the curves of one metric stand below each other."""
    if len(curves) == 1:
        return [_HEADINGS, *map(_cells, *curves.values())]
    rows = [(curve.name, job, *_cells(curve)[1:]) for job, some in curves.items() for curve in some]
    return [(_HEADINGS[0], "JOB", *_HEADINGS[1:]), *sorted(rows, key=lambda row: row[0])]


def _cells(curve: Curve) -> tuple[str, ...]:
    """A row of the table."""
    first, last = curve.steps[0], curve.steps[-1]
    values = [value for value in curve.values if isfinite(value)]
    numbers = [f"{value:.5g}" for value in (values[0], values[-1], min(values), max(values))] if values else ["-"] * 4
    return (
        curve.name,
        f"{first}-{last}" if last > first else str(first),
        *numbers,
        sparkline(curve.values, width=_CURVE),
    )


def _with_jobs(ids: Sequence[JobId], points: Sequence[Sequence[Point]]) -> Iterator[tuple[JobId, Point]]:
    """Every point with its job."""
    for job_id, some in zip(ids, points, strict=True):
        for point in some:
            yield job_id, point


def _csv(points: Iterable[tuple[JobId, Point]]) -> bytes:
    """A value that is no number is left empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("job_id", "name", "step", "value", "created_at"))
    writer.writerows(
        (job_id, point.name, point.step, repr(point.value) if isfinite(point.value) else "", point.created_at)
        for job_id, point in points
    )
    return text.getvalue().encode()


def _described(job_id: JobId, point: Point) -> dict[str, object]:
    """A point as the value that stands in JSON documents."""
    return {
        "job_id": job_id,
        "name": point.name,
        "step": point.step,
        "value": point.value if isfinite(point.value) else None,
        "phase": point.phase,
        "created_at": point.created_at,
    }
