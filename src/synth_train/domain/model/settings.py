"""Variables: the process environment, then `.env` files; and the names that mean something to us (wire-contract §5.1).

A process variable beats every file; of several files a later one beats an earlier one; an empty or blank value counts
as unset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.nearness import nearest
from synth_train.domain.model.secret import Secret

API_KEY = "SYNTH_API_KEY"
ENVIRONMENT_KEY = "ENVIRONMENT_API_KEY"
ENVIRONMENT_KEY_IN_FILES = ("dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY")
"""Other names of ENVIRONMENT_API_KEY, honoured in env files only."""
ENVIRONMENT_KEY_ALIASES = "ENVIRONMENT_API_KEY_ALIASES"
"""Comma list of further keys that a task app may accept."""
TASK_URL = ("TASK_APP_URL", "TASK_APP_BASE_URL")
EXPERIMENTAL = "SDK_EXPERIMENTAL"
EXPERIMENTAL_MODELS = "SDK_EXPERIMENTAL_MODELS"

_MEANT = frozenset({API_KEY, ENVIRONMENT_KEY, *ENVIRONMENT_KEY_IN_FILES, ENVIRONMENT_KEY_ALIASES})
_FILLED_WITH = r"(?:(?:sk|pk|key|synth)[-_]?)?[x.*\u2026_-]+|<.*>"
_FILLED_IN_WORDS = (
    r"(?:sk|synth)?(?:changeme|replaceme|placeholder|todo|apikey|(?:insert|paste|put|enter|add)?your"
    r"[a-z]*(?:key|token|secret)(?:here|goeshere)?)"
)

_YES = frozenset({"1", "true", "yes", "on"})
_PROCESS = "the process environment"


def is_placeholder(text: str) -> bool:
    """Whether a value is what templates write where a key belongs: `...`, `<your key>`, `sk-xxxx`, `changeme`."""
    plain = text.strip().strip("'\"").casefold()
    return bool(re.fullmatch(_FILLED_WITH, plain) or re.fullmatch(_FILLED_IN_WORDS, re.sub(r"[-_ ]", "", plain)))


class EnvFile(Struct, frozen=True, kw_only=True):
    """What a `.env` file holds. Values are literal: nothing in them is expanded."""

    path: Path
    """Absolute."""
    values: Mapping[str, str]
    lines: Mapping[str, int] = {}
    """Physical line of each name, counted from 1, as far as it is known."""
    unreadable_lines: tuple[int, ...] = ()
    """Physical lines that are neither a setting, a comment nor blank. Their text is never told: it may be a key."""

    def __repr__(self) -> str:
        return f"EnvFile({str(self.path)!r}, {len(self.values)} values, unreadable_lines={self.unreadable_lines})"


class Found(Struct, frozen=True):
    """A variable that is set, and who set it."""

    value: str
    name: str
    source: str
    """`the process environment`, or the path of an env file."""
    line: int | None = None
    """In that file."""

    @property
    def place(self) -> str:
        """Such as `SYNTH_API_KEY in /home/me/.env:3`, for messages that ask for a change there."""
        return self.where if self.line is None else f"{self.where}:{self.line}"

    @property
    def where(self) -> str:
        """Such as `TASK_APP_URL in /home/me/.env`, for messages."""
        return f"{self.name} in {self.source}"

    def __repr__(self) -> str:
        return f"Found({self.where})"


class Variables(Struct, frozen=True, kw_only=True):
    """All variables of a run, and where was looked for them."""

    process: Mapping[str, str] = {}
    files: tuple[EnvFile, ...] = ()
    """In the order they were given: the last one wins."""
    named: bool = False
    """Whether the user named or picked the files. A file found by itself may not decide where a key is sent."""
    searched: tuple[Path, ...] = ()
    """Directories in which env files were looked for."""
    passed_over: tuple[Path, ...] = ()
    """Env files that were found and not read."""

    def __repr__(self) -> str:
        return f"Variables({len(self.process)} in {_PROCESS}, files={list(self.files)})"

    def lookup(self, *names: str) -> Found | None:
        """The first of `names` that is set anywhere; an earlier name in a file comes before a later one in the
        process."""
        return next(self._found(names, self._layers()), None)

    def in_files(self, *names: str) -> Found | None:
        """The first of `names` that is set in an env file."""
        return next(self._found(names, self._layers()[1:]), None)

    def like(self, name: str) -> Iterator[Found]:
        """Variables that are set and whose names look as if `name` was meant: misspelt, or `SYNTH_KEY` for
        `SYNTH_API_KEY`."""
        for source, values in self._layers():
            for other in sorted(values):
                alike = (other.startswith(name[:3]) and other.endswith("KEY")) or nearest(other, (name,))
                if alike and other not in _MEANT:
                    yield from self._found((other,), [(source, values)])

    def chosen(self) -> Variables:
        """Only what the user answers for: the process environment, and files that were named or picked."""
        return self if self.named else Variables(process=self.process)

    def environment_key(self) -> Found | None:
        """The key of the task app."""
        return self.lookup(ENVIRONMENT_KEY) or self.in_files(*ENVIRONMENT_KEY_IN_FILES)

    def file_of(self, found: Found) -> Path | None:
        """The env file that holds what was found; None when it is in the process environment."""
        return next((file.path for file in self.files if str(file.path) == found.source), None)

    def listed(self, name: str) -> tuple[str, ...]:
        """A comma list, blanks around its items and empty items left out."""
        found = self.lookup(name)
        return _items(found.value) if found else ()

    @property
    def experimental(self) -> bool:
        """Whether experimental models are allowed by `SDK_EXPERIMENTAL`."""
        found = self.lookup(EXPERIMENTAL)
        return found is not None and found.value.strip().lower() in _YES

    @property
    def experimental_models(self) -> tuple[str, ...]:
        """Model ids that count as experimental besides those of the catalogue."""
        return self.listed(EXPERIMENTAL_MODELS)

    def secrets(self) -> tuple[Secret, ...]:
        """Every key in sight, each once, those that lost against another included: none may be shown or sent on."""
        names = (API_KEY, ENVIRONMENT_KEY, *ENVIRONMENT_KEY_IN_FILES)
        texts = [found.value.strip() for found in self._found(names, self._layers())]
        for found in self._found((ENVIRONMENT_KEY_ALIASES,), self._layers()):
            texts.extend(_items(found.value))
        return tuple(map(Secret, dict.fromkeys(texts)))

    def _layers(self) -> list[tuple[str, Mapping[str, str]]]:
        return [(_PROCESS, self.process), *((str(file.path), file.values) for file in reversed(self.files))]

    def _found(self, names: tuple[str, ...], layers: list[tuple[str, Mapping[str, str]]]) -> Iterator[Found]:
        for name in names:
            for source, values in layers:
                if values.get(name, "").strip():
                    yield Found(values[name], name, source, self._line(source, name))

    def _line(self, source: str, name: str) -> int | None:
        return next((file.lines.get(name) for file in self.files if str(file.path) == source), None)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())
