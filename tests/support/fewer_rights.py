"""For tests of what file modes forbid, which bind everybody but root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

NOBODY = 65534


@contextmanager
def without_root() -> Iterator[None]:
    """Be nobody for a while, if we are root; else change nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
