"""Where keys and addresses come from. In memory: `adapters.in_memory.env.InMemoryEnv`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class EnvFile(Struct, frozen=True, kw_only=True):
    """What a `.env` file holds. Values are literal: nothing in them is expanded."""

    path: Path
    values: Mapping[str, str]
    unreadable_lines: tuple[int, ...] = ()
    """Physical lines that are neither a setting, a comment nor blank. Their text is never told: it may be a key."""

    def __repr__(self) -> str:
        return f"EnvFile({str(self.path)!r}, names={sorted(self.values)})"


class EnvSourcePort(Protocol):
    """Process environment and `.env` files."""

    def process(self) -> Mapping[str, str]:
        """The variables of this process. An empty one counts as unset and is left out."""
        ...

    def candidates(self, beside: Path | None = None) -> tuple[Path, ...]:
        """The `.env` files that may be meant, best first, each once: `./.env`, others below the working directory
        (20 at most; `.venv`, `node_modules`, `__pycache__`, `.git` are not entered), the one in `beside` (the
        directory of a config), `~/.synth-ai/.env`. Only files that exist."""
        ...

    def places(self, beside: Path | None = None) -> tuple[Path, ...]:
        """The directories that `candidates` looks in, for the message that nothing was found."""
        ...

    def default_file(self) -> Path:
        """`./.env`, whether it exists or not."""
        ...

    def read(self, path: Path) -> EnvFile:
        """Read a file as UTF-8, a byte-order mark at its start skipped. Of a name set twice the last counts.

        Raises:
            UsageError: there is no such file.
            LocalStateError: it cannot be read, or is not UTF-8; UTF-16 is named.
        """
        ...

    def save(self, path: Path, name: str, value: str) -> None:
        """Set one variable, leaving every other byte of the file as it was.

        The file is replaced in one step and never half written. A new file has mode 0600 from its first moment,
        an older one is tightened to it. A link stays a link; what it points to is written.

        Raises:
            LocalStateError: it could not be written; the file is as before.
        """
        ...
