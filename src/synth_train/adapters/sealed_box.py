"""libsodium's sealed box, by PyNaCl."""

from __future__ import annotations

from synth_train.domain.model.secret import Secret
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
