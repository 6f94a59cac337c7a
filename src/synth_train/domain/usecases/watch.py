"""Follow a job to its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from synth_train.domain.model.commands import watching
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnreachable,
    GaveUpWaiting,
    NotKnown,
    TrainingError,
)
from synth_train.domain.model.jobs import JobId, JobState, Kind
from synth_train.domain.model.moments import (
    JobEnded,
    Noted,
    PollFailed,
    PollingBegun,
    SeveralWatched,
    StatusSeen,
    WatchFailed,
)
from synth_train.domain.usecases.feeds import Feeds
from synth_train.ports.backend import BackendPort
from synth_train.ports.clock import ClockPort
from synth_train.ports.job_feed import JobFeed
from synth_train.ports.journal import JournalPort
from synth_train.ports.patience import PatiencePort, RetryPolicy
from synth_train.ports.progress import ProgressPort

GRACE_FOR_A_NEW_JOB = 30.0
"""Seconds for which a backend may not know a job that it has just created."""

_FINAL = (400, 404, 410)

LONGEST_WAIT_ASKED = 60.0
"""Seconds; a `Retry-After` beyond this does not slow the watch down."""


FEED_POLICY = RetryPolicy(attempts=4, total=15.0)
"""How hard the last events and points of a job are tried for. How it ended is known by then."""


class WatchJob(Struct, frozen=True, kw_only=True):
    """Ask for a job's state until it is over, and tell what the backend tells of it meanwhile.

    A failed poll is not a failed job (design §4, Watching). What counts is the state: events and points are told for
    showing, after each read of the state, the last ones before the end is. A backend without them gives states only.
    """

    backend: BackendPort
    journal: JournalPort
    patience: PatiencePort
    clock: ClockPort
    feed: JobFeed | None = None
    """Where the backend tells of a job; None: only its states are told."""
    progress: ProgressPort = field(default_factory=ProgressPort)
    env_files: tuple[Path, ...] = ()
    """Those that the keys come from, for showing."""

    def __call__(self, kind: Kind, job_id: JobId, *, interval: float, timeout: float) -> JobState:
        """The state in which the job ended, which may be a bad one.

        Args:
            interval: seconds between polls.
            timeout: seconds after which the watch is given up; the job goes on.

        Raises:
            GaveUpWaiting: the time is over.
            KeyRefused: the backend does not let us look (401, 403).
            BackendRefused: there is no such job (400, 404, 410).
        """
        self.progress.tell(PollingBegun(job_id=job_id, interval=interval, timeout=timeout))
        watch = _Watch(self, kind, job_id, interval, timeout)
        state = self.patience.until(
            watch.poll,
            done=lambda state: state is not None and state.phase.over,
            interval=lambda _: watch.until_next_poll(),
            deadline=watch.deadline,
        )
        if state is None:
            raise watch.gave_up()
        watch.end(state)
        return state

    def several(
        self, jobs: Sequence[tuple[Kind, JobId]], *, interval: float, timeout: float
    ) -> tuple[JobState | TrainingError, ...]:
        """Watch jobs of one backend in turn, all of them to their ends: how each has ended, or why that is not known.

        The arguments are those of the watch of one job. Errors are those too, given back in place of a state.
        """
        ids = tuple(job_id for _, job_id in jobs)
        self.progress.tell(SeveralWatched(job_ids=ids, interval=interval, timeout=timeout))
        watches = [_Watch(self, kind, job_id, interval, timeout) for kind, job_id in jobs]
        outcomes: dict[int, JobState | TrainingError] = {}

        def look() -> bool:
            for at, watch in enumerate(watches):
                if at not in outcomes and self.clock.monotonic() < watch.deadline:
                    outcome = self._look(watch)
                    if outcome is not None:
                        outcomes[at] = outcome
            return len(outcomes) == len(watches)

        self.patience.until(
            look,
            done=lambda all_over: all_over,
            interval=lambda _: max(watch.until_next_poll() for at, watch in enumerate(watches) if at not in outcomes),
            deadline=min(watch.deadline for watch in watches),
        )
        for at, watch in enumerate(watches):
            if at not in outcomes:
                outcomes[at] = self._failed(watch, watch.gave_up())
        return tuple(outcomes[at] for at in range(len(watches)))

    def _look(self, watch: _Watch) -> JobState | TrainingError | None:
        """How one of several jobs has ended; None while it has not."""
        try:
            state = watch.poll()
        except TrainingError as error:
            return self._failed(watch, error)
        if state is None or not state.phase.over:
            return None
        watch.end(state)
        return state

    def _failed(self, watch: _Watch, error: TrainingError) -> TrainingError:
        self.progress.tell(WatchFailed(job_id=watch.job_id, error=error))
        return error


class _Watch:
    """One watch: what was seen last, and how long it has been."""

    def __init__(self, ports: WatchJob, kind: Kind, job_id: JobId, interval: float, timeout: float) -> None:
        self._ports = ports
        self._kind = kind
        self.job_id = job_id
        self._interval = interval
        self._timeout = timeout
        self._began = ports.clock.monotonic()
        self._word: str | None = None
        self._failure: BackendError | None = None
        self._feeds = Feeds(ports.feed, kind, job_id, ports.progress) if ports.feed is not None else None
        self._feed_trouble: BackendError | None = None

    @property
    def deadline(self) -> float:
        return self._began + self._timeout

    def poll(self) -> JobState | None:
        """The state, or None for a poll that failed in a way that may pass."""
        try:
            state = self._ports.backend.job(self._kind, self.job_id)
        except BackendError as error:
            if self._is_final(error):
                raise
            self._failure = error
            self._ports.progress.tell(PollFailed(job_id=self.job_id, error=str(error)))
            return None
        self._failure = None
        if state.phase.over:
            # What the backend tells was all there when it called the job over: so it comes before the last word.
            self._read_the_rest()
            self._see(state)
        else:
            self._see(state)
            self._feed_trouble = self._feeds.read(whole=False) if self._feeds is not None else None
        return state

    def end(self, state: JobState) -> None:
        self._ports.progress.tell(
            JobEnded(
                job_id=self.job_id,
                word=state.word,
                phase=state.phase,
                reason=state.reason,
                fine_tuned_model=state.fine_tuned_model,
            )
        )

    def until_next_poll(self) -> float:
        """Seconds, more than the interval if the backend asks for that."""
        busy = (error for error in (self._failure, self._feed_trouble) if isinstance(error, BackendBusy))
        asked_for = [error.retry_after or 0.0 for error in busy]
        return max([self._interval, *(seconds for seconds in asked_for if seconds <= LONGEST_WAIT_ASKED)])

    def gave_up(self) -> GaveUpWaiting:
        """The error for a job that was not over at the deadline."""
        seen = f"was last seen {self._word!r}" if self._word is not None else "was never seen"
        what = f"gave up waiting after {self._timeout:g} s: job {self.job_id} {seen}"
        if self._failure is not None:
            cannot = "cannot be reached" if isinstance(self._failure, BackendUnreachable) else "cannot be read"
            what += f", and {cannot} now: {self._failure}"
        return GaveUpWaiting(
            what,
            word=self._word or "",
            hint=f"The job goes on. Watch it again with: {self._again()}",
        )

    def _again(self) -> str:
        base, env_files = self._ports.backend.base, self._ports.env_files
        return watching(self.job_id, base=base, kind=self._kind, env_files=env_files)

    def _see(self, state: JobState) -> None:
        if state.word != self._word:
            self._word = state.word
            self._ports.journal.saw(self.job_id, state.word)
            self._ports.progress.tell(
                StatusSeen(job_id=self.job_id, elapsed=self._elapsed(), word=state.word, phase=state.phase)
            )

    def _read_the_rest(self) -> None:
        feeds = self._feeds
        if feeds is None:
            return

        def read() -> None:
            trouble = feeds.read(whole=True)
            if trouble is not None:
                raise trouble

        try:
            self._ports.patience.retrying(read, policy=FEED_POLICY, again=lambda _: True, waiting=lambda *_: None)
        except BackendError as error:
            text = f"what happened last to job {self.job_id} could not be read: {error}"
            self._ports.progress.tell(Noted(text=text, warning=True))

    def _is_final(self, error: BackendError) -> bool:
        if not isinstance(error, BackendRefused) or error.status not in _FINAL:
            return False
        newborn = self._word is None and self._elapsed() < GRACE_FOR_A_NEW_JOB
        return not (newborn and isinstance(error, NotKnown) and error.status == 404)

    def _elapsed(self) -> float:
        return self._ports.clock.monotonic() - self._began
