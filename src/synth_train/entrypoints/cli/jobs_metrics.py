"""`synth-ai jobs metrics`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from synth_train.adapters.console.tables import sparkline, table
from synth_train.domain.model.events import Point
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_HEADINGS = ("METRIC", "STEPS", "FIRST", "LAST", "LOWEST", "HIGHEST", "COURSE")
_CURVE = 32
"""Cells."""


def run(session: Session) -> int:
    """Print a line for each metric, or every point."""
    args = session.args
    found = find(session)
    points = [
        point
        for point in session.app.read_metrics(found)
        if not args.name or any(fnmatchcase(point.name, pattern) for pattern in args.name)
    ]
    if session.as_json:
        session.document(
            ExitCode.OK, job=described_job(found.kind, found.state), points=[_described(point) for point in points]
        )
    elif args.csv:
        session.screen.data(_csv(points))
    elif not points:
        session.screen.err("There are no metrics.")
    else:
        for line in table([_HEADINGS, *_rows(points)]):
            session.screen.out(line)
    return ExitCode.OK


def _rows(points: Sequence[Point]) -> list[tuple[str, ...]]:
    """A row for each metric."""
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    rows = []
    for name, of_name in sorted(by_name.items()):
        values = [point.value for point in of_name]
        numbers = (values[0], values[-1], min(values), max(values))
        steps = f"{of_name[0].step}-{of_name[-1].step}" if len(of_name) > 1 else str(of_name[0].step)
        rows.append((name, steps, *(f"{number:.5g}" for number in numbers), sparkline(values, width=_CURVE)))
    return rows


def _csv(points: Sequence[Point]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("name", "step", "value", "created_at"))
    writer.writerows((point.name, point.step, repr(point.value), point.created_at) for point in points)
    return text.getvalue().encode()


def _described(point: Point) -> dict[str, object]:
    """A point as the value that stands in JSON documents."""
    return {
        "name": point.name,
        "step": point.step,
        "value": point.value,
        "phase": point.phase,
        "created_at": point.created_at,
    }
