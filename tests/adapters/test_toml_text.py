"""TOML texts of any shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from synth_train.adapters import toml_text
from synth_train.domain.model.errors import InvalidConfig, UsageError
from synth_train.domain.model.places import KeyPath
from synth_train.ports.config_source import ConfigDocument, Override

_SCALARS = st.sampled_from(
    ["1", "true", '"[ # s"', "'[#'", '"""m\n]\\""""', '"""\n["""""', "'''\n'''", "1979-05-27", "{ x = [1] }"]
)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
_BODIES = st.lists(_VALUES, max_size=3)
_BETWEEN = st.sampled_from(["", "\n", "# ] '''\n", "  \n\n"])
_SECTIONS = st.lists(st.tuples(_BETWEEN, st.sampled_from(["table", "item", "part of item"]), _BODIES), max_size=5)


class _Pen:
    """Writes a TOML and takes down the line of every key as it goes."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[KeyPath, int] = {}
        self._items = 0

    def section(self, between: str, form: str, body: list[Any], number: int) -> None:
        self.text += between
        if form == "table":
            path: KeyPath = ("tables", f"t {number}")
            self._mark(("tables",))
            header = f'[tables."t {number}"]'
        elif form == "item" or not self._items:
            path, header = ("items", self._items), "[[items]]"
            self._mark(("items",))
            self._items += 1
        else:
            path, header = ("items", self._items - 1, "parts", f"p{number}"), f"[ items . parts . p{number} ]"
            self._mark(path[:-1])
        self._mark(path)
        self.text += f"{header} # [\n"
        for index, value in enumerate(body):
            self._mark((*path, f"k{index}"))
            self.text += f"k{index} = "
            self._value(value, (*path, f"k{index}"))
            self.text += "\n"

    def _value(self, value: Any, path: KeyPath) -> None:
        if isinstance(value, str):
            if value.startswith("{"):
                self._mark((*path, "x"))
                self._mark((*path, "x", 0))
            self.text += value
            return
        self.text += "[ # [\n"
        for index, item in enumerate(value):
            self._mark((*path, index))
            self._value(item, (*path, index))
            self.text += ",\n"
        self.text += "]"

    def _mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)


@settings(deadline=None)
@given(_SECTIONS)
def test_every_key_is_found_on_the_line_where_it_was_written(sections: list[tuple[str, str, list[Any]]]) -> None:
    pen = _Pen()
    for number, (between, form, body) in enumerate(sections):
        pen.section(between, form, body, number)
    document = toml_text.document(pen.text.encode(), path=Path("/a.toml"), shown="a.toml")
    assert {path: document.place_of(path).line for path in pen.lines} == pen.lines


def _outcome(call: Callable[[], object]) -> object:
    """What a call returns, or the text of the error that it is allowed to raise."""
    try:
        return call()
    except (InvalidConfig, UsageError) as refusal:
        return str(refusal)


@given(st.binary() | st.text().map(str.encode) | st.text("[]{}'\"=.#\n ab1").map(str.encode))
def test_whatever_the_bytes_they_are_read_or_refused_with_a_place(raw: bytes) -> None:
    outcome = _outcome(lambda: toml_text.document(raw, path=Path("/a.toml"), shown="a.toml"))
    if isinstance(outcome, ConfigDocument):
        assert all(outcome.place_of((name,)).line for name in outcome.table)
    else:
        assert re.match(r"a\.toml(:\d+)?: ", str(outcome))


@given(st.text() | st.text("[]{}'\"=.#\n ab1\udce9"))
def test_whatever_the_text_it_is_an_override_or_a_usage_error(text: str) -> None:
    outcome = _outcome(lambda: toml_text.override(text))
    assert isinstance(outcome, Override) or str(outcome).startswith("--set")
