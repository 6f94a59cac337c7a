"""Where something stands, and what is wrong with it there."""

from __future__ import annotations

import re
from enum import Enum

import msgspec
from msgspec import Struct

KeyPath = tuple[str | int, ...]
"""The keys from the root of a TOML to a value; a number is an index into an array."""

_BARE = r"[A-Za-z0-9_-]+"


def dotted(path: KeyPath) -> str:
    """`path` as a person writes it: `training.weight_sync.targets[1]`; a key that TOML would quote is quoted."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            name = step if re.fullmatch(_BARE, step) else msgspec.json.encode(step).decode()
            parts.append(f".{name}" if parts else name)
    return "".join(parts)


def quoted(text: str, *, at_most: int = 80) -> str:
    """`text` in quotes on one line, cut when it is long, for a message."""
    short = text if len(text) <= at_most else text[: at_most - 1] + "…"
    return msgspec.json.encode(short.encode("utf-8", "replace").decode()).decode()


class Place(Struct, frozen=True):
    """A spot that a person can open: a file and a line, or an option of the command line."""

    source: str
    """A path as the user wrote it, or an option such as `--set training.batch_size=0`."""
    line: int | None = None
    """Physical line, counted from 1."""

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


class Severity(str, Enum):
    """An error stops the submission; a warning is said and goes on."""

    ERROR = "error"
    WARNING = "warning"


class Problem(Struct, frozen=True):
    """One thing that is wrong, as `place: key: what`."""

    place: Place
    key: str
    """Dotted TOML key or path in a row, such as `messages[1].content`; empty for the whole file."""
    what: str
    """What is wrong and, where one can tell, what would be right."""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        return f"{self.place}: {key}{self.what}"
