"""What every vault for environment keys promises (`ports.backend.EnvKeyVault`), and every pair of seals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.backends import TASK_URL, THEIR_KEY, Side, backend_side
from synth_train.adapters.in_memory.sealer import ReadableSealer, ReadableUnsealer
from synth_train.adapters.sealed_box import SealedBoxSealer, SealedBoxUnsealer
from synth_train.domain.model.errors import BackendRefused
from synth_train.domain.model.secret import Secret
from synth_train.ports.hosting import Unsealer
from synth_train.ports.sealer import SealerPort

Seals = tuple[SealerPort, Unsealer]
Store = Callable[[Secret], None]

OLD, NEW = Secret("0" * 64), Secret("1" * 64)


@pytest.fixture(params=["readable", "nacl"])
def seals(request: pytest.FixtureRequest) -> Seals:
    if request.param == "nacl":
        return SealedBoxSealer(), SealedBoxUnsealer(Secret("77" * 32))
    return ReadableSealer(), ReadableUnsealer()


@pytest.fixture(params=["in-memory", "http"])
def side(request: pytest.FixtureRequest, seals: Seals) -> Iterator[Side]:
    with backend_side(str(request.param), unsealer=seals[1]) as side:
        yield side


@pytest.fixture
def store(side: Side, seals: Seals) -> Store:
    def seal_and_store(secret: Secret) -> None:
        side.backend.store_environment_key(seals[0].seal(side.backend.public_key(), secret))

    return seal_and_store


def test_the_public_key_has_32_bytes_and_stays_the_same(side: Side) -> None:
    assert len(side.backend.public_key()) == 32
    assert side.backend.public_key() == side.backend.public_key()


def test_a_key_is_there_once_it_is_stored(side: Side, store: Store) -> None:
    assert side.backend.holds_environment_key() is False
    store(OLD)
    assert side.backend.holds_environment_key() is True


def test_a_key_is_its_owners(side: Side, store: Store) -> None:
    store(OLD)
    assert side.seen_by(THEIR_KEY).holds_environment_key() is False


def test_storing_a_key_again_changes_nothing(side: Side, store: Store) -> None:
    store(OLD)
    store(OLD)
    assert side.backend.verify_task_app(TASK_URL).candidates == 1


def test_a_replaced_key_is_still_tried_after_the_new_one(side: Side, store: Store) -> None:
    store(OLD)
    store(NEW)
    side.task_app.keys = {OLD}
    assert side.backend.verify_task_app(TASK_URL).statuses == (401, 200)


def test_a_key_that_goes_back_into_use_is_the_first_one_again(side: Side, store: Store) -> None:
    for secret in (OLD, NEW, OLD):
        store(secret)
    side.task_app.keys = {OLD}
    assert side.backend.verify_task_app(TASK_URL).statuses == (200, 401)


def test_what_was_not_sealed_for_the_backend_is_refused(side: Side) -> None:
    with pytest.raises(BackendRefused, match="unsealed"):
        side.backend.store_environment_key(b"not sealed")
    assert side.backend.holds_environment_key() is False


@pytest.mark.parametrize("text", ["k", "ключ", "x" * 8192])
def test_what_is_sealed_with_the_public_key_can_be_unsealed(seals: Seals, text: str) -> None:
    sealer, unsealer = seals
    assert unsealer.unseal(sealer.seal(unsealer.public_key(), Secret(text))) == Secret(text)


def test_what_is_sealed_with_another_key_cannot(seals: Seals) -> None:
    sealer, unsealer = seals
    with pytest.raises(ValueError):
        unsealer.unseal(sealer.seal(bytes(31) + b"\x09", OLD))


@pytest.mark.parametrize("sealed", [b"", b"x", b"x" * 100])
def test_what_was_never_sealed_cannot(seals: Seals, sealed: bytes) -> None:
    with pytest.raises(ValueError):
        seals[1].unseal(sealed)
