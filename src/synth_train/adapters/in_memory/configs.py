"""Configs in a dict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from synth_train.adapters import toml_text
from synth_train.domain.model.errors import InvalidConfig
from synth_train.domain.model.places import Place, Problem
from synth_train.ports.config_source import ConfigDocument, ConfigSourcePort, Override


class InMemoryConfigs(ConfigSourcePort):
    """ConfigSourcePort over texts by path, relative to a working directory that need not exist.

    Arrange with `files` (`{"configs/rl.toml": "..."}`; bytes for what is no UTF-8); read `chosen` to see what was
    remembered. The texts are read as those on a disk are, places included.
    """

    def __init__(self, files: Mapping[str, str | bytes], *, working_directory: Path = Path("/repo")) -> None:
        self.files = dict(files)
        self.chosen: Path | None = None
        self._cwd = working_directory

    def discover(self) -> tuple[ConfigDocument, ...]:
        names = sorted(self.files, key=lambda name: (name.count("/"), name))
        found = (
            toml_text.training_document(self._raw(name), path=self._cwd / name, shown=name)
            for name in names
            if name.endswith(".toml")
        )
        return tuple(document for document in found if document is not None)

    def searched(self) -> tuple[Path, ...]:
        return (self._cwd,)

    def read(self, path: Path) -> ConfigDocument:
        absolute = self._cwd / path
        inside = absolute.relative_to(self._cwd).as_posix() if absolute.is_relative_to(self._cwd) else ""
        if inside not in self.files:
            problem = Problem(Place(str(path)), "", "there is no such file")
            raise InvalidConfig(str(problem), problems=(problem,))
        return toml_text.document(self._raw(inside), path=absolute, shown=str(path))

    def _raw(self, name: str) -> bytes:
        content = self.files[name]
        return content.encode() if isinstance(content, str) else content

    def override(self, text: str) -> Override:
        return toml_text.override(text)

    def last_chosen(self) -> Path | None:
        return self.chosen

    def remember(self, path: Path) -> None:
        self.chosen = path
