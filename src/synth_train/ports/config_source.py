"""Where training configs come from. In memory: `adapters.in_memory.configs.InMemoryConfigs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from synth_train.domain.model.places import KeyPath, Place


class ConfigDocument(Struct, frozen=True, kw_only=True):
    """A TOML that could be read."""

    path: Path
    """Absolute."""
    shown: str
    """The path as the user wrote it, for messages."""
    table: Mapping[str, object]
    place_of: Callable[[KeyPath], Place]
    """Where a key stands, or its nearest parent that does. Slow; for messages only."""


class Override(Struct, frozen=True):
    """One `--set a.b.c=VALUE`, parsed. What was typed is not kept: it may be a secret, and messages name the key."""

    path: tuple[str, ...]
    value: object


class ConfigSourcePort(Protocol):
    """TOML files, and the memory of the one chosen last."""

    def discover(self) -> tuple[ConfigDocument, ...]:
        """Every readable `*.toml` below the working directory (and its `configs`, `examples`, `training` folders)
        that has a training table (`algorithm`, `job`, `training`, `hyperparameters`), by depth, then by path.
        Folders of tools (`.git`, `.venv`, `node_modules`, `__pycache__`, `dist`, `build`) are not entered."""
        ...

    def searched(self) -> tuple[Path, ...]:
        """The directories that `discover` begins at, absolute, for the message that nothing was found."""
        ...

    def read(self, path: Path) -> ConfigDocument:
        """Read one file as UTF-8 whatever the locale, a byte-order mark at its start skipped.

        Raises:
            InvalidConfig: there is no such file, it cannot be read, is not UTF-8 (with the line; UTF-16 is named),
                or is no TOML (with the line).
        """
        ...

    def override(self, text: str) -> Override:
        """Parse the argument of `--set`; the value is TOML.

        Raises:
            UsageError: it is not `dotted.key=TOML value`.
        """
        ...

    def last_chosen(self) -> Path | None:
        """The config that was chosen last, if that is remembered. Never raises."""
        ...

    def remember(self, path: Path) -> None:
        """Remember `path` as chosen last. Best effort: never raises."""
        ...
