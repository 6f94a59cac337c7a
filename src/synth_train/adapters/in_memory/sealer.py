"""A seal that anybody can look through."""

from __future__ import annotations

from synth_train.domain.model.secret import Secret
from synth_train.ports.hosting import Unsealer
from synth_train.ports.sealer import LONGEST_SECRET, SealerPort

_PUBLIC_KEY_SIZE = 32
_MARK = b"sealed for "


class ReadableSealer(SealerPort):
    """SealerPort that hides nothing: what it gives begins with the public key, and the secret follows."""

    def seal(self, public_key: bytes, secret: Secret) -> bytes:
        text = secret.reveal().encode()
        if len(public_key) != _PUBLIC_KEY_SIZE:
            raise ValueError(f"a public key has {_PUBLIC_KEY_SIZE} bytes, this one {len(public_key)}")
        if not 0 < len(text) <= LONGEST_SECRET:
            raise ValueError(f"a secret to seal has 1 to {LONGEST_SECRET} bytes, this one {len(text)}")
        return _MARK + public_key + text


class ReadableUnsealer(Unsealer):
    """Unsealer for what `ReadableSealer` sealed with `public_key`."""

    def __init__(self, public_key: bytes = bytes(range(_PUBLIC_KEY_SIZE))) -> None:
        self._public_key = public_key

    def public_key(self) -> bytes:
        return self._public_key

    def unseal(self, sealed: bytes) -> Secret:
        head = _MARK + self._public_key
        if not sealed.startswith(head):
            raise ValueError("this was not sealed with the public key of this backend")
        try:
            return Secret(sealed[len(head) :].decode())
        except UnicodeDecodeError:
            raise ValueError("what was sealed is no text") from None
