"""`synth-ai jobs metrics`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.console.tables import sparkline, table
from synth_train.adapters.console.words import counted
from synth_train.domain.model.curves import Curve, curves_of, panels_of
from synth_train.domain.model.events import Point
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_HEADINGS = ("METRIC", "STEPS", "FIRST", "LAST", "LOWEST", "HIGHEST", "COURSE")
_CURVE = 32
"""Cells."""


def run(session: Session) -> int:
    """Print a line for each metric, or every point; or draw them."""
    args = session.args
    picture = Path(args.plot) if args.plot else None
    if picture is not None:
        from synth_train.adapters import matplotlib_pictures

        matplotlib_pictures.check(picture)
    found = find(session)
    points = [
        point
        for point in session.app.read_metrics(found)
        if not args.name or any(fnmatchcase(point.name, pattern) for pattern in args.name)
    ]
    curves = curves_of(points)
    if picture is not None and curves:
        matplotlib_pictures.draw(picture, title=_title(found), panels=panels_of(curves), logarithmic=args.log)
    if session.as_json:
        session.document(
            ExitCode.OK,
            job=described_job(found.kind, found.state),
            points=[_described(point) for point in points],
            plot=str(picture.absolute()) if picture is not None and curves else None,
        )
    elif args.csv:
        session.screen.data(_csv(points))
    elif not points:
        session.screen.err("There are no metrics.")
    elif picture is not None:
        session.screen.out(f"Metrics of job {found.state.job_id}: {picture} ({counted(len(curves), 'curve')})")
    else:
        for line in table([_HEADINGS, *map(_cells, curves)]):
            session.screen.out(line)
    return ExitCode.OK


def _title(found: FoundJob) -> str:
    return f"{found.state.job_id} ({found.kind.value.upper()}, {found.state.word})"


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


def _csv(points: Sequence[Point]) -> bytes:
    """A value that is no number is left empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "step", "value", "created_at"))
    writer.writerows(
        (point.name, point.step, repr(point.value) if isfinite(point.value) else "", point.created_at)
        for point in points
    )
    return text.getvalue().encode()


def _described(point: Point) -> dict[str, object]:
    """A point as the value that stands in JSON documents."""
    return {
        "name": point.name,
        "step": point.step,
        "value": point.value if isfinite(point.value) else None,
        "phase": point.phase,
        "created_at": point.created_at,
    }
