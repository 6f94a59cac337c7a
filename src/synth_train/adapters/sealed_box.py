"""libsodium's sealed box, by PyNaCl: what clients seal with, and what a backend opens it with."""

from __future__ import annotations

from synth_train.domain.model.secret import Secret
from synth_train.ports.hosting import Unsealer
from synth_train.ports.sealer import LONGEST_SECRET, PUBLIC_KEY_BYTES, SealerPort


class SealedBoxSealer(SealerPort):
    """SealerPort with X25519 and an anonymous sender: what backends call `libsodium.sealedbox.v1`."""

    def seal(self, public_key: bytes, secret: Secret) -> bytes:
        # Imported here, because few runs seal anything.
        from nacl.exceptions import CryptoError
        from nacl.public import PublicKey, SealedBox

        text = secret.reveal().encode()
        if len(public_key) != PUBLIC_KEY_BYTES:
            raise ValueError(f"the public key has {len(public_key)} bytes, not {PUBLIC_KEY_BYTES}")
        if not 1 <= len(text) <= LONGEST_SECRET:
            raise ValueError(f"a key has 1 to {LONGEST_SECRET} bytes, this one has {len(text)}")
        try:
            return bytes(SealedBox(PublicKey(public_key)).encrypt(text))
        except CryptoError:
            raise ValueError("nothing can be sealed with this public key") from None


class SealedBoxUnsealer(Unsealer):
    """Unsealer for the holder of an X25519 private key, given as 64 hex digits."""

    def __init__(self, private_key: Secret) -> None:
        from nacl.encoding import HexEncoder
        from nacl.public import PrivateKey

        self._private_key = PrivateKey(private_key.reveal().encode(), HexEncoder)

    def public_key(self) -> bytes:
        return bytes(self._private_key.public_key)

    def unseal(self, sealed: bytes) -> Secret:
        from nacl.exceptions import CryptoError
        from nacl.public import SealedBox

        try:
            return Secret(SealedBox(self._private_key).decrypt(sealed).decode())
        except (CryptoError, TypeError, UnicodeDecodeError):
            raise ValueError("this was not sealed with our public key, or holds no text") from None
