"""TOML from bytes: its table, the line of every key, and the words for what is no TOML.

tomli tells no positions. They are found, when a message needs one, by feeding it one statement at a time.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli

from synth_train.domain.model.errors import InvalidConfig, UsageError
from synth_train.domain.model.places import KeyPath, Place, Problem, dotted
from synth_train.ports.config_source import ConfigDocument, Override

LARGEST = 8 << 20
"""Bytes. Whatever is larger is no config that somebody wrote."""

TRAINING_TABLES = ("algorithm", "job", "training", "hyperparameters")
"""A TOML with one of these describes a training job; an evaluation may have everything else (design §4)."""

# Patterns are compiled by `re` when they are first used: a config that is in order needs none of them.
_TRAINING_HEADER = rb"""(?m)^[ \t\[]*["']?(?:%s)["']?[ \t]*[.\]=]""" % "|".join(TRAINING_TABLES).encode()
_POSITION = r"line (\d+), column (\d+)"
_TOKEN = (
    r'(?s)"""(?:\\.|[^\\])*?""""{0,2}'
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[\]{}\n]"
)
_TOO_LONG = "this number has more digits than can be read"
_MOST_BITS = 8 << 10
"""Of a whole number. Python turns thousands of decimal digits into no number, nor a number of thousands of hexadecimal
ones into the text of a message."""
_CLOSING = {"[": "]", "{": "}"}
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_SETTING = rf"(?s)[ \t]*({_KEY}(?:[ \t]*\.[ \t]*{_KEY})*)[ \t]*=(.*)"
_OURS = {
    "Invalid value": "the value is missing or no TOML; text needs quotes, truth values are true and false",
    "Expected newline or end of document after a statement": "the value should end here; text needs quotes",
    "Expected '=' after a key in a key/value pair": "an = is missing after the key",
    "Invalid statement": "this is neither a [section] nor a key = value",
    "Unterminated string": "the closing quote is missing",
    'Expected "\'"': "the closing quote is missing",
    "Illegal character '\\n'": "the closing quote is missing",
    "Cannot overwrite a value": "this key is set twice",
}


def document(raw: bytes, *, path: Path, shown: str) -> ConfigDocument:
    """Read the bytes of a config.

    Raises:
        InvalidConfig: too large, not UTF-8, or no TOML.
    """
    text = _decoded(raw, shown)
    lines = _Lines(text)

    def place_of(key: KeyPath) -> Place:
        return Place(shown, lines.of(key))

    return ConfigDocument(path=path, shown=shown, table=_parsed(text, shown), place_of=place_of)


def training_document(raw: bytes, *, path: Path, shown: str) -> ConfigDocument | None:
    """Read the bytes of a TOML if they describe a training job; None when they do not, or cannot be read."""
    if not re.search(_TRAINING_HEADER, raw.removeprefix(codecs.BOM_UTF8)):
        return None
    try:
        read = document(raw, path=path, shown=shown)
    except InvalidConfig:
        return None
    return read if any(isinstance(read.table.get(name), dict) for name in TRAINING_TABLES) else None


def override(text: str) -> Override:
    """One `--set`, as `ConfigSourcePort.override` promises."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError("--set: this is not UTF-8") from error
    setting = re.fullmatch(_SETTING, text)
    if setting is None:
        raise UsageError("--set: expected key=value", hint="For example: --set training.batch_size=8")
    try:
        path = _only_path(tomli.loads(f"{setting[1]} = 0"))
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise UsageError("--set: the key is none that TOML has") from error
    try:
        table = _loads(f"value = {setting[2]}")
    except (tomli.TOMLDecodeError, RecursionError) as error:
        raise _no_value(path, setting[2].strip()) from error
    except ValueError as error:
        raise UsageError(f"--set {dotted(path)}: {_TOO_LONG}") from error
    if len(table) > 1:
        raise _no_value(path, "")
    return Override(path, table["value"])


def _no_value(path: tuple[str, ...], value: str) -> UsageError:
    key = dotted(path)
    if value.lower() in ("true", "false"):
        hint = f"Truth values are written small: --set {key}={value.lower()}"
    else:
        hint = f"Text needs double quotes, which the shell must not take away: --set '{key}=\"...\"'"
    return UsageError(f"--set {key}: the value is missing or no TOML", hint=hint)


def _decoded(raw: bytes, shown: str) -> str:
    if len(raw) > LARGEST:
        raise _refusal(Place(shown), f"this is larger than {LARGEST >> 20} MiB, so it is no config")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _refusal(Place(shown, 1), "this file is in UTF-16, not UTF-8; save it as UTF-8")
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise _refusal(Place(shown, line), "this holds NUL bytes: it is damaged or not UTF-8; save it as UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from behind the byte-order mark.
        start = error.start + len(raw) - len(error.object)
        line = raw.count(b"\n", 0, start) + 1
        raise _refusal(Place(shown, line), f"this is not UTF-8: byte {raw[start]:#04x}; save it as UTF-8") from error


def _loads(text: str) -> dict[str, Any]:
    """What tomli reads. A number that is too long is a ValueError, as it is one for Python, in every base."""
    table = tomli.loads(text)
    pending: list[Any] = [table]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ValueError(_TOO_LONG)
    return table


def _parsed(text: str, shown: str) -> dict[str, Any]:
    try:
        return _loads(text)
    except tomli.TOMLDecodeError as error:
        raise _no_toml(text, shown, error) from error
    except RecursionError as error:
        raise _refusal(Place(shown), "tables and lists are nested too deeply") from error
    except ValueError as error:
        raise _refusal(Place(shown, _line_of_the_long_number(text)), _TOO_LONG) from error


def _line_of_the_long_number(text: str) -> int | None:
    return next((line for line, statement in _statements(text) if not _is_readable(statement)), None)


def _is_readable(statement: str) -> bool:
    try:
        _loads(statement)
    except ValueError:
        return False
    return True


def _no_toml(text: str, shown: str, error: tomli.TOMLDecodeError) -> InvalidConfig:
    """Say it of the first statement that cannot be read by itself: after a forgotten quote or bracket tomli gives up
    much later, often at the end. When each can be read by itself, as with a key that is set twice, say what it says."""
    begun, faulty = 1, text
    for line, statement in _statements(text):
        try:
            tomli.loads(statement)
        except tomli.TOMLDecodeError as its:
            begun, faulty, error = line, statement, its
            break
        except (ValueError, RecursionError):  # behind what tomli stopped at
            break
    reason, _, spot = str(error).partition(" (at ")
    within, column = faulty.strip().count("\n"), ""
    if position := re.match(_POSITION, spot):
        within, column = int(position[1]) - 1, f", column {position[2]}"
    since = f"; what is wrong may begin in line {begun}" if within and faulty is not text else ""
    return _refusal(Place(shown, begun + within), f"this is no TOML{column}: {_reworded(reason)}{since}")


def _reworded(reason: str) -> str:
    """tomli's reason in our words, where those say more."""
    return "this section is there twice" if reason.startswith("Cannot declare") else _OURS.get(reason, reason)


def _refusal(place: Place, what: str) -> InvalidConfig:
    problem = Problem(place, "", what)
    return InvalidConfig(str(problem), problems=(problem,))


class _Lines:
    """The line of every key of a TOML that could be read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, key: KeyPath) -> int | None:
        """The line of `key`, or of what it would stand in; None for the file as a whole."""
        while key:
            if key in self._begins:
                line, statement, inside = self._begins[key]
                return line + _line_within(statement, inside)
            key = key[:-1]
        return None

    @cached_property
    def _begins(self) -> dict[KeyPath, tuple[int, str, KeyPath]]:
        """For each key the line and text of its statement, and its path within that."""
        begins: dict[KeyPath, tuple[int, str, KeyPath]] = {}
        section: KeyPath = ()
        last_item: dict[KeyPath, int] = {}
        for line, statement in _statements(self._text):
            keys = tomli.loads(statement)
            if not statement.lstrip().startswith("["):
                for inside in _paths(keys):
                    begins.setdefault((*section, *inside), (line, statement, inside))
                continue
            section = ()
            names = _only_path(keys)
            for count, name in enumerate(names, 1):
                section = (*section, name)
                begins.setdefault(section, (line, "", ()))
                if count == len(names) and statement.lstrip().startswith("[["):
                    last_item[section] = last_item.get(section, -1) + 1
                if section in last_item:
                    section = (*section, last_item[section])
                    begins.setdefault(section, (line, "", ()))
        return begins


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Headers and settings, each with its first line; comments and blank lines are left out."""
    line, start, depth = 1, 0, 0
    for token in re.finditer(_TOKEN, text + "\n"):
        mark = token[0]
        depth += (mark in "[{") - (mark in "]}")
        if mark == "\n" and depth <= 0:
            statement = text[start : token.end()]
            if statement.strip() and not statement.lstrip().startswith("#"):
                yield line, statement
            line += statement.count("\n")
            start, depth = token.end(), 0
    if text[start:].strip():
        yield line, text[start:]


def _line_within(statement: str, inside: KeyPath) -> int:
    """In which line of its statement, counted from 0, a value begins: the first at whose end it is there."""
    begins, ends = [0], list[str]()
    open_ones: list[str] = []
    for token in re.finditer(_TOKEN, statement.rstrip()):
        if token[0] in _CLOSING:
            open_ones.append(_CLOSING[token[0]])
        elif token[0] in "]}":
            open_ones.pop()
        elif token[0] == "\n":
            ends.append(statement[: token.end()] + "".join(reversed(open_ones)))
            begins.append(statement.count("\n", 0, token.end()))
    return begins[bisect_left(ends, True, key=lambda begun: inside in _paths(tomli.loads(begun)))]


def _paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _only_path(table: dict[str, Any]) -> tuple[str, ...]:
    """The keys of a table that holds one key, which holds one key, and so on: what a header or a dotted key makes."""
    path: list[str] = []
    inner: Any = table
    while isinstance(inner, dict) and inner:
        ((name, inner),) = inner.items()
        path.append(name)
        if isinstance(inner, list):
            inner = inner[0]
    return tuple(path)
