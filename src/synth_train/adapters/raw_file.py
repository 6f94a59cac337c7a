"""Files written without a buffer: a full disk shows in the write that did not fit, not when the file is closed."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


def create(path: Path, mode: int = 0o666) -> FileIO:
    """A new file, open for writing.

    Raises:
        OSError: there is one already, or it cannot be made.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    return FileIO(descriptor, "wb")


def append(path: Path) -> FileIO:
    """A file, made if it is not there, open for writing behind what it holds.

    Raises:
        OSError: it cannot be made, or not be written to.
    """
    return FileIO(path, "ab")


def write_all(file: FileIO, chunk: bytes) -> None:
    """Write a chunk, whole.

    Raises:
        OSError: it did not fit, or the disk does not take it.
    """
    left = memoryview(chunk)
    while left:
        left = left[file.write(left) :]
