"""How things stand, for the last words of a run that is cut off."""

from __future__ import annotations

from pathlib import Path

from synth_train.domain.model.commands import watching
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.moments import (
    ApiRootFound,
    BackendChosen,
    ConfigBegun,
    Created,
    Creating,
    EnvFilesUsed,
    JobEnded,
    Moment,
    PollingBegun,
    Resumed,
    SeveralWatched,
    StatusSeen,
    WatchFailed,
)
from synth_train.domain.model.submission import Stage
from synth_train.ports.progress import ProgressPort


class Standing(ProgressPort):
    """ProgressPort that hands every moment on, and keeps what a person must know when the run ends here."""

    def __init__(self, inner: ProgressPort, *, creates: bool) -> None:
        self._inner = inner
        self._creates = creates
        self._base = ""
        self.env_files: tuple[Path, ...] = ()
        """Those that values came from."""
        self._forget()

    def _forget(self, config: str = "") -> None:
        self._config = config
        self._key: IdempotencyKey | None = None
        self._asked = False
        self._job: JobId | None = None
        self._kind: Kind | None = None
        self._started = False
        self._over = False
        self._words: dict[JobId, str] = {}
        self._together: list[JobId] = []

    def tell(self, moment: Moment) -> None:
        match moment:
            case BackendChosen() | ApiRootFound():
                self._base = moment.base
            case EnvFilesUsed():
                self.env_files = moment.paths
            case ConfigBegun():
                self._forget(moment.config)
            case Resumed():
                self._key, self._job = moment.key, moment.job_id
                self._asked = moment.stage == Stage.CREATING.value
            case Creating():
                self._key, self._asked = moment.key, True
            case Created():
                self._job, self._kind = moment.job_id, moment.kind
                self._started = moment.kind is Kind.RL
            case PollingBegun():
                self._job, self._started = moment.job_id, True
            case SeveralWatched():
                self._together = list(moment.job_ids)
            case StatusSeen():
                self._words[moment.job_id] = moment.word if moment.phase is Phase.LIVE else ""
            case JobEnded(job_id=job_id) | WatchFailed(job_id=job_id) if job_id in self._together:
                self._together.remove(job_id)
            case JobEnded():
                self._over = True
            case _:
                pass
        # Last, since it may raise: a job that could not be told of exists all the same.
        self._inner.tell(moment)

    def last_words(self) -> tuple[str, str]:
        """What is so, and what to do about it; nothing for a command that creates no job and watches none."""
        if self._together:
            one = len(self._together) == 1
            words = f"Watch {'it' if one else 'them'} again with: {self.watching(*self._together, kind=self._kind)}"
            return f"{'job' if one else 'jobs'} {', '.join(map(self._still, self._together))}", words
        if self._job is not None and self._over:
            return f"job {self._job} had ended", ""
        if self._job is not None and self._started:
            again = self.watching(self._job, kind=self._kind)
            return f"job {self._still(self._job)}", f"Watch it again with: {again}"
        if self._job is not None:
            return (
                f"job {self._job} exists, but may not have been started",
                "Run the same command again: it goes on from here.",
            )
        if self._asked:
            return (
                f"the job may have been created (Idempotency-Key {self._key})",
                "Run the same command again: it asks under the same key, so that there is one job at most.",
            )
        if not self._creates:
            return "", ""
        of = f" for {self._config}" if self._config else ""
        return f"no job was created{of}", "Run the same command again to go on."

    def watching(self, *jobs: JobId, kind: Kind | None) -> str:
        """The command that watches jobs of this run."""
        return watching(*jobs, base=self._base, kind=kind, env_files=self.env_files)

    def _still(self, job: JobId) -> str:
        word = self._words.get(job)
        return f"{job} is still {word}" if word else f"{job} goes on"
