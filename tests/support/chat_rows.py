"""Rows of chat datasets for property tests: fine ones, and ways to spoil them."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_some_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_part = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": _text}),
    st.fixed_dictionaries(
        {"type": st.just("image_url"), "image_url": st.just({"url": "https://example.invalid/a.png"})}
    ),
    st.fixed_dictionaries({"type": st.just("image"), "image": st.just("data:image/png;base64,iVBORw0KGgo=")}),
)
_content = _text | st.lists(_part, min_size=1, max_size=3)
_extras = st.dictionaries(
    st.sampled_from(["name", "reasoning", "raw_content", "refusal", "mood"]), _some_text, max_size=2
)
_tool = st.fixed_dictionaries(
    {"name": _some_text},
    optional={
        "description": _text,
        "parameters": st.just({"type": "object", "properties": {"content": {}, "messages": {}}}),
    },
)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A row that breaks no rule."""
    messages: list[Row] = []
    if draw(st.booleans()):
        messages.append(_message(draw, draw(st.sampled_from(["system", "developer"])), draw(_content)))
    for turn in range(draw(st.integers(1, 3))):
        if turn or draw(st.integers(0, 4)):
            messages.append(_message(draw, "user", draw(_content)))
        if draw(st.integers(0, 2)) == 0:
            messages += _calls(draw)
        answer = _message(draw, "assistant", draw(_some_text))
        if draw(st.integers(0, 3)) == 0:
            answer["weight"] = draw(st.sampled_from([1, 1.0, None]))
        messages.append(answer)
    row: Row = {"messages": messages}
    if draw(st.integers(0, 2)) == 0:
        row["tools"] = [{"type": "function", "function": tool} for tool in draw(st.lists(_tool, max_size=2))]
    if draw(st.integers(0, 3)) == 0:
        row["metadata"] = draw(st.dictionaries(_text, _anything, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        row[draw(st.sampled_from(["id", "source", "chosen"]))] = draw(_anything)
    return row


def _message(draw: st.DrawFn, role: str, content: object) -> Row:
    message = {"role": role, "content": content, **draw(_extras)}
    return message if draw(st.booleans()) else dict(reversed(message.items()))


def _calls(draw: st.DrawFn) -> list[Row]:
    ids = [f"call_{number}" for number in range(draw(st.integers(1, 3)))]
    calls = [
        {"id": call_id, "type": "function", "function": {"name": draw(_some_text), "arguments": json.dumps(arguments)}}
        for call_id in ids
        for arguments in [draw(st.dictionaries(_text, _anything, max_size=2))]
    ]
    asking: Row = {"role": "assistant", "tool_calls": calls}
    content = draw(st.sampled_from([..., None, "", "Let me look."]))
    if content is not ...:
        asking["content"] = content
    answers = [{"role": "tool", "tool_call_id": call_id, "content": "4"} for call_id in draw(st.permutations(ids))]
    return [asking, *answers]


@st.composite
def plain_rows(draw: st.DrawFn) -> Row:
    """A row of texts with roles that breaks no rule."""
    chats = draw(st.lists(st.tuples(_text, _some_text), min_size=1, max_size=3))
    messages = [{"role": "system", "content": draw(_text)}] if draw(st.booleans()) else []
    for question, answer in chats:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages}


@st.composite
def spoilt(draw: st.DrawFn, good: st.SearchStrategy[Row]) -> bytes:
    """A line that was a good row until one thing in it was changed; often, not always, it breaks a rule now."""
    row = deepcopy(draw(good))
    holders = list(_holders(row))
    for _ in range(draw(st.integers(1, 2))):
        holder = draw(st.sampled_from(holders))
        draw(st.sampled_from(_SPOILERS))(draw, holder)
    line = encoded(row, compact=draw(st.booleans()), ascii_only=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 3))
        line = line[:at] + draw(st.sampled_from(_BYTES)) + line[at + cut :]
    return line.replace(b"\n", b" ")


def encoded(row: Row, *, compact: bool = False, ascii_only: bool = False) -> bytes:
    """A row as one line, without a line end."""
    separators = (",", ":") if compact else None
    # A text may hold a half pair by now; its bytes are what a careless writer would leave.
    return json.dumps(row, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")


_BYTES = [
    b"", b"\xff", b"\xed\xb2\xb2", b"\xef\xbb\xbf", b"\0", b"\t", b"\\ud83c", b"NaN", b"[", b"}", b'"', b",", b"'",
    b'"content":"x",', b'"role":"user",', b'"messages":[{"role":"assistant"}],', b"1e999", b"[" * 600, b"]" * 600,
]  # fmt: skip
_VALUES: list[object] = [
    None, True, False, 0, 1, 2, 0.0, "", " ", "x", [], {}, [{}], {"a": 1}, float("nan"), "\udcb2", "[]", "{}", "{",
    "user", "assistant", "tool", "system", "bot", "call_0", "call_9", "x" * 600, "[" * 1200, "\u00e9",
]  # fmt: skip


def _replace(draw: st.DrawFn, holder: Any) -> None:
    if holder:
        key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        holder[key] = deepcopy(draw(st.sampled_from(_VALUES)))


def _remove(draw: st.DrawFn, holder: Any) -> None:
    if holder:
        del holder[draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))]


def _add(draw: st.DrawFn, holder: Any) -> None:
    if isinstance(holder, dict):
        names = ["content", "weight", "tool_calls", "function_call", "tool_call_id", "name", "arguments", "parameters"]
        key = draw(st.sampled_from([*names, "metadata", "tools", "functions", "extra"]))
        holder[key] = deepcopy(draw(st.sampled_from(_VALUES)))
    elif holder:
        holder.append(draw(st.sampled_from(holder)))


def _shuffle(draw: st.DrawFn, holder: Any) -> None:
    if isinstance(holder, list):
        holder[:] = draw(st.permutations(holder))


_SPOILERS: list[Callable[[st.DrawFn, Any], None]] = [_replace, _remove, _add, _shuffle]


def _holders(value: object) -> Any:
    if isinstance(value, (dict, list)):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _holders(item)
