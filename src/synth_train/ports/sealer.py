"""Sealing a key for a backend's eyes only. In memory: `adapters.in_memory.sealer.ReadableSealer`."""

from __future__ import annotations

from typing import Protocol

from synth_train.domain.model.secret import Secret

PUBLIC_KEY_BYTES = 32
LONGEST_SECRET = 8192
"""Bytes of UTF-8 (wire-contract §5)."""


class SealerPort(Protocol):
    """Anonymous public-key encryption, `libsodium.sealedbox.v1` on the real wire."""

    def seal(self, public_key: bytes, secret: Secret) -> bytes:
        """The UTF-8 text of `secret`, readable only for the holder of the private key.

        Raises:
            ValueError: the key is not 32 bytes, or the secret is empty or longer than 8192 bytes.
        """
        ...
