"""What tells one submission, and one account, from another: hashes, from which nothing can be had back."""

from __future__ import annotations

import hashlib

from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.secret import Secret


def account_of(backend: str, key: Secret | None) -> str:
    """A name for the account that `key` opens on `backend`, from which the key cannot be had back."""
    text = f"{backend}\0{key.reveal() if key else ''}"
    return hashlib.sha256(b"synth-train account\0" + text.encode()).hexdigest()[:16]


def fingerprint_of(
    *, backend: str, account: str, kind: Kind, config: bytes, request: bytes, uploads: tuple[str, ...]
) -> str:
    """What makes two runs the same submission: where it goes, for whom, what is asked, and with which bytes.

    Args:
        config: the resolved TOML table, encoded.
        request: the body with its file ids null.
        uploads: SHA-256 of each file's bytes, in the order they are uploaded.
    """
    digest = hashlib.sha256()
    for part in (
        backend.encode(),
        account.encode(),
        kind.value.encode(),
        config,
        request,
        *map(str.encode, uploads),
    ):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
