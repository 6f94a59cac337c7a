"""ConfigSourcePort on the disk, with tomli."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from synth_train.adapters import toml_text
from synth_train.domain.model.errors import InvalidConfig
from synth_train.domain.model.nearness import nearest
from synth_train.domain.model.places import Place, Problem
from synth_train.ports.config_source import ConfigDocument, ConfigSourcePort, Override

TOOL_FOLDERS = frozenset((".git", ".venv", "node_modules", "__pycache__", "dist", "build"))
"""Where tools keep their own files: nobody's configs, and often most of a tree."""

_USUAL_FOLDERS = ("configs", "examples", "training")
_MOST_NAMED = 5
_MEMORY = "train_cli.json"
_LAST = "LAST_CONFIG"


class TomlConfigs(ConfigSourcePort):
    """The TOML files below a directory.

    Args:
        working_directory: where relative paths begin, and what is searched.
        home: our own directory, `~/.synth-ai` unless `SYNTH_AI_HOME` moves it; remembers the last choice, which is
            forgotten where there is none.
    """

    def __init__(self, working_directory: Path, *, home: Path | None) -> None:
        self._cwd = working_directory.absolute()
        self._memory = home / _MEMORY if home else None

    def discover(self) -> tuple[ConfigDocument, ...]:
        found = sorted(set(self._tomls()), key=lambda shown: (shown.count(os.sep), shown))
        documents = (self._training_config(shown) for shown in found)
        return tuple(document for document in documents if document is not None)

    def searched(self) -> tuple[Path, ...]:
        here = os.path.realpath(self._cwd)
        linked = (self._cwd / name for name in _USUAL_FOLDERS)
        return (self._cwd, *(folder for folder in linked if folder.is_symlink() and _leads_away(folder, here)))

    def _tomls(self) -> Iterator[str]:
        """Paths of files, relative to the working directory. Links to folders are not followed, since they may lead
        astray or in circles; but a usual folder may be one."""
        for top in self.searched():
            for folder, inner, files in os.walk(top):
                inner[:] = [name for name in inner if name not in TOOL_FOLDERS]
                for name in files:
                    if name.endswith(".toml"):
                        yield os.path.relpath(os.path.join(folder, name), self._cwd)  # noqa: PTH118 - 3 x faster

    def _training_config(self, shown: str) -> ConfigDocument | None:
        path = self._cwd / shown
        try:
            return toml_text.training_document(_raw(path), path=path, shown=shown)
        except OSError:
            return None

    def read(self, path: Path) -> ConfigDocument:
        absolute = self._cwd / path
        try:
            raw = _raw(absolute)
        except OSError as error:
            problem = Problem(Place(str(path)), "", _trouble(absolute, error))
            raise InvalidConfig(str(problem), problems=(problem,)) from error
        return toml_text.document(raw, path=absolute, shown=str(path))

    def override(self, text: str) -> Override:
        return toml_text.override(text)

    def last_chosen(self) -> Path | None:
        last = self._remembered().get(_LAST)
        return Path(last) if isinstance(last, str) and last else None

    def remember(self, path: Path) -> None:
        if self._memory is None:
            return
        aside = self._memory.with_name(f".{_MEMORY}.{os.getpid()}")
        # A choice that cannot be remembered is made again next time; nothing is lost.
        with suppress(OSError, ValueError):
            self._memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.write_bytes(msgspec.json.encode({**self._remembered(), _LAST: str(path)}))
            aside.replace(self._memory)
        with suppress(OSError):
            aside.unlink(missing_ok=True)

    def _remembered(self) -> dict[str, object]:
        if self._memory is None:
            return {}
        try:
            return msgspec.json.decode(self._memory.read_bytes(), type=dict[str, object])
        except (OSError, ValueError):
            return {}


def _leads_away(link: Path, here: str) -> bool:
    """Whether a link leads to a directory that is neither in `here` nor around it: those would be searched twice."""
    there = os.path.realpath(link)
    return os.path.isdir(there) and os.path.commonpath((there, here)) not in (there, here)  # noqa: PTH112


def _raw(path: Path) -> bytes:
    if "\0" in str(path):  # which would be a ValueError
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    with path.open("rb") as file:
        return file.read(toml_text.LARGEST + 1)


def _trouble(path: Path, error: OSError) -> str:
    """Why a config cannot be read, and which file may have been meant."""
    if isinstance(error, IsADirectoryError):
        return "this is a directory; name a TOML file in it" + _found_in(path)
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"this file cannot be read: {error.strerror}"
    if not path.parent.is_dir():
        return f"there is no such file, and no directory {path.parent}"
    meant = nearest(path.stem, [Path(name).stem for name in _configs_in(path.parent)])
    if meant:
        return f"there is no such file; did you mean {meant}.toml?"
    return "there is no such file" + _found_in(path.parent)


def _found_in(folder: Path) -> str:
    names = _configs_in(folder)
    shown = [*names[:_MOST_NAMED], *([f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else [])]
    if not shown:
        return ""
    *head, last = shown
    return f"; there {'are' if head else 'is'} {', '.join(head)}{' and ' if head else ''}{last}"


def _configs_in(folder: Path) -> list[str]:
    """Names of the training configs in a directory. Other TOMLs, such as `pyproject.toml`, are not what was meant."""
    names = []
    with suppress(OSError):
        for file in sorted(folder.glob("*.toml")):
            with suppress(OSError):
                if toml_text.training_document(_raw(file), path=file, shown=file.name) is not None:
                    names.append(file.name)
    return names
