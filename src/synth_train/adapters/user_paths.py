"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: Path | str) -> Path:
    """`path` with a `~` at its start written out; as it is where no such home is known: Path.expanduser would raise."""
    return Path(os.path.expanduser(path))  # noqa: PTH111
