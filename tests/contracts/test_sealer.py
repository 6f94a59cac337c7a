"""What every SealerPort promises: only the holder of the private key has the secret back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Struct
from nacl.public import PrivateKey, SealedBox

from synth_train.adapters.in_memory.sealer import ReadableSealer, ReadableUnsealer
from synth_train.adapters.sealed_box import SealedBoxSealer
from synth_train.domain.model.secret import Secret
from synth_train.ports.sealer import LONGEST_SECRET, SealerPort


class Pair(Struct, frozen=True):
    """A sealer, and somebody to seal for."""

    sealer: SealerPort
    public_key: bytes
    unseal: Callable[[bytes], str]


@pytest.fixture(params=["in memory", "nacl"])
def pair(request: pytest.FixtureRequest) -> Pair:
    if request.param == "in memory":
        unsealer = ReadableUnsealer()
        return Pair(ReadableSealer(), unsealer.public_key(), lambda sealed: unsealer.unseal(sealed).reveal())
    private = PrivateKey.generate()
    return Pair(
        SealedBoxSealer(), bytes(private.public_key), lambda sealed: SealedBox(private).decrypt(sealed).decode()
    )


@pytest.mark.parametrize("text", ["k", "fake-env-key-0002-ijklmnop", "schlüssel-鍵", "k" * LONGEST_SECRET])
def test_the_holder_of_the_private_key_has_the_secret_back(pair: Pair, text: str) -> None:
    assert pair.unseal(pair.sealer.seal(pair.public_key, Secret(text))) == text


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_a_public_key_has_32_bytes(pair: Pair, key: bytes) -> None:
    with pytest.raises(ValueError, match="public key"):
        pair.sealer.seal(key, Secret("k"))


@pytest.mark.parametrize("text", ["", "k" * (LONGEST_SECRET + 1), "é" * LONGEST_SECRET])
def test_a_secret_has_1_to_8192_bytes(pair: Pair, text: str) -> None:
    with pytest.raises(ValueError, match="8192"):
        pair.sealer.seal(pair.public_key, Secret(text))


def test_a_key_that_is_no_point_of_the_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing can be sealed with this public key"):
        SealedBoxSealer().seal(bytes(32), Secret("k"))


def test_nobody_reads_what_is_sealed_and_no_two_are_alike() -> None:
    public_key = bytes(PrivateKey.generate().public_key)
    secret = Secret("fake-env-key-0002-ijklmnop")

    one, other = (SealedBoxSealer().seal(public_key, secret) for _ in range(2))

    assert one != other
    assert secret.reveal().encode() not in one
