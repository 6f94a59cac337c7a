"""Telling quickly that rows are certainly fine. What is not sure goes to `dataset_rules.judge`, which decides.

msgspec decodes a row into types as narrow as the rules, so that C does most of the work. What it does not see is
looked at here: how messages follow each other, keys given twice (it keeps the last), and the bytes and the depth of
what it skips. A chunk is read as one of three forms of rows, each wider and a little slower than the one before.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable
from enum import Enum
from io import BytesIO
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from synth_train.domain.model.dataset_rules import DEEPEST, IMAGE_URL, is_too_deep

_NonEmpty = Annotated[str, Meta(min_length=1)]

# ---- plain rows


class _PlainMessage(Struct, gc=False, forbid_unknown_fields=True, tag_field="role"):
    content: str
    name: str | None = None
    tool_calls: None = None
    function_call: None = None
    weight: Literal[1] | None = None


class _PlainSystem(_PlainMessage, tag="system", gc=False, forbid_unknown_fields=True): ...


class _PlainDeveloper(_PlainMessage, tag="developer", gc=False, forbid_unknown_fields=True): ...


class _PlainUser(_PlainMessage, tag="user", gc=False, forbid_unknown_fields=True): ...


class _PlainAssistant(_PlainMessage, tag="assistant", gc=False, forbid_unknown_fields=True):
    content: _NonEmpty


class PlainRow(Struct, gc=False, forbid_unknown_fields=True):
    """A row of texts with roles. The decoder skips nothing in it, so nothing hides in it."""

    messages: Annotated[list[_PlainSystem | _PlainDeveloper | _PlainUser | _PlainAssistant], Meta(min_length=1)]
    tools: None = None


# ---- common rows


class _Skipped(Struct):
    """An object of which only the form is checked."""


class _Text(Struct, tag="text", gc=False):
    text: str


class _Address(Struct, gc=False):
    url: Annotated[str, Meta(pattern=IMAGE_URL)]


class _ImageUrl(Struct, tag="image_url", gc=False):
    image_url: _Address


class _Image(Struct, tag="image", gc=False):
    image: Annotated[str, Meta(pattern=IMAGE_URL)]


_Content = str | Annotated[list[_Text | _ImageUrl | _Image], Meta(min_length=1)]


class _Function(Struct, gc=False):
    name: _NonEmpty
    arguments: str


class _Call(Struct, gc=False):
    function: _Function
    id: str | None = None


class _Message(Struct, gc=False, tag_field="role"):
    content: _Content
    name: str | None = None
    reasoning: str | None = None
    raw_content: str | None = None
    tool_calls: None = None
    function_call: None = None
    weight: Literal[0, 1] | None = None


class _System(_Message, tag="system", gc=False): ...


class _Developer(_Message, tag="developer", gc=False): ...


class _User(_Message, tag="user", gc=False): ...


class _Tool(_Message, tag="tool", gc=False):
    tool_call_id: str | None = None


class _AssistantKeys(Struct, gc=False, tag_field="role", kw_only=True):
    tool_calls: list[_Call] | None = None
    function_call: None = None
    weight: Literal[0, 1] | None = None
    name: str | None = None
    reasoning: str | None = None
    raw_content: str | None = None


class _Assistant(_AssistantKeys, tag="assistant", gc=False, kw_only=True):
    content: _Content | None


class _LooseAssistant(_AssistantKeys, tag="assistant", gc=False, kw_only=True):
    content: _Content | UnsetType | None = UNSET


class _Declared(Struct, gc=False):
    name: _NonEmpty
    description: str | None = None
    parameters: _Skipped | None = None


class _Declaration(Struct, gc=False):
    """A tool as `{"type": "function", "function": {...}}`."""

    function: _Declared


class CommonRow(Struct, gc=False):
    """A row in one of the forms in common use; the rarer ones are left to the rules."""

    messages: Annotated[list[_System | _Developer | _User | _Tool | _Assistant], Meta(min_length=1)]
    tools: list[_Declaration] | None = None
    functions: None = None
    metadata: _Skipped | None = None


class LooseRow(Struct, gc=False):
    """A common row in which messages that call a tool may lack the key `content`."""

    messages: Annotated[list[_System | _Developer | _User | _Tool | _LooseAssistant], Meta(min_length=1)]
    tools: list[_Declaration] | None = None
    functions: None = None
    metadata: _Skipped | None = None


class _Around(Struct, gc=False):
    """The parts of a row in which `content` may be a key of somebody else's."""

    tools: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()


