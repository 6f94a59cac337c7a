"""Where something stands, and what is wrong with it there."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


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
