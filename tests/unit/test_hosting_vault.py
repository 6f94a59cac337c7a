"""Environment keys as hosting keeps and tries them. What every client sees is in tests/contracts/test_vault.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.sealer import ReadableSealer, ReadableUnsealer
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.hosting import Owner, Refusal, SealedKey, owner_of
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, Trouble
from synth_train.domain.usecases.hosting.service import Hosting
from synth_train.domain.usecases.hosting.vault import ENVIRONMENT_KEY, MOST_CANDIDATES, Attempt, Vault

WE = Owner("we")
SECRET = Secret("0123456789abcdefghijklmnopqrstuvwxyz")


@pytest.fixture
def task_app() -> InMemoryTaskApp:
    return InMemoryTaskApp()


@pytest.fixture
def vault(task_app: InMemoryTaskApp) -> Vault:
    return InMemoryHosting(clock=ManualClock(), task_app=task_app).hosting.vault


def store(vault: Vault, secret: Secret, *, name: str = ENVIRONMENT_KEY) -> SealedKey:
    return vault.store_key(WE, name, ReadableSealer().seal(vault.public_key(), secret))


def test_a_key_is_kept_as_it_came(vault: Vault) -> None:
    key = store(vault, SECRET)
    assert key.sealed == ReadableSealer().seal(vault.public_key(), SECRET)
    assert (key.owner, key.name, key.updated_at) == (WE, ENVIRONMENT_KEY, 1_700_000_000.0)


def test_the_same_key_keeps_its_id(vault: Vault) -> None:
    assert store(vault, SECRET).id == store(vault, SECRET).id
    assert store(vault, Secret("another")).id != store(vault, SECRET).id
    assert store(vault, SECRET, name="OTHER").id != store(vault, SECRET).id


def test_a_key_of_another_name_is_no_environment_key(vault: Vault) -> None:
    store(vault, SECRET, name="OTHER")
    assert not vault.holds_key(WE)
    assert vault.holds_key(WE, "OTHER")
    assert vault.try_task_app(WE, "http://task") == []


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A" * 129, "Ä", "A\n"])
def test_a_name_is_one_that_a_variable_can_have(vault: Vault, name: str) -> None:
    with pytest.raises(Refusal, match="name") as caught:
        store(vault, SECRET, name=name)
    assert caught.value.status == 422


@pytest.mark.parametrize("content", [b"", b"x" * 8193])
def test_an_empty_or_endless_key_is_refused(vault: Vault, content: bytes) -> None:
    head = ReadableSealer().seal(vault.public_key(), Secret("x"))[:-1]
    with pytest.raises(Refusal, match="8192 bytes"):
        vault.store_key(WE, ENVIRONMENT_KEY, head + content)


def test_what_is_no_text_cannot_be_unsealed(vault: Vault) -> None:
    head = ReadableSealer().seal(vault.public_key(), Secret("x"))[:-1]
    with pytest.raises(Refusal, match="cannot be unsealed"):
        vault.store_key(WE, ENVIRONMENT_KEY, head + b"\xff")


def test_a_key_from_before_the_backend_changed_its_own_is_left_out(vault: Vault) -> None:
    store(vault, SECRET)
    changed = replace(vault, unsealer=ReadableUnsealer(bytes(32)))
    store(changed, Secret("new"))
    assert len(changed.try_task_app(WE, "http://task")) == 1


def test_the_newest_keys_are_tried_and_not_all(vault: Vault, task_app: InMemoryTaskApp) -> None:
    for number in range(MOST_CANDIDATES + 3):
        store(vault, Secret(f"key-{number}"))
    assert len(vault.try_task_app(WE, "http://task/app/")) == MOST_CANDIDATES
    assert [url for url, _ in task_app.asked][:2] == ["http://task/app/health", "http://task/app/task_info"]
    assert task_app.asked[0][1].primary == Secret(f"key-{MOST_CANDIDATES + 2}")


def test_a_candidate_is_told_apart_and_gives_nothing_away(vault: Vault) -> None:
    for secret in (SECRET, Secret("another-key-another-key")):
        store(vault, secret)
    candidates = [attempt.candidate for attempt in vault.try_task_app(WE, "http://task")]
    assert len(set(candidates)) == 2
    assert not [candidate for candidate in candidates if candidate in SECRET.reveal()]


@pytest.mark.parametrize("url", ["", "task", "ftp://task", "http://", "file:///etc/passwd"])
def test_what_is_no_url_is_not_asked(vault: Vault, task_app: InMemoryTaskApp, url: str) -> None:
    store(vault, SECRET)
    with pytest.raises(Refusal, match="endpoint_base_url") as caught:
        vault.try_task_app(WE, url)
    assert caught.value.status == 422
    assert task_app.asked == []


def probe(status: int | None) -> Probe:
    return Probe(url="http://t/x", status=status, trouble=Trouble.REFUSED if status is None else None)


@pytest.mark.parametrize(
    ("health", "task_info", "ok", "status", "error"),
    [
        (200, 200, True, 200, None),
        (401, 200, False, 401, "http://t/x: 401"),
        (200, 500, False, 500, "http://t/x: 500"),
        (200, None, False, 0, "http://t/x: the connection was refused"),
        (None, None, False, 0, "http://t/x: the connection was refused"),
    ],
)
def test_an_attempt_has_the_worse_of_two_statuses(
    health: int | None, task_info: int | None, ok: bool, status: int, error: str | None
) -> None:
    attempt = Attempt(candidate="c", health=probe(health), task_info=probe(task_info))
    assert (attempt.ok, attempt.status, attempt.error) == (ok, status, error)


# Who may come in


def hosting(*allowed: Secret) -> Hosting:
    owners = frozenset(map(owner_of, allowed)) or None
    return InMemoryHosting(clock=ManualClock(), owners=owners).hosting


def test_whoever_brings_a_key_is_an_owner() -> None:
    assert hosting().owner(SECRET) == owner_of(SECRET)


@pytest.mark.parametrize("key", [None, Secret("")])
def test_without_a_key_nobody_comes_in(key: Secret | None) -> None:
    with pytest.raises(Refusal) as caught:
        hosting().owner(key)
    assert caught.value.status == 401


def test_where_owners_are_named_nobody_else_comes_in() -> None:
    assert hosting(SECRET).owner(SECRET) == owner_of(SECRET)
    with pytest.raises(Refusal) as caught:
        hosting(SECRET).owner(Secret("another"))
    assert caught.value.status == 403


def test_a_key_can_stand_for_another_owner() -> None:
    ours, theirs = Secret("fake-synth-key-0001-abcdefgh"), Secret("fake-synth-key-0002-zyxwvuts")
    door = replace(hosting(), aliases={owner_of(ours): WE})
    assert (door.owner(ours), door.owner(theirs)) == (WE, owner_of(theirs))