decode_plain = msgspec.json.Decoder(PlainRow).decode
decode_common = msgspec.json.Decoder(CommonRow).decode
_decode_loose = msgspec.json.Decoder(LooseRow).decode
_decode_around = msgspec.json.Decoder(_Around).decode
_check_arguments = msgspec.json.Decoder(_Skipped).decode

_REFUSALS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises; older versions of msgspec let the error of a bad byte through."""

# In JSON these bytes are a key or a whole value; inside a text the second quote would follow a backslash.
_CONTENT = b'"content"'
_MESSAGES = b'"messages"'

# ---- how messages follow each other

_ROLE: dict[type, str] = {
    _PlainSystem: "system",
    _PlainDeveloper: "developer",
    _PlainUser: "user",
    _PlainAssistant: "assistant",
    _System: "system",
    _Developer: "developer",
    _User: "user",
    _Assistant: "assistant",
    _LooseAssistant: "assistant",
    _Tool: "tool",
}
_AFTER = {
    "": ("system", "developer", "user", "assistant"),
    "system": ("system", "developer", "user", "assistant"),
    "developer": ("system", "developer", "user", "assistant"),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "assistant", "user"),
}


_NOBODY: set[str | None] = set()
"""Ids of the calls that wait for an answer, as long as there are none. Never added to."""


class _Unsure(Exception):
    """This row is left to the rules."""


class _Sequence(dict[type, "_Sequence"]):
    """A sequence of roles: a node in the tree of all that a chunk has, whose keys lead to the longer ones.

    So a row is followed by one look-up a message, and the roles are counted once a sequence, not once a row.
    """

    __slots__ = ("complete", "every", "last", "roles", "rows")

    def __init__(self, last: str, roles: Counter[str], every: list[_Sequence]) -> None:
        super().__init__()
        self.rows = 0
        """Rows that are this sequence and no longer."""
        self.last = last
        self.complete = last == "assistant"
        self.roles = roles
        self.every = every
        every.append(self)

    def __missing__(self, kind: type) -> _Sequence:
        role = _ROLE[kind]
        if role not in _AFTER[self.last]:
            raise _Unsure
        longer = self[kind] = _Sequence(role, self.roles + Counter((role,)), self.every)
        return longer


# ---- reading a chunk


class Form(Enum):
    """How a chunk is read. Every row of one form is a row of the next."""

    PLAIN = "plain"
    """Texts with roles, and no key besides."""
    COMMON = "common"
    """Also tools, parts, weights, and keys that no rule names."""
    LOOSE = "loose"
    """Also calls without the key `content`."""

    @property
    def wider(self) -> Form:
        """The next form, or this one if there is none."""
        return Form.COMMON if self is Form.PLAIN else Form.LOOSE


def form_of(line: bytes) -> Form:
    """How to read a chunk whose rows are like this one."""
    for form, decode in ((Form.PLAIN, decode_plain), (Form.COMMON, decode_common)):
        try:
            decode(line)
        except _REFUSALS:
            continue
        return form
    return Form.LOOSE


class FineRows(Struct, frozen=True):
    """What the rows of a chunk add up to that break no rule, not even one that only warns."""

    rows: int
    roles: Counter[str]
    longest: int
    """Bytes of the longest of them without its line end, or what was asked about if none is longer."""
    longest_line: int
    """Where that row stands: a line of the chunk, counted from 0. Means nothing if none is longer."""
    others: tuple[tuple[int, bytes], ...]
    """The lines that are not known to be fine, each with its number counted from 0."""


def fine_rows(chunk: bytes, form: Form, *, longer_than: int = 0) -> FineRows | None:
    """Read whole lines. None when something is odd somewhere, so that each line has to be read by itself.

    `longer_than` is the length from which on a row is of interest for its length.
    """
    return _Reading(chunk, form, longer_than).all()


class _Reading:
    """One chunk being read."""

    def __init__(self, chunk: bytes, form: Form, longer_than: int) -> None:
        self._chunk = chunk
        self._form = form
        self._lines = BytesIO(chunk)
        self._sequences: list[_Sequence] = []
        self._start = _Sequence("", Counter(), self._sequences)
        self._line_end = int(chunk.endswith(b"\n"))
        self._longest, self._longest_end = longer_than, 0
        self._without_content = 0

    def all(self) -> FineRows | None:
        others: list[tuple[int, bytes]] = []
        number = counted = 0
        read = self._plain if self._form is Form.PLAIN else self._common
        while True:
            try:
                read()
                break
            except (_Unsure, *_REFUSALS):
                end = self._lines.tell()
                begin = self._chunk.rfind(b"\n", 0, end - 1) + 1
                number += self._chunk.count(b"\n", counted, begin)
                counted = begin
                others.append((number, self._chunk[begin:end]))
        ended = [sequence for sequence in self._sequences if sequence.rows]
        rows = sum(sequence.rows for sequence in ended)
        roles: Counter[str] = Counter()
        for sequence in ended:
            for role, count in sequence.roles.items():
                roles[role] += count * sequence.rows
        if not self._has_each_key_once(rows, roles.total(), others):
            return None
        if self._form is not Form.PLAIN and not _is_utf8(self._chunk):
            return None
        longest_line = self._chunk.count(b"\n", 0, max(self._longest_end - 1, 0))
        return FineRows(rows, roles, self._longest, longest_line, tuple(others))

    def _plain(self) -> None:
        start, threshold = self._start, self._longest + self._line_end
        for line in self._lines:
            sequence = start
            for message in decode_plain(line).messages:
                sequence = sequence[type(message)]
            if not sequence.complete:
                raise _Unsure
            sequence.rows += 1
            if len(line) > threshold:
                threshold = self._longer(line)

    def _common(self) -> None:
        decode: Callable[[bytes], CommonRow | LooseRow]
        decode = decode_common if self._form is Form.COMMON else _decode_loose
        start, threshold = self._start, self._longest + self._line_end
        for line in self._lines:
            sequence = start
            waiting = _NOBODY
            without_content = weightless = 0
            for message in decode(line).messages:
                kind = type(message)
                sequence = sequence[kind]
                if kind is _Tool:
                    call_id: str | None = message.tool_call_id  # type: ignore[union-attr]  # asking twice costs time
                    if call_id not in waiting:
                        raise _Unsure
                    waiting.remove(call_id)
                elif waiting:
                    raise _Unsure
                elif sequence.complete:
                    if message.weight == 0:
                        weightless += 1
                    if message.tool_calls:
                        waiting = set()
                        if message.content is UNSET:
                            without_content += 1
                        for call in message.tool_calls:
                            arguments = call.function.arguments
                            _check_arguments(arguments)
                            if call.id in waiting or (len(arguments) > 2 * DEEPEST and is_too_deep(arguments.encode())):
                                raise _Unsure
                            waiting.add(call.id)
                    elif not message.content:
                        raise _Unsure
            if weightless and weightless == sequence.roles["assistant"]:
                raise _Unsure
            if not sequence.complete or (len(line) > 2 * DEEPEST and is_too_deep(line)):
                raise _Unsure
            sequence.rows += 1
            if without_content:
                self._without_content += without_content
            if len(line) > threshold:
                threshold = self._longer(line)

    def _longer(self, line: bytes) -> int:
        """Note a row that may be the longest. Gives the length up to which a line cannot hold a longer one."""
        row = len(line.rstrip(b"\r\n"))
        if row > self._longest:
            self._longest, self._longest_end = row, self._lines.tell()
        return self._longest + self._line_end

    def _has_each_key_once(self, rows: int, turns: int, others: list[tuple[int, bytes]]) -> bool:
        """Whether `messages` and `content` stand in the fine rows as often as they were decoded, and no more."""
        if not self._stands(_CONTENT, turns - self._without_content, others):
            return False
        # Where every message has its content, a second list of messages has shown already.
        return self._form is not Form.LOOSE or self._stands(_MESSAGES, rows, others)

    def _stands(self, key: bytes, times: int, others: list[tuple[int, bytes]]) -> bool:
        surplus = self._chunk.count(key) - sum(line.count(key) for _, line in others) - times
        if surplus and self._form is not Form.PLAIN:
            elsewhere = {number for number, _ in others}
            for number, line in enumerate(BytesIO(self._chunk)):
                if number not in elsewhere:
                    around = _decode_around(line)
                    surplus -= bytes(around.tools).count(key) + bytes(around.metadata).count(key)
        return not surplus


def _is_utf8(chunk: bytes) -> bool:
    """Whether all of it is UTF-8, also what the decoder skips. Takes no memory that grows with the chunk."""
    if chunk.isascii():
        return True
    decode = codecs.getincrementaldecoder("utf-8")().decode
    view = memoryview(chunk)
    try:
        for begin in range(0, len(chunk), 1 << 20):
            decode(view[begin : begin + (1 << 20)])
        decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
