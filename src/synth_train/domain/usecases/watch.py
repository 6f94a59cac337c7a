"""Follow a job to its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from synth_train.domain.model.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnreachable,
    GaveUpWaiting,
    KeyRefused,
    NotKnown,
    NotOffered,
)
from synth_train.domain.model.jobs import JobId, JobState, Kind
from synth_train.domain.model.moments import JobEnded, Noted, PollFailed, PollingBegun, StatusSeen
from synth_train.ports.backend import BackendPort
from synth_train.ports.clock import ClockPort
from synth_train.ports.job_feed import JobFeed
from synth_train.ports.journal import JournalPort
from synth_train.ports.patience import PatiencePort
from synth_train.ports.progress import ProgressPort

GRACE_FOR_A_NEW_JOB = 30.0
"""Seconds for which a backend may not know a job that it has just created."""

_FINAL = (400, 404, 410)

LONGEST_WAIT_ASKED = 60.0
"""Seconds; a `Retry-After` beyond this does not slow the watch down."""


@dataclass(frozen=True, kw_only=True)
class WatchJob:
    """Ask for a job's state until it is over. A failed poll is not a failed job (design §4, Watching)."""

    backend: BackendPort
    journal: JournalPort
    patience: PatiencePort
    clock: ClockPort
    feed: JobFeed | None = None
    """Where the backend tells of a job; None: its warnings are not passed on."""
    progress: ProgressPort = field(default_factory=ProgressPort)

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
        return _Watch(self, kind, job_id, interval, timeout).to_the_end()


class _Watch:
    """One watch: what was seen last, and how long it has been."""

    def __init__(self, ports: WatchJob, kind: Kind, job_id: JobId, interval: float, timeout: float) -> None:
        self._ports = ports
        self._kind = kind
        self._job_id = job_id
        self._interval = interval
        self._timeout = timeout
        self._began = ports.clock.monotonic()
        self._word: str | None = None
        self._failure: BackendError | None = None
        self._feed = ports.feed
        self._seq = 0

    def to_the_end(self) -> JobState:
        tell = self._ports.progress.tell
        tell(PollingBegun(job_id=self._job_id, interval=self._interval, timeout=self._timeout))
        state = self._ports.patience.until(
            self._poll,
            done=lambda state: state is not None and state.phase.over,
            interval=lambda _: self._until_next_poll(),
            deadline=self._began + self._timeout,
        )
        if state is None:
            raise self._gave_up()
        tell(
            JobEnded(
                job_id=self._job_id,
                word=state.word,
                phase=state.phase,
                reason=state.reason,
                fine_tuned_model=state.fine_tuned_model,
            )
        )
        return state

    def _poll(self) -> JobState | None:
        """The state, or None for a poll that failed in a way that may pass."""
        try:
            state = self._ports.backend.job(self._kind, self._job_id)
        except BackendError as error:
            if self._is_final(error):
                raise
            self._failure = error
            self._ports.progress.tell(PollFailed(job_id=self._job_id, error=str(error)))
            return None
        self._failure = None
        if state.word != self._word:
            self._word = state.word
            self._ports.journal.saw(self._job_id, state.word)
            self._ports.progress.tell(
                StatusSeen(job_id=self._job_id, elapsed=self._elapsed(), word=state.word, phase=state.phase)
            )
        self._pass_on_warnings()
        return state

    def _pass_on_warnings(self) -> None:
        """Tell what the backend warns of, such as why a job waits. Best effort: the state is what counts."""
        if self._feed is None:
            return
        try:
            events = self._feed.events(self._kind, self._job_id, after=self._seq)
        except NotOffered:
            self._feed = None
            return
        except (BackendError, KeyRefused):
            return
        for event in events:
            self._seq = event.seq
            if event.level == "warning":
                self._ports.progress.tell(Noted(text=f"job {self._job_id}: {event.message}", warning=True))

    def _is_final(self, error: BackendError) -> bool:
        if not isinstance(error, BackendRefused) or error.status not in _FINAL:
            return False
        newborn = self._word is None and self._elapsed() < GRACE_FOR_A_NEW_JOB
        return not (newborn and isinstance(error, NotKnown) and error.status == 404)

    def _until_next_poll(self) -> float:
        asked_for = self._failure.retry_after if isinstance(self._failure, BackendBusy) else None
        if asked_for is None or asked_for > LONGEST_WAIT_ASKED:
            return self._interval
        return max(self._interval, asked_for)

    def _gave_up(self) -> GaveUpWaiting:
        seen = f"was last seen {self._word!r}" if self._word is not None else "was never seen"
        what = f"gave up waiting after {self._timeout:g} s: job {self._job_id} {seen}"
        if self._failure is not None:
            cannot = "cannot be reached" if isinstance(self._failure, BackendUnreachable) else "cannot be read"
            what += f", and {cannot} now: {self._failure}"
        return GaveUpWaiting(
            what,
            word=self._word or "",
            hint=f"The job goes on. Watch it again with: synth-ai jobs watch {self._job_id} --type {self._kind.value} "
            f"--backend {self._ports.backend.base}",
        )

    def _elapsed(self) -> float:
        return self._ports.clock.monotonic() - self._began
