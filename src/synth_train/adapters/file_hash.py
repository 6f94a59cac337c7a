"""Hashes of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal, in memory that does not grow with it.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
