"""Where keys and addresses come from. In memory: `adapters.in_memory.env.InMemoryEnv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from synth_train.domain.model.settings import EnvFile


class EnvSourcePort(Protocol):
    """Process environment and `.env` files. Every path given back is absolute; one taken may be relative to the
    working directory, or begin with `~`."""

    def process(self) -> Mapping[str, str]:
        """The variables of this process. An empty one counts as unset and is left out."""
        ...

    def candidates(self, beside: Sequence[Path] = ()) -> tuple[Path, ...]:
        """The `.env` files that may be meant, best first, each once: `./.env`; others below the working directory,
        by depth and then by path (20 of these at most; folders of tools, such as `.venv`, `node_modules`,
        `__pycache__` and `.git`, are not entered); those in `beside` (the directories of the configs);
        `~/.synth-ai/.env`. Only files that exist. Never raises: a directory that cannot be read holds none."""
        ...

    def places(self, beside: Sequence[Path] = ()) -> tuple[Path, ...]:
        """The directories that `candidates` looks in, each once, for the message that nothing was found."""
        ...

    def default_file(self) -> Path:
        """`./.env`, whether it exists or not."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether there is a file of that name, readable or not."""
        ...

    def read(self, path: Path) -> EnvFile:
        """Read a file as UTF-8, a byte-order mark at its start skipped. Of a name set twice the last counts.

        Raises:
            UsageError: there is no such file.
            LocalStateError: it cannot be read, or is not UTF-8 (with the line; UTF-16 is named).
        """
        ...

    def save(self, path: Path, name: str, value: str) -> None:
        """Set one variable, so that `read` gives `value` back, leaving every other byte of the file as it was.

        Of a name set twice the one that counts is replaced; a new name goes to the end. The file is replaced in one
        step and never half written. A new file has mode 0600 from its first moment, an older one is tightened to it.
        A link stays a link; what it points to is written.

        Raises:
            LocalStateError: it could not be written, or not be read; the file is as before.
        """
        ...
