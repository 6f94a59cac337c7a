"""Find a job that exists already, with nothing but its id and what the variables say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from synth_train.domain.model.backend_base import resolve_base
from synth_train.domain.model.errors import NotKnown
from synth_train.domain.model.jobs import JobId, JobState, Kind
from synth_train.domain.model.moments import ApiRootFound, BackendChosen, Noted, Retrying
from synth_train.domain.model.settings import API_KEY
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.domain.usecases.submit import may_pass
from synth_train.ports.backend import Backend, BackendsPort
from synth_train.ports.env_source import EnvSourcePort
from synth_train.ports.patience import PatiencePort, RetryPolicy
from synth_train.ports.progress import ProgressPort
from synth_train.ports.prompt import PromptPort

T = TypeVar("T")


class FoundJob(Struct, frozen=True, kw_only=True):
    """A job, and where it lives."""

    backend: Backend
    kind: Kind
    """Which of the backend's routes knows it."""
    state: JobState


class FindJob(Struct, frozen=True, kw_only=True):
    """Built once with its ports; asked for one job at a time."""

    env: EnvSourcePort
    prompt: PromptPort
    backends: BackendsPort
    patience: PatiencePort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def __call__(
        self,
        job_id: JobId,
        *,
        kind: Kind | None = None,
        backend: str | None = None,
        env_files: Sequence[Path] = (),
        insecure_http: bool = False,
    ) -> FoundJob:
        """The job as it is now.

        Args:
            kind: None asks the route of SFT jobs and then that of RL jobs.
            backend: base URL; None leaves it to the variables.
            env_files: where the key is looked for besides the process environment.

        Raises:
            NotKnown: the backend has no such job.
            UsageError, CredentialsError, LocalStateError: there is no base, or no key.
            BackendError, KeyRefused: the backend could not be asked.
        """
        reached = self._reach(backend, env_files, insecure_http)
        if kind is not None:
            return self._read(reached, kind, job_id)
        try:
            return self._read(reached, Kind.SFT, job_id)
        except NotKnown:
            return self._read(reached, Kind.RL, job_id)

    def _reach(self, option: str | None, env_files: Sequence[Path], insecure_http: bool) -> Backend:
        keys = ResolveKeys(env=self.env, prompt=self.prompt, progress=self.progress)
        variables = keys.variables(given=env_files, needed=((API_KEY,),))
        base = resolve_base(option, variables, insecure_http=insecure_http)
        for note in base.notes:
            self.progress.tell(Noted(text=note, warning=True))
        api_key = None if base.embedded else keys.api_key(variables)
        self.progress.tell(BackendChosen(base=base.base, key_mask=api_key.mask if api_key else None))
        backend = self.backends.connect(base.base, api_key)
        features = self._retrying(backend.features, what="reach the backend")
        if features.base != base.base:
            self.progress.tell(ApiRootFound(base=features.base))
        return backend

    def _read(self, backend: Backend, kind: Kind, job_id: JobId) -> FoundJob:
        state = self._retrying(lambda: backend.job(kind, job_id), what="read the job")
        return FoundJob(backend=backend, kind=kind, state=state)

    def _retrying(self, call: Callable[[], T], *, what: str) -> T:
        return self.patience.retrying(
            call,
            policy=RetryPolicy(),
            again=may_pass,
            waiting=lambda error, wait: self.progress.tell(Retrying(what=what, error=str(error), wait=wait)),
        )
