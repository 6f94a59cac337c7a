"""Read the metrics of a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from synth_train.domain.model.events import Point
from synth_train.domain.usecases.feeds import BEFORE_ALL
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient

PAGE = 1000


class ReadMetrics(Patient, frozen=True, kw_only=True):
    """Built once with its ports; reads one job at a time."""

    def __call__(self, found: FoundJob) -> tuple[Point, ...]:
        """All points of a job up to now, by step and name.

        Raises:
            NotOffered: this backend has no metrics.
            BackendError, KeyRefused: the backend could not be asked.
        """
        points: list[Point] = []
        while True:
            seen = points[-1].step if points else BEFORE_ALL
            page = self.retrying(partial(_points, found, seen), what="read the metrics")
            if not page:
                return tuple(points)
            points += page


def _points(found: FoundJob, after_step: int) -> Sequence[Point]:
    return found.backend.points(found.kind, found.state.job_id, after_step=after_step, limit=PAGE)
