"""Reach a backend for what is not a submission: to look at jobs, and to do something about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from synth_train.domain.model.backend_base import is_embedded, resolve_base
from synth_train.domain.model.moments import ApiRootFound, BackendChosen, Noted
from synth_train.domain.model.settings import API_KEY
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.domain.usecases.patient import Patient
from synth_train.ports.backend import Backend, BackendsPort
from synth_train.ports.env_source import EnvSourcePort
from synth_train.ports.prompt import PromptPort


class ReachBackend(Patient, frozen=True, kw_only=True):
    """What such use cases are built with."""

    env: EnvSourcePort
    prompt: PromptPort
    backends: BackendsPort

    def reach(self, option: str | None, env_files: Sequence[Path], insecure_http: bool) -> Backend:
        """The backend that the options and variables mean, asked what it is.

        Raises:
            UsageError, CredentialsError, LocalStateError: there is no base, or no key.
            BackendError, KeyRefused: it cannot be asked.
        """
        keys = ResolveKeys(env=self.env, prompt=self.prompt, progress=self.progress)
        needed = () if is_embedded(option) else ((API_KEY,),)
        variables = keys.variables(given=env_files, needed=needed)
        base = resolve_base(option, variables, insecure_http=insecure_http)
        for note in base.notes:
            self.progress.tell(Noted(text=note, warning=True))
        api_key = None if base.embedded else keys.api_key(variables)
        self.progress.tell(BackendChosen(base=base.base, key_mask=api_key.mask if api_key else None))
        backend = self.backends.connect(base.base, api_key)
        features = self.retrying(backend.features, what="reach the backend")
        if features.base != base.base:
            self.progress.tell(ApiRootFound(base=features.base))
        return backend
