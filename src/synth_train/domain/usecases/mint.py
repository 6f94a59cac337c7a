"""Make an ENVIRONMENT_API_KEY where none exists, and let the backend have it (design §4, wire-contract §5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from synth_train.domain.model.errors import CredentialsError, NotOffered, TrainingError
from synth_train.domain.model.moments import KeyMinted, Noted
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import ENVIRONMENT_KEY, Variables
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.domain.usecases.retries import retried
from synth_train.ports.backend import EnvKeyVault
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.patience import PatiencePort
from synth_train.ports.progress import ProgressPort
from synth_train.ports.sealer import SealerPort

T = TypeVar("T")

KEY_BYTES = 32


class PatientVault(EnvKeyVault):
    """A vault whose calls are tried again while that may help: each of them changes nothing when it is repeated."""

    def __init__(self, vault: EnvKeyVault, patience: PatiencePort, progress: ProgressPort) -> None:
        self._vault, self._patience, self._progress = vault, patience, progress

    def holds_environment_key(self) -> bool:
        return self._patiently("ask for the environment key", self._vault.holds_environment_key)

    def public_key(self) -> bytes:
        return self._patiently("fetch the public key", self._vault.public_key)

    def store_environment_key(self, sealed: bytes) -> None:
        self._patiently("upload the environment key", lambda: self._vault.store_environment_key(sealed))

    def _patiently(self, what: str, call: Callable[[], T]) -> T:
        return retried(call, what=what, patience=self._patience, progress=self._progress)


class MintEnvironmentKey(Struct, frozen=True, kw_only=True):
    """Called when an RL job has no ENVIRONMENT_API_KEY."""

    keys: ResolveKeys
    sealer: SealerPort
    entropy: EntropyPort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def __call__(self, vault: EnvKeyVault, variables: Variables, *, replace: bool = False) -> TaskAppKeys:
        """A new key, saved before it is uploaded, so that no key is ever known to the backend alone.

        A backend without a vault gets none: the key is asked for.

        Args:
            replace: go on although the backend holds a key already, which a team may be using.

        Raises:
            CredentialsError: the backend holds one already; or there is no vault and nobody to ask; or the new key is
                saved and could not be uploaded, the failure being the cause.
            LocalStateError: the new key could not be saved; nothing was uploaded.
            BackendError, KeyRefused: the vault could not be asked; nothing was made.
        """
        try:
            held = vault.holds_environment_key()
        except NotOffered:
            return self.keys.with_aliases(self.keys.ask(ENVIRONMENT_KEY, variables), variables)
        path = self.keys.save_to(variables)
        if held and not replace:
            raise CredentialsError(
                f"{ENVIRONMENT_KEY} not found here; the backend holds one for this account and does not give it out",
                hint=(
                    f"Take it from the .env of the task app, or from whoever runs that, and put {ENVIRONMENT_KEY}=... "
                    f"into {path}; or replace it for everybody who uses it with --mint."
                ),
            )
        key = Secret(self.entropy.token(KEY_BYTES))
        self.keys.env.save(path, ENVIRONMENT_KEY, key.reveal())
        try:
            publish_environment_key(vault, self.sealer, key)
        except TrainingError as error:
            raise CredentialsError(
                f"A new {ENVIRONMENT_KEY} is saved in {path}, but the backend did not take it: {error}",
                hint=f"{error.hint} Run the same command again: it uploads the saved key.".strip(),
            ) from error
        self.progress.tell(KeyMinted(mask=key.mask, path=path))
        self.progress.tell(
            Noted(text=f"Start the task app with the new {ENVIRONMENT_KEY} in {path}; restart one that runs already.")
        )
        return self.keys.with_aliases(key, variables)


def publish_environment_key(vault: EnvKeyVault, sealer: SealerPort, key: Secret) -> None:
    """Seal `key` and store it in the vault. Doing it again changes nothing.

    Raises:
        CredentialsError: it cannot be sealed.
        NotOffered: the backend has no vault.
        BackendError, KeyRefused: it was not stored.
    """
    public_key = vault.public_key()
    try:
        sealed = sealer.seal(public_key, key)
    except ValueError as error:
        raise CredentialsError(f"{ENVIRONMENT_KEY} cannot be sealed for the backend: {error}") from error
    vault.store_environment_key(sealed)
