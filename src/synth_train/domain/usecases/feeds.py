"""Read what a backend tells of a job, each thing once and in order, however often the connection is lost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from synth_train.domain.model.errors import BackendBusy, BackendError, BackendUnreachable, KeyRefused, NotKnown
from synth_train.domain.model.jobs import JobId, Kind
from synth_train.domain.model.moments import EventSeen, PointsSeen
from synth_train.ports.job_feed import JobFeed
from synth_train.ports.progress import ProgressPort

PAGE = 200
"""Events, or points, that are asked for at once."""

BEFORE_ALL = -1
"""A step below all: the hosted backend may count from 0."""


class Feeds:
    """The events and the points of one job, each behind its own cursor. What was told is not asked for again."""

    def __init__(self, feed: JobFeed, kind: Kind, job_id: JobId, progress: ProgressPort) -> None:
        self._feed = feed
        self._kind = kind
        self._job_id = job_id
        self._progress = progress
        self._seq = 0
        self._step = BEFORE_ALL
        self._pages: list[Callable[[], int]] = [self._events, self._points]

    def read(self, *, whole: bool) -> BackendError | None:
        """Tell what is new.

        A feed that the backend does not have, or does not let us read, is not asked for again.

        Args:
            whole: whether all of it must be read; otherwise what does not fit on a page may wait for the next time.

        Returns:
            What kept us from it, if that may pass: then the next time goes on where this one stopped.
        """
        trouble: BackendError | None = None
        for page in tuple(self._pages):
            try:
                while (new := page()) and (whole or new >= PAGE):
                    pass
            except (BackendBusy, BackendUnreachable) as error:
                trouble = error
            except NotKnown:
                # The job is known to those who tell its state, so its feeds may come to know it too.
                continue
            except (BackendError, KeyRefused):
                self._pages.remove(page)
        return trouble

    def _events(self) -> int:
        events = self._feed.events(self._kind, self._job_id, after=self._seq, limit=PAGE)
        for event in events:
            self._seq = event.seq
            self._progress.tell(EventSeen(job_id=self._job_id, event=event))
        return len(events)

    def _points(self) -> int:
        points = self._feed.points(self._kind, self._job_id, after_step=self._step, limit=PAGE)
        for step, of_step in groupby(points, key=lambda point: point.step):
            self._step = step
            together = tuple(of_step)
            self._progress.tell(
                PointsSeen(
                    job_id=self._job_id,
                    step=step,
                    values={point.name: point.value for point in together},
                    created_at=max(point.created_at for point in together),
                )
            )
        return len(points)
