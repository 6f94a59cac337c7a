"""How things stand, for the last words of a run that is cut off."""

from __future__ import annotations

import shlex
from pathlib import Path

from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind
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
            jobs, are, them = ("job", "is", "it") if len(self._together) == 1 else ("jobs", "are", "them")
            words = f"Watch {them} again with: {self._watch(*self._together)}"
            return f"{jobs} {', '.join(self._together)} {are} still running", words
        if self._job is not None and self._over:
            return f"job {self._job} had ended", ""
        if self._job is not None and self._started:
            return f"job {self._job} is still running", f"Watch it again with: {self._watch(self._job)}"
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

    def _watch(self, *jobs: JobId) -> str:
        words = ["synth-ai", "jobs", "watch", *jobs]
        if self._kind is not None:
            words += ["--type", self._kind.value]
        words += ["--backend", self._base]
        for path in self.env_files:
            words += ["--env-file", str(path)]
        return shlex.join(words)
