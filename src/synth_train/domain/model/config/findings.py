"""What was found wrong with a table, before it is known where in the file that stands."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from synth_train.domain.model.places import KeyPath, Severity


class Finding(Struct, frozen=True):
    """One thing that is wrong with the value at `path`."""

    path: KeyPath
    what: str
    severity: Severity = Severity.ERROR
    of_unknown_key: bool = False
    """Whether it is about a key that nothing is known of: such can be let through."""
    meant: KeyPath = ()
    """The known key, absent so far, that an unknown one is taken for."""


class UnknownKeys(str, Enum):
    """What an unknown TOML key is."""

    BY_LIKENESS = "by likeness"
    """An error when it looks like a misspelt known key that is not there, else a warning."""
    ERRORS = "errors"
    WARNINGS = "warnings"
