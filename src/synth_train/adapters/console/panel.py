"""Jobs under way as a panel below the transcript: a chart of what matters, how far they are, how long it takes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from math import isfinite
from typing import TYPE_CHECKING

from synth_train.adapters.console.course import step_of
from synth_train.adapters.console.words import clock, printable
from synth_train.domain.model.jobs import JobId, Phase
from synth_train.domain.model.moments import (
    ConfigBegun,
    EventSeen,
    JobEnded,
    Moment,
    PointsSeen,
    PollingBegun,
    SeveralWatched,
    StatusSeen,
    WatchFailed,
)
from synth_train.ports.progress import ProgressPort

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from synth_train.adapters.console.screen import Screen

PER_SECOND = 4
"""How often the panel is drawn."""

RECENT = 50
"""Steps from which the pace is taken."""

TALLEST = 16
LOWEST = 6
"""Lines of a chart."""

BAR = 10
"""Cells."""

_REWARDS = ("train.reward_mean", "reward")
_LOSSES = ("train.loss", "loss")


class Track:
    """What is known of the course of one job."""

    def __init__(self) -> None:
        self.word = ""
        self.phase = Phase.LIVE
        self.elapsed = 0.0
        """Seconds, when the status was last told."""
        self.step = 0
        self.total: int | None = None
        self.series: dict[str, tuple[list[int], list[float]]] = {}
        """By metric: steps, and the value at each."""
        self._pace: deque[tuple[int, float]] = deque(maxlen=RECENT)

    def see(self, moment: EventSeen | PointsSeen) -> None:
        """Take in what happened."""
        if isinstance(moment, EventSeen):
            step, total = step_of(moment.event)
            self.total = total or self.total
            self._reach(step, moment.event.created_at)
            return
        self._reach(moment.step, moment.created_at)
        for name, value in moment.values.items():
            if not isfinite(value):
                continue  # no chart has a place for it
            steps, values = self.series.setdefault(name, ([], []))
            steps.append(moment.step)
            values.append(value)

    def _reach(self, step: int | None, at: float) -> None:
        if step is not None and step > self.step:
            self.step = step
            if at:
                self._pace.append((step, at))

    @property
    def rate(self) -> float | None:
        """Steps per second of late; None while nobody can tell."""
        if len(self._pace) < 2:
            return None
        (first, began), (last, now) = self._pace[0], self._pace[-1]
        return (last - first) / (now - began) if now > began else None

    @property
    def left(self) -> float | None:
        """Seconds that the remaining steps take at this pace; None while nobody can tell."""
        if self.rate is None or self.total is None or self.phase.over:
            return None
        return max(0, self.total - self.step) / self.rate

    @property
    def main_metric(self) -> str | None:
        """The metric that says most: the reward, else the loss, else the first one there is."""
        for whole, part in (_REWARDS, _LOSSES):
            if whole in self.series:
                return whole
            found = next((name for name in sorted(self.series) if part in name), None)
            if found is not None:
                return found
        return next(iter(sorted(self.series)), None)


class Panel(ProgressPort):
    """ProgressPort that draws events and metrics, and hands all else on to `inner`, whose lines appear above the panel.

    Only for a screen whose stderr is a terminal on which the cursor can be moved.
    """

    def __init__(self, inner: ProgressPort, screen: Screen, *, monotonic: Callable[[], float]) -> None:
        self._inner = inner
        self._screen = screen
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._tracks: dict[JobId, Track] = {}
        self._seen_at: dict[JobId, float] = {}
        self._live: Live | None = None

    def tell(self, moment: Moment) -> None:
        if isinstance(moment, (EventSeen, PointsSeen)):
            with self._lock:
                self._track(moment.job_id).see(moment)
            if isinstance(moment, PointsSeen) or moment.event.level == "info":
                self._draw()
                return
        if isinstance(moment, (ConfigBegun, PollingBegun, SeveralWatched)):
            with self._lock:
                self._tracks.clear()
        if isinstance(moment, StatusSeen):
            with self._lock:
                track = self._track(moment.job_id)
                track.word, track.phase, track.elapsed = moment.word, moment.phase, moment.elapsed
                self._seen_at[moment.job_id] = self._monotonic()
        if isinstance(moment, (JobEnded, WatchFailed)) and moment.job_id in self._tracks:
            self._leave(moment.job_id)
        self._inner.tell(moment)
        if self._tracks:
            self._draw()

    def stop(self) -> None:
        """Take the panel away, until there is something new to draw."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _track(self, job_id: JobId) -> Track:
        return self._tracks.setdefault(job_id, Track())

    def _leave(self, job_id: JobId) -> None:
        """Let the last picture stand where it is, once no job needs the panel any more."""
        others = [other for other in self._tracks if other != job_id and not self._tracks[other].phase.over]
        if others:
            return
        self._draw()
        if self._live is not None:
            self._live.transient = False
        self.stop()
        with self._lock:
            self._tracks.clear()

    def _draw(self) -> None:
        stream = self._screen.err_stream
        if self._live is None and stream is not None:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=stream, color_system="auto" if self._screen.colour else None, highlight=False)
            self._live = Live(
                get_renderable=lambda: self.render(console),
                console=console,
                transient=True,
                refresh_per_second=PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)
            self._screen.overlay(self)

    def render(self, console: Console) -> RenderableType:
        """The panel as it is now."""
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            lines = [self._line(job_id, track) for job_id, track in self._tracks.items()]
            height = max(LOWEST, min(TALLEST, console.height - 2 * len(lines) - 3))
            chart = self._chart(console.width, height, coloured=console.color_system is not None)
        texts = [Text(line, overflow="ellipsis", no_wrap=True) for line in lines]
        return Group(*([Text.from_ansi(chart)] if chart else []), *texts)

    def _line(self, job_id: JobId, track: Track) -> str:
        since = 0.0 if track.phase.over or job_id not in self._seen_at else self._monotonic() - self._seen_at[job_id]
        name = f"{job_id} {track.word}" if len(self._tracks) > 1 else track.word
        return "  ".join((name.strip(), clock(track.elapsed + since), *_progress(track)))

    def _chart(self, width: int, height: int, *, coloured: bool) -> str:
        """The main metric of each job over its steps; nothing while there is none."""
        curves = [
            (metric if len(self._tracks) == 1 else f"{job_id} {metric}", track.series[metric])
            for job_id, track in self._tracks.items()
            if (metric := track.main_metric) is not None
        ]
        if not curves:
            return ""
        import plotext

        plotext.clear_figure()
        plotext.theme("pro" if coloured else "clear")
        plotext.limit_size(False, False)
        plotext.plotsize(width, height)
        for name, (steps, values) in curves:
            # Counted from the end, so that the newest point is always there.
            every = -max(1, len(steps) // (4 * width))
            plotext.plot(steps[::every], values[::every], marker="braille", label=printable(name))
        plotext.xlabel("step")
        return str(plotext.build()).rstrip("\n")


def _progress(track: Track) -> Iterator[str]:
    """How far a job is and how fast, as much of it as is known."""
    if not track.step:
        return
    if track.total:
        part = min(1.0, track.step / track.total)
        full = round(BAR * part)
        yield f"{'█' * full}{'░' * (BAR - full)} {part:.0%}"
        yield f"step {track.step}/{track.total}"
    else:
        yield f"step {track.step}"
    if track.rate is not None:
        yield f"{track.rate:.3g} steps/s"
    if track.left is not None:
        yield f"{clock(track.left)} left"
