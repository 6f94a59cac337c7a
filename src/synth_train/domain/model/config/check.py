"""A raw table against the typed view of its kind: every problem, in our own words.

msgspec stops at its first error and words it for programmers, so its types only say here what is expected
(design §6). Types are strict: `true` and `"1"` are no numbers; `1.0` is an integer.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from typing import TYPE_CHECKING, Any

from msgspec import Struct, inspect

from synth_train.domain.model.config.findings import Finding, UnknownKeys
from synth_train.domain.model.config.tables import ONE_OF, OpenTable
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.nearness import nearest
from synth_train.domain.model.places import KeyPath, Severity, dotted, quoted

if TYPE_CHECKING:
    from synth_train.domain.model.config.rl import RlConfig
    from synth_train.domain.model.config.sft import SftConfig

DEEPEST = 64
"""Levels of tables and lists. Nobody's config has more, and much more would exhaust the encoder's stack."""

_UNFIT = object()
_NUMBER = r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_BOUNDS = (("ge", operator.ge, "at least"), ("gt", operator.gt, "more than"), ("le", operator.le, "at most"))


class Checked(Struct, frozen=True):
    """A table after the check."""

    table: dict[str, Any]
    """The table as it would be sent, unknown keys included: whole numbers are ints, dates are text. What is unfit
    is left out, so that the rest can be looked at all the same."""
    findings: tuple[Finding, ...]

    def unfit(self, *path: str) -> bool:
        """Whether `path`, or something that it stands in, was left out, or is there under a misspelt name."""
        refused = [found for found in self.findings if found.severity is Severity.ERROR]
        return any(at and at == path[: len(at)] for found in refused for at in (found.path, found.meant))


def view_of(kind: Kind) -> type[RlConfig] | type[SftConfig]:
    """The class that describes configs of `kind`. Only that one is imported: making its classes takes a while."""
    if kind is Kind.RL:
        from synth_train.domain.model.config.rl import RlConfig

        return RlConfig
    from synth_train.domain.model.config.sft import SftConfig

    return SftConfig


def _never(_: KeyPath) -> bool:
    return False


def check(
    table: Mapping[str, Any],
    kind: Kind,
    unknown: UnknownKeys = UnknownKeys.BY_LIKENESS,
    typed: Callable[[KeyPath], bool] = _never,
) -> Checked:
    """Hold `table` against everything that is known of configs of `kind`.

    Args:
        table: as it was read.
        kind: of job.
        unknown: what a key is of which nothing is known.
        typed: whether a key was typed with this very command. Such a key is nobody's newer schema: when it is
            unknown it is a slip, and an error unless unknown keys are let through.
    """
    root = inspect.type_info(view_of(kind))
    assert isinstance(root, inspect.StructType)
    checker = _Checker(root, kind, unknown, typed)
    fit = checker.known(root, table, ())
    return Checked(fit, tuple(checker.findings))


def clues(table: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Why a table may not give its kind away: a `type` that is none, and sections that are misspelt for either kind."""
    found = {kind: check(table, kind).findings for kind in Kind}
    unknown = [{finding.path for finding in found[kind] if finding.of_unknown_key} for kind in Kind]
    nowhere = set.intersection(*unknown)
    reasons = {
        finding.path: finding
        for findings in found.values()
        for finding in findings
        if finding.severity is Severity.ERROR
        and len(finding.path) == 1
        and (finding.path in nowhere or finding.path == ("type",))
    }
    return tuple(reasons.values())


