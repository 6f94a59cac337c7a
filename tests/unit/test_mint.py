"""An ENVIRONMENT_API_KEY is made where none exists, saved first, and then uploaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth_train.adapters.in_memory.backend import InMemoryBackend
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.in_memory.sealer import ReadableSealer, ReadableUnsealer
from synth_train.adapters.stdin_prompt import NobodyToAsk
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendUnreachable,
    CredentialsError,
    KeyRefused,
    LocalStateError,
    NotOffered,
    TrainingError,
)
from synth_train.domain.model.moments import KeyMinted, Noted, Retrying
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.domain.usecases.mint import MintEnvironmentKey, PatientVault, publish_environment_key
from synth_train.ports.prompt import PromptPort

API_KEY = Secret("fake-synth-key-0001-abcdefgh")
MINTED = f"{1:064x}"
DEFAULT = Path("/repo/.env")


class Desk:
    """Somebody about to mint, and the backend."""

    def __init__(self, process: dict[str, str] | None = None, *, prompt: PromptPort | None = None) -> None:
        self.env = InMemoryEnv(process)
        self.backend = InMemoryBackend(api_key=API_KEY)
        self.progress = RecordedProgress()
        self.keys = ResolveKeys(env=self.env, prompt=prompt or NobodyToAsk(), progress=self.progress)
        self.mint = MintEnvironmentKey(
            keys=self.keys, sealer=ReadableSealer(), entropy=CountingEntropy(), progress=self.progress
        )

    def __call__(self, *given: str, replace: bool = False) -> TaskAppKeys:
        variables = self.keys.variables(given=tuple(map(Path, given)))
        self.progress.moments.clear()
        return self.mint(self.backend, variables, replace=replace)

    @property
    def held(self) -> list[Secret]:
        """The keys that the backend holds."""
        owner = self.backend.world.hosting.owner(API_KEY)
        with self.backend.world.store.transaction() as rows:
            return [ReadableUnsealer().unseal(key.sealed) for key in rows.keys(owner)]


def test_a_new_key_is_saved_and_uploaded_and_the_user_is_told_to_restart_the_app() -> None:
    desk = Desk()

    assert desk() == TaskAppKeys(Secret(MINTED))
    assert desk.env.read(DEFAULT).values == {"ENVIRONMENT_API_KEY": MINTED}
    assert desk.held == [Secret(MINTED)]
    assert desk.progress.moments == [
        KeyMinted(mask="000...001", path=DEFAULT),
        Noted(text="Start the task app with the new ENVIRONMENT_API_KEY in /repo/.env; restart one that runs already."),
    ]


def test_a_new_key_goes_to_the_env_file_that_was_chosen() -> None:
    desk = Desk()
    desk.env.put("a.env")
    desk.env.put("b.env")

    desk("a.env", "b.env")

    assert desk.env.saved == [(Path("/repo/b.env"), "ENVIRONMENT_API_KEY")]


def test_a_new_key_comes_with_the_aliases_that_are_known() -> None:
    desk = Desk({"ENVIRONMENT_API_KEY_ALIASES": "older"})

    assert desk() == TaskAppKeys(Secret(MINTED), (Secret("older"),))


def test_a_key_that_the_backend_holds_is_not_replaced_unasked() -> None:
    desk = Desk()
    publish_environment_key(desk.backend, ReadableSealer(), Secret("the team's"))

    with pytest.raises(CredentialsError) as caught:
        desk()

    assert str(caught.value) == (
        "ENVIRONMENT_API_KEY not found here; the backend holds one for this account and does not give it out"
    )
    assert caught.value.hint == (
        "Take it from the .env of the task app, or from whoever runs that, and put ENVIRONMENT_API_KEY=... into "
        "/repo/.env; or replace it for everybody who uses it with --mint."
    )
    assert (desk.env.saved, desk.held, desk.progress.moments) == ([], [Secret("the team's")], [])


def test_a_key_that_the_backend_holds_is_replaced_when_asked_for() -> None:
    desk = Desk()
    publish_environment_key(desk.backend, ReadableSealer(), Secret("the team's"))

    assert desk(replace=True) == TaskAppKeys(Secret(MINTED))
    assert Secret(MINTED) in desk.held


def test_a_backend_without_a_vault_gets_none_and_the_key_is_asked_for() -> None:
    prompt = ScriptedPrompt(("ENVIRONMENT_API_KEY", "fake-env-key-0002-ijklmnop"), ("Save", "n"))
    desk = Desk({"ENVIRONMENT_API_KEY_ALIASES": "older"}, prompt=prompt)
    desk.backend.vault = False

    assert desk() == TaskAppKeys(Secret("fake-env-key-0002-ijklmnop"), (Secret("older"),))
    assert desk.env.saved == []


@pytest.mark.parametrize("replace", [False, True])
def test_without_a_vault_and_anybody_to_ask_the_key_is_missing(replace: bool) -> None:
    desk = Desk()
    desk.backend.vault = False

    with pytest.raises(CredentialsError, match="ENVIRONMENT_API_KEY not found: looked in") as caught:
        desk(replace=replace)

    assert "Set ENVIRONMENT_API_KEY in the environment" in caught.value.hint
    assert desk.env.saved == []


@pytest.mark.parametrize("error", [BackendUnreachable("no reply"), BackendBusy("later"), KeyRefused("no")])
def test_a_vault_that_cannot_be_asked_changes_nothing(error: TrainingError) -> None:
    desk = Desk()
    desk.backend.fail_next("holds_environment_key", error)

    with pytest.raises(type(error)) as caught:
        desk()

    assert caught.value is error
    assert (desk.env.saved, desk.held) == ([], [])


def test_a_key_that_cannot_be_saved_is_not_uploaded() -> None:
    desk = Desk()
    desk.env.trouble[DEFAULT] = LocalStateError("/repo/.env: ENVIRONMENT_API_KEY cannot be saved: Permission denied")

    with pytest.raises(LocalStateError, match=r"/repo/\.env"):
        desk()

    assert desk.held == []
    assert desk.progress.moments == []


@pytest.mark.parametrize("call", ["public_key", "store_environment_key"])
@pytest.mark.parametrize(
    "error",
    [
        BackendUnreachable("backend.test did not answer", hint="Check the network."),
        NotOffered("backend.test has no such route"),
        KeyRefused("backend.test does not accept the key"),
    ],
)
def test_a_failed_upload_says_that_the_key_is_saved_and_can_be_uploaded_later(call: str, error: TrainingError) -> None:
    desk = Desk()
    desk.backend.fail_next(call, error)

    with pytest.raises(CredentialsError) as caught:
        desk()

    assert str(caught.value) == (
        f"A new ENVIRONMENT_API_KEY is saved in /repo/.env, but the backend did not take it: {error}"
    )
    then = "Run the same command again: it uploads the saved key."
    assert caught.value.hint == (f"{error.hint} {then}" if error.hint else then)
    assert caught.value.__cause__ is error
    assert desk.env.read(DEFAULT).values == {"ENVIRONMENT_API_KEY": MINTED}
    assert MINTED[:8] not in str(caught.value) + caught.value.hint
    assert desk.progress.moments == []


def test_the_key_is_saved_before_the_backend_hears_of_it() -> None:
    desk = Desk()

    class Watched(ReadableSealer):
        def seal(self, public_key: bytes, secret: Secret) -> bytes:
            assert desk.env.read(DEFAULT).values == {"ENVIRONMENT_API_KEY": secret.reveal()}
            return super().seal(public_key, secret)

    mint = MintEnvironmentKey(keys=desk.keys, sealer=Watched(), entropy=CountingEntropy())

    assert mint(desk.backend, desk.keys.variables()).primary == Secret(MINTED)


def test_publishing_twice_changes_nothing() -> None:
    desk = Desk()

    publish_environment_key(desk.backend, ReadableSealer(), Secret("a key"))
    publish_environment_key(desk.backend, ReadableSealer(), Secret("a key"))

    assert desk.held == [Secret("a key")]


def test_a_key_too_long_to_be_sealed_is_said() -> None:
    desk = Desk()

    with pytest.raises(
        CredentialsError, match=r"ENVIRONMENT_API_KEY cannot be sealed for the backend: .*8192"
    ) as caught:
        publish_environment_key(desk.backend, ReadableSealer(), Secret("k" * 8193))

    assert "kkk" not in str(caught.value)
    assert desk.held == []


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("holds_environment_key", "ask for the environment key"),
        ("public_key", "fetch the public key"),
        ("store_environment_key", "upload the environment key"),
    ],
)
def test_a_patient_vault_asks_again_while_that_may_help(call: str, what: str) -> None:
    desk = Desk()
    vault = PatientVault(desk.backend, TenacityPatience(ManualClock()), desk.progress)
    desk.backend.fail_next(call, BackendBusy("later"), times=2)
    variables = desk.keys.variables()

    assert desk.mint(vault, variables) == TaskAppKeys(Secret(MINTED))
    assert desk.held == [Secret(MINTED)]
    assert [(told.what, told.error) for told in desk.progress.of(Retrying)] == [(what, "later")] * 2


def test_a_patient_vault_does_not_ask_again_where_that_is_no_use() -> None:
    desk = Desk()
    vault = PatientVault(desk.backend, TenacityPatience(ManualClock()), desk.progress)
    desk.backend.fail_next("holds_environment_key", KeyRefused("no"))

    with pytest.raises(KeyRefused):
        desk.mint(vault, desk.keys.variables())

    assert len(desk.backend.called("holds_environment_key")) == 1
