"""Variables and env files without a file system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from synth_train.domain.model.errors import LocalStateError, UsageError
from synth_train.domain.model.settings import EnvFile
from synth_train.ports.env_source import EnvSourcePort

CWD = Path("/repo")
HOME = Path("/home/me/.synth-ai")


class InMemoryEnv(EnvSourcePort):
    """EnvSourcePort in two dicts, for somebody who works in `/repo` and keeps things in `/home/me/.synth-ai`.

    Arrange with `process` and `put`; set `trouble[path]` for a file that can be neither read nor written. Assert on
    `files`, and on `saved`: each `(path, name)`, in order.
    """

    def __init__(self, process: Mapping[str, str] | None = None) -> None:
        self.variables = dict(process or {})
        self.files: dict[Path, EnvFile] = {}
        self.trouble: dict[Path, LocalStateError] = {}
        self.saved: list[tuple[Path, str]] = []

    def put(
        self, path: str | Path, values: Mapping[str, str] | None = None, *, unreadable_lines: tuple[int, ...] = ()
    ) -> Path:
        """Let there be a file."""
        path = CWD / path
        self.files[path] = EnvFile(path=path, values=dict(values or {}), unreadable_lines=unreadable_lines)
        return path

    def process(self) -> Mapping[str, str]:
        return {name: value for name, value in self.variables.items() if value}

    def candidates(self, beside: Sequence[Path] = ()) -> tuple[Path, ...]:
        files = [path for path in self.files if path.name == ".env"]
        below = sorted((path for path in files if CWD in path.parents), key=lambda path: (len(path.parts), path))
        others = [place / ".env" for place in self.places(beside)]
        return tuple(dict.fromkeys([*below, *(path for path in others if path in files)]))

    def places(self, beside: Sequence[Path] = ()) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((CWD, *(CWD / directory for directory in beside), HOME)))

    def default_file(self) -> Path:
        return CWD / ".env"

    def exists(self, path: Path) -> bool:
        return CWD / path in self.files

    def read(self, path: Path) -> EnvFile:
        path = CWD / path
        if path in self.trouble:
            raise self.trouble[path]
        if path not in self.files:
            raise UsageError(f"{path}: there is no such env file", hint="Give --env-file the path of a file.")
        return self.files[path]

    def save(self, path: Path, name: str, value: str) -> None:
        path = CWD / path
        if path in self.trouble:
            raise self.trouble[path]
        file = self.files.get(path, EnvFile(path=path, values={}))
        self.files[path] = replace(file, values={**file.values, name: value})
        self.saved.append((path, name))