class _Checker:
    """One check. Each method returns its value as it would be sent, or `_UNFIT` after saying why it cannot be."""

    def __init__(
        self, root: inspect.StructType, kind: Kind, unknown: UnknownKeys, typed: Callable[[KeyPath], bool]
    ) -> None:
        self._root, self._kind, self._unknown, self._typed = root, kind, unknown, typed
        self.findings: list[Finding] = []

    def known(self, expected: inspect.StructType, table: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
        """A table whose keys mean something."""
        types = {field.name: field.type for field in expected.fields}
        if not issubclass(expected.cls, OpenTable):
            for name in table:
                if name not in types:
                    self._unknown_key((*path, name), table, types)
        return self._fit(((name, types.get(name, _ANY), value) for name, value in table.items()), path)

    def _value(self, expected: inspect.Type, value: Any, path: KeyPath) -> Any:
        if isinstance(expected, inspect.Metadata):
            words = (expected.extra or {}).get(ONE_OF)
            if words and isinstance(value, str) and value.strip().lower() not in words:
                return self._found(path, _none_of(value, words))
            return self._value(expected.type, value, path)
        if isinstance(expected, inspect.AnyType):
            return self._any(value, path)
        fitting = next((one for one in _alternatives(expected) if _suits(one, value)), None)
        if fitting is None:
            return self._found(path, f"expected {_words(expected)}, got {_got(value)}{_remedy(expected, value, path)}")
        if isinstance(fitting, inspect.StructType):
            return self.known(fitting, value, path)
        if isinstance(fitting, inspect.DictType):
            return self._fit(((key, fitting.value_type, item) for key, item in value.items()), path)
        if isinstance(fitting, inspect.ListType):
            items = ((index, fitting.item_type, item) for index, item in enumerate(value))
            return list(self._fit(items, path).values())
        if isinstance(fitting, inspect.IntType | inspect.FloatType):
            return self._number(fitting, value, path)
        return value

    def _fit(self, items: Iterable[tuple[Any, inspect.Type, Any]], path: KeyPath) -> dict[Any, Any]:
        checked = ((key, self._value(expected, value, (*path, key))) for key, expected, value in items)
        return {key: value for key, value in checked if value is not _UNFIT}

    def _number(self, expected: inspect.IntType | inspect.FloatType, value: Any, path: KeyPath) -> Any:
        number = int(value) if isinstance(expected, inspect.IntType) else value
        if self._any(number, path) is _UNFIT:
            return _UNFIT
        for name, holds, words in _BOUNDS:
            bound = getattr(expected, name)
            if bound is not None and not holds(number, bound):
                return self._found(path, f"must be {words} {bound}, not {number}")
        return number

    def _any(self, value: Any, path: KeyPath) -> Any:
        """What nothing is known of: it only has to have a form in JSON."""
        if isinstance(value, dict | list):
            if len(path) > DEEPEST:
                return self._found(path, f"tables and lists go down more than {DEEPEST} levels here")
            if isinstance(value, dict):
                return self._fit(((key, _ANY, item) for key, item in value.items()), path)
            return list(self._fit(((index, _ANY, item) for index, item in enumerate(value)), path).values())
        if isinstance(value, int) and not _fits(value):
            return self._found(path, "this number does not fit in 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            return self._found(path, f"{value} cannot be sent: JSON has no such number")
        return value.isoformat() if isinstance(value, date | time) else value

    def _found(self, path: KeyPath, what: str) -> Any:
        self.findings.append(Finding(path, what))
        return _UNFIT

    def _unknown_key(self, path: KeyPath, table: Mapping[str, Any], known: Mapping[str, object]) -> None:
        name = str(path[-1])
        thing = "section" if len(path) == 1 and isinstance(table[name], dict) else "key"
        meant, twin = nearest(name, known.keys() - table.keys()), nearest(name, known)
        if meant is not None:
            advice = f"; did you mean {meant}?"
        elif twin is not None:
            advice = f"; it looks like {twin}, which is there as well"
        else:
            advice = self._home(name)
        refused = self._unknown is UnknownKeys.ERRORS or (
            self._unknown is UnknownKeys.BY_LIKENESS and (meant is not None or self._typed(path))
        )
        if not refused:
            advice += "; it is sent as it is" if self._kind is Kind.RL else "; hosted backends do not get it"
        severity = Severity.ERROR if refused else Severity.WARNING
        place = () if meant is None else (*path[:-1], meant)
        self.findings.append(Finding(path, f"unknown {thing}{advice}", severity, of_unknown_key=True, meant=place))

    def _home(self, name: str) -> str:
        """Where a key of this name would count, if there is just one such table."""
        homes = [path for path in _paths(self._root, ()) if path[-1] == name]
        return f"; it belongs to [{dotted(homes[0][:-1])}]" if len(homes) == 1 and len(homes[0]) > 1 else ""


_ANY = inspect.AnyType()


def _paths(table: inspect.StructType, path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    for field in table.fields:
        at = (*path, field.name)
        yield at
        if isinstance(field.type, inspect.StructType):
            yield from _paths(field.type, at)


def _alternatives(expected: inspect.Type) -> tuple[inspect.Type, ...]:
    return tuple(expected.types) if isinstance(expected, inspect.UnionType) else (expected,)


def _suits(expected: inspect.Type, value: object) -> bool:
    if isinstance(expected, inspect.StructType | inspect.DictType):
        return isinstance(value, dict)
    if isinstance(expected, inspect.ListType):
        return isinstance(value, list)
    if isinstance(expected, inspect.StrType):
        return isinstance(value, str)
    if isinstance(expected, inspect.BoolType) or isinstance(value, bool):
        return isinstance(expected, inspect.BoolType) and isinstance(value, bool)
    if isinstance(expected, inspect.IntType):
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, int | float)


def _words(expected: inspect.Type) -> str:
    names: dict[type[inspect.Type], str] = {
        inspect.IntType: "a whole number",
        inspect.FloatType: "a number",
        inspect.StrType: "text",
        inspect.BoolType: "true or false",
        inspect.ListType: "a list",
    }
    return " or ".join(names.get(type(one), "a table") for one in _alternatives(expected))


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _got(value: object) -> str:
    """What was found, in words. Text is not repeated unless it is a number or a truth value: it may be a secret."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not _fits(value):
        return "a number that does not fit in 64 bits"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the text "{value}"' if _bare_form(value) else "text"
    if isinstance(value, list):
        return "a list of tables" if value and all(isinstance(item, dict) for item in value) else "a list"
    return "a table" if isinstance(value, dict) else "a date or time"


def _none_of(word: str, words: tuple[str, ...]) -> str:
    near = nearest(word.strip(), words)
    meant = f"; did you mean {quoted(near)}?" if near else ""
    return f"{quoted(word)} is none of {', '.join(map(quoted, words))}{meant}"


def _remedy(expected: inspect.Type, value: object, path: KeyPath) -> str:
    wanted = _alternatives(expected)[0]
    if isinstance(value, str) and (bare := _bare_form(value)) and _suits(wanted, bare[0]):
        return f"; write {value.strip().lower()} without quotes"
    if isinstance(wanted, inspect.StrType) and isinstance(value, int | float):
        return "; put it in quotes"
    if isinstance(wanted, inspect.ListType):
        return "; put it in [ ]"
    if isinstance(wanted, inspect.StructType) and isinstance(value, list) and any(isinstance(i, dict) for i in value):
        return f"; write its header as [{dotted(path)}], in single brackets"
    return ""


def _bare_form(text: str) -> tuple[bool | float] | None:
    """The number or truth value that a text holds, None when it is only text."""
    plain = text.strip()
    if plain.lower() in ("true", "false"):
        return (plain.lower() == "true",)
    return (float(plain),) if re.fullmatch(_NUMBER, plain) else None
