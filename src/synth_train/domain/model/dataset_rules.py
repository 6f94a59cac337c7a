"""What a row of a chat dataset must be, said slowly and in words. `docs/dataset-rules.md` is the table for people.

`judge` reads one line and names everything that is wrong with it. It takes tens of microseconds, so `dataset_fast`
first sorts out the rows that are certainly fine; whatever that is not sure of comes here and is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from synth_train.domain.model.places import Severity

if TYPE_CHECKING:
    from json import JSONDecodeError

DEEPEST = 500
"""Levels of lists and objects in a row. Readers of JSON give up somewhere near a thousand."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ROLES_IN_WORDS = "system, developer, user, assistant, tool or function"
_OTHER_NAMES = {
    **dict.fromkeys(("human", "customer", "question"), "user"),
    **dict.fromkeys(("gpt", "bot", "chatbot", "ai", "model", "answer"), "assistant"),
    **dict.fromkeys(("observation", "ipython", "tool_response"), "tool"),
}
"""What other formats call our roles."""

_PAIRS = ("prompt/completion rows", "make the prompt a user message and the completion an assistant message")
_OTHER_FORMATS = {
    "conversations": (
        "ShareGPT rows",
        "write messages for conversations, role for from, content for value, user for human, assistant for gpt",
    ),
    "prompt": _PAIRS,
    "completion": _PAIRS,
    "instruction": ("instruction rows", "make instruction and input a user message and output an assistant message"),
    "text": ("plain text rows", "cut the text into messages, each with a role and content"),
}
"""By a key that only they have: what rows of other formats are called, and how they become ours."""

IMAGE_URL = r"^(https?://|data:image/)"
"""What an image may point to (wire-contract §3.6)."""

ONCE_IN_MESSAGE = ("role", "content", "tool_calls", "function_call", "weight")
"""Keys that decide what is learnt. Given twice, readers of JSON disagree on which one counts."""


class Rule(Enum):
    """One rule about rows. `reason` is the short form, under which breaches are counted."""

    NOT_UTF8 = ("not UTF-8", Severity.ERROR)
    MARK_INSIDE = ("byte-order mark inside the file", Severity.ERROR)
    NOT_JSON = ("not JSON", Severity.ERROR)
    NO_NUMBER = ("NaN or Infinity", Severity.ERROR)
    TOO_DEEP = ("nested too deeply", Severity.ERROR)
    HALF_PAIR = ("half of a surrogate pair", Severity.ERROR)
    NO_OBJECT = ("row is not an object", Severity.ERROR)
    NO_MESSAGES = ("no messages", Severity.ERROR)
    BAD_MESSAGE = ("message is not an object", Severity.ERROR)
    BAD_ROLE = ("unknown role", Severity.ERROR)
    NO_CONTENT = ("no content", Severity.ERROR)
    BAD_CONTENT = ("content of the wrong type", Severity.ERROR)
    BAD_PART = ("bad content part", Severity.ERROR)
    BAD_TEXT = ("field is not text", Severity.ERROR)
    BAD_WEIGHT = ("weight is not 0 or 1", Severity.ERROR)
    BAD_CALL = ("bad tool call", Severity.ERROR)
    BAD_ARGUMENTS = ("arguments are not the JSON of an object", Severity.ERROR)
    NO_ANSWER = ("tool call without an answer", Severity.ERROR)
    NO_QUESTION = ("answer to no tool call", Severity.ERROR)
    NO_ASSISTANT = ("no assistant message", Severity.ERROR)
    LAST_NOT_ASSISTANT = ("last message is not the assistant's", Severity.ERROR)
    BAD_TOOLS = ("bad tool definition", Severity.ERROR)
    BAD_METADATA = ("metadata is not an object", Severity.ERROR)
    NOTHING_TO_LEARN = ("every weight is 0", Severity.WARNING)
    EMPTY_ANSWER = ("empty answer", Severity.WARNING)
    LATE_SYSTEM = ("system message in the middle", Severity.WARNING)
    SAME_ROLE = ("same role twice in a row", Severity.WARNING)
    NO_CALL_ID = ("tool message without tool_call_id", Severity.WARNING)
    SAME_CALL_ID = ("tool calls with the same id", Severity.WARNING)
    OBJECT_CONTENT = ("content is an object", Severity.WARNING)
    IMAGE_PLACE = ("image is neither a web address nor data", Severity.WARNING)
    KEY_TWICE = ("key given twice", Severity.WARNING)

    def __init__(self, reason: str, severity: Severity) -> None:
        self.reason = reason
        self.severity = severity


class Finding(Struct, frozen=True):
    """One breach of a rule in one row."""

    path: str
    """Such as `messages[1].tool_calls[0].function.arguments`; empty for the row itself."""
    rule: Rule
    what: str
    """What is wrong, and what would be right."""


class Judged(Struct, frozen=True):
    """What one row was found to be."""

    turns: int
    """Its messages, good or bad."""
    roles: tuple[str, ...]
    """The known roles among them, in order."""
    findings: tuple[Finding, ...]


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but white space, and so is no row."""
    return not line.strip()


def is_too_deep(text: bytes) -> bool:
    """Whether lists and objects in a JSON text stand more than `DEEPEST` levels inside each other.

    Needs no stack, whatever the text. Of a text that is no JSON the answer means little.
    """
    if text.count(b"{") + text.count(b"[") <= DEEPEST:
        return False
    without_escapes = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth = 0
    for byte in b"".join(without_escapes.split(b'"')[::2]):
        if byte in b"{[":
            depth += 1
            if depth > DEEPEST:
                return True
        elif byte in b"}]":
            depth -= 1
    return False


def judge(line: bytes) -> Judged:
    """Everything that is wrong with one line that is not blank. Raises nothing, whatever the bytes."""
    judging = _Judging()
    judging.line(line)
    return Judged(judging.turns, tuple(judging.roles), tuple(judging.findings))


class _Object(dict[str, object]):
    """An object in which keys were given twice, with different values."""

    twice: frozenset[str] = frozenset()


class _NoNumber(Struct, frozen=True):
    """`NaN`, `Infinity` or `-Infinity`: Python reads and writes them, JSON has no such thing."""

    text: str


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    found = _Object(pairs)
    found.twice = frozenset(key for key, value in pairs if value != plain[key])
    return found


def _integer(digits: str) -> float:
    # Exactness beyond 15 digits matters to no rule, and int() refuses very long numbers.
    return int(digits) if len(digits) <= 15 else float(digits)


_LONE = re.compile("[\ud800-\udfff]")
_MAY_BE_LONE = re.compile(r"\\u[dD][89a-fA-F]")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Call(Struct, frozen=True):
    """A call that waits for its answer."""

    path: str
    role: str
    """Who has to answer: `tool`, or `function` in the old form."""
    id: str | None
    """`tool_calls[].id`; in the old form the function's name."""


class _Judging:
    """One line on its way through the rules."""

    def __init__(self) -> None:
        self.turns = 0
        self.roles: list[str] = []
        self.findings: list[Finding] = []

    def _say(self, path: str, rule: Rule, what: str) -> None:
        self.findings.append(Finding(path, rule, what))

    # ---- from bytes to values

    def line(self, line: bytes) -> None:
        if line.startswith(BYTE_ORDER_MARK):
            self._say("", Rule.MARK_INSIDE, "begins with a byte-order mark, as after joining files; remove EF BB BF")
            return
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            where = f"byte {line[error.start]:#04x} at byte {error.start + 1} of the line"
            self._say("", Rule.NOT_UTF8, f"is not UTF-8: {where}; save the file as UTF-8")
            return
        if is_too_deep(line):
            self._say("", Rule.TOO_DEEP, f"has lists and objects more than {DEEPEST} levels inside each other")
            return
        import json  # here, because only what the quick look is not sure of comes this far

        constants: list[_NoNumber] = []

        def constant(name: str) -> _NoNumber:
            constants.append(_NoNumber(name))
            return constants[-1]

        try:
            row = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=constant)
        except json.JSONDecodeError as error:
            self._say("", Rule.NOT_JSON, _syntax(error))
            return
        if constants:
            for path, value in _walk(row):
                if isinstance(value, _NoNumber):
                    self._say(path, Rule.NO_NUMBER, f"{value.text} is no JSON; write a number or null")
            return
        if _MAY_BE_LONE.search(text):
            self._half_pairs(row)
        self._row(row)

    def _half_pairs(self, row: object) -> None:
        for path, value in _walk(row):
            texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
            if any(_LONE.search(part) for part in texts):
                where = "" if isinstance(value, str) else "a key "
                what = f"{where}holds half of a surrogate pair, which is no character; repair the text where it was cut"
                self._say(path, Rule.HALF_PAIR, what)

    # ---- the row

    def _row(self, row: object) -> None:
        if not isinstance(row, dict):
            self._say("", Rule.NO_OBJECT, f'is {_kind(row)}; every row is an object: {{"messages": [...]}}')
            return
        self._keys_once("", row, ("messages",))
        messages = row.get("messages")
        if not isinstance(messages, list):
            self._no_messages(row)
        elif not messages:
            self._say("messages", Rule.NO_MESSAGES, "is empty; a row needs at least an assistant message")
        else:
            self._messages(messages)
        if not isinstance(row.get("metadata"), (dict, type(None))):
            self._say("metadata", Rule.BAD_METADATA, f"is {_kind(row['metadata'])}; it must be an object")
        self._tools("tools", row.get("tools"))
        self._tools("functions", row.get("functions"))

    def _no_messages(self, row: dict[str, object]) -> None:
        if "messages" in row:
            self._say("messages", Rule.NO_MESSAGES, f"is {_kind(row['messages'])}; it must be a list of messages")
            return
        other = next((format_ for key, format_ in _OTHER_FORMATS.items() if key in row), None)
        hint = _misspelt("messages", row)
        if other:
            name, remedy = other
            hint = f"; these look like {name}; {remedy}"
        self._say("messages", Rule.NO_MESSAGES, f"is missing{hint}")

    def _keys_once(self, path: str, value: dict[str, object], keys: Sequence[str]) -> None:
        if isinstance(value, _Object):
            for key in keys:
                if key in value.twice:
                    what = "is given twice, with different values; most readers take the last one, so remove one"
                    self._say(_at(path, key), Rule.KEY_TWICE, what)

    def _tools(self, path: str, tools: object) -> None:
        if tools is None:
            return
        if not isinstance(tools, list):
            self._say(path, Rule.BAD_TOOLS, f"is {_kind(tools)}; it must be a list of tools")
            return
        for index, tool in enumerate(tools):
            place = f"{path}[{index}]"
            if isinstance(tool, dict) and tool.get("function") is not None:
                place, tool = f"{place}.function", tool["function"]
            if not isinstance(tool, dict):
                self._say(place, Rule.BAD_TOOLS, f"is {_kind(tool)}; it must be an object with a name")
                continue
            for key, kind, words in (
                ("name", str, "text"),
                ("description", str, "text"),
                ("parameters", dict, "an object"),
            ):
                value = tool.get(key)
                if value is None and key == "name":
                    self._say(f"{place}.name", Rule.BAD_TOOLS, "is missing; every tool needs a name")
                elif value == "" and key == "name":
                    self._say(f"{place}.name", Rule.BAD_TOOLS, "is empty; every tool needs a name")
                elif value is not None and not isinstance(value, kind):
                    self._say(f"{place}.{key}", Rule.BAD_TOOLS, f"is {_kind(value)}; it must be {words}")

    # ---- the messages

    def _messages(self, messages: list[object]) -> None:
        self.turns = len(messages)
        calls = [self._message(f"messages[{index}]", message) for index, message in enumerate(messages)]
        if len(self.roles) == len(messages):
            good = [message for message in messages if isinstance(message, dict)]
            self._order(good)
            self._answers(good, calls)
            self._weights(good)

    def _message(self, path: str, message: object) -> list[_Call]:
        """Judge one message by itself. Gives the calls it makes."""
        if not isinstance(message, dict):
            self._say(path, Rule.BAD_MESSAGE, f'is {_kind(message)}; it must be {{"role": ..., "content": ...}}')
            return []
        self._keys_once(path, message, ONCE_IN_MESSAGE)
        role = message.get("role")
        if isinstance(role, str) and role in ROLES:
            self.roles.append(role)
        else:
            self._bad_role(f"{path}.role", role, _misspelt("role", message))
        calls = self._tool_calls(path, message) + self._function_call(path, message)
        self._content(path, message, may_be_absent=role == "assistant" and _calls_something(message))
        for key in ("name", "reasoning", "raw_content"):
            value = message.get(key)
            if not isinstance(value, (str, type(None))):
                self._say(f"{path}.{key}", Rule.BAD_TEXT, f"is {_kind(value)}; it must be text")
        weight = message.get("weight")
        if weight is not None and (isinstance(weight, bool) or weight not in (0, 1)):
            self._say(f"{path}.weight", Rule.BAD_WEIGHT, f"is {_shown(weight)}; it must be the number 0 or 1")
        if calls and role in ROLES and role != "assistant":
            self._say(calls[0].path, Rule.BAD_CALL, f"only an assistant message can call a tool, not a {role} message")
            return []
        return calls

    def _bad_role(self, path: str, role: object, misspelt: str) -> None:
        if not isinstance(role, str) or not role.strip():
            state = "is missing" if role is None else f"is {_shown(role)}"
            self._say(path, Rule.BAD_ROLE, f"{state}{misspelt or f'; it must be {_ROLES_IN_WORDS}'}")
            return
        word = role.strip().lower()
        meant = word if word in ROLES else _OTHER_NAMES.get(word) or _like(word, ROLES, 0.7)
        hint = f"write {_quoted(meant)}" if meant else f"it must be {_ROLES_IN_WORDS}"
        self._say(path, Rule.BAD_ROLE, f"{_quoted(role)} is no role; {hint}")

    def _content(self, path: str, message: dict[str, object], *, may_be_absent: bool) -> None:
        content = message.get("content")
        path = f"{path}.content"
        if content is None:
            if not may_be_absent:
                state = "is null" if "content" in message else "is missing"
                why = _misspelt("content", message) or "; only an assistant message that calls a tool may have none"
                self._say(path, Rule.NO_CONTENT, f"{state}{why}")
        elif isinstance(content, str):
            if not content and message.get("role") == "assistant" and not may_be_absent:
                self._say(path, Rule.EMPTY_ANSWER, "is empty, and no tool is called: the model learns to say nothing")
        elif isinstance(content, dict):
            self._say(path, Rule.OBJECT_CONTENT, "is an object, which many models cannot read; write it as text")
        elif not isinstance(content, list):
            self._say(path, Rule.BAD_CONTENT, f"is {_kind(content)}; it must be text or a list of parts")
        elif not content:
            self._say(path, Rule.NO_CONTENT, 'is an empty list; write text, or parts such as {"type": "text", ...}')
        else:
            for index, part in enumerate(content):
                self._part(f"{path}[{index}]", part)

    def _part(self, path: str, part: object) -> None:
        if not isinstance(part, dict):
            what = f'is {_kind(part)}; a part is an object such as {{"type": "text", "text": "..."}}'
            self._say(path, Rule.BAD_PART, what)
            return
        kind = part.get("type")
        if kind == "text":
            if not isinstance(part.get("text"), str):
                self._say(f"{path}.text", Rule.BAD_PART, f"{_state(part, 'text')}; a text part needs its text")
        elif kind == "image_url":
            image = part.get("image_url")
            if isinstance(image, dict):
                self._image(f"{path}.image_url", image, "url")
            else:
                what = f'{_state(part, "image_url")}; it must be an object: {{"url": "..."}}'
                self._say(f"{path}.image_url", Rule.BAD_PART, what)
        elif kind == "image":
            self._image(path, part, "image")
        else:
            state = "is missing" if kind is None else f"{_shown(kind)} is no kind of part"
            self._say(f"{path}.type", Rule.BAD_PART, f"{state}; it must be text, image_url or image")

    def _image(self, path: str, holder: dict[str, object], key: str) -> None:
        url = holder.get(key)
        if not isinstance(url, str):
            self._say(f"{path}.{key}", Rule.BAD_PART, f"{_state(holder, key)}; it must be the address of an image")
        elif not re.match(IMAGE_URL, url):
            what = f"{_quoted(url)} begins with neither http:// nor https:// nor data:image/"
            self._say(f"{path}.{key}", Rule.IMAGE_PLACE, f"{what}; the place that trains may not find it")

    # ---- tool calls

    def _tool_calls(self, path: str, message: dict[str, object]) -> list[_Call]:
        calls = message.get("tool_calls")
        path = f"{path}.tool_calls"
        if calls is None:
            return []
        if not isinstance(calls, list):
            self._say(path, Rule.BAD_CALL, f"is {_kind(calls)}; it must be a list of calls")
            return []
        made: list[_Call] = []
        seen: set[str] = set()
        for index, call in enumerate(calls):
            place = f"{path}[{index}]"
            if not isinstance(call, dict):
                self._say(place, Rule.BAD_CALL, f"is {_kind(call)}; a call is an object with a function")
                continue
            function = call.get("function")
            if function is None and "name" in call:  # the flat form
                self._function(place, call)
            elif isinstance(function, dict):
                self._function(f"{place}.function", function)
            else:
                self._say(f"{place}.function", Rule.BAD_CALL, f"{_state(call, 'function')}; it must be an object")
            call_id = None if call.get("id") is None else str(call["id"])
            if call_id is not None:
                if call_id in seen:
                    self._say(f"{place}.id", Rule.SAME_CALL_ID, f"{_quoted(call_id)} is the id of an earlier call too")
                seen.add(call_id)
            made.append(_Call(place, "tool", call_id))
        return made

    def _function_call(self, path: str, message: dict[str, object]) -> list[_Call]:
        call = message.get("function_call")
        path = f"{path}.function_call"
        if call is None:
            return []
        if not isinstance(call, dict):
            self._say(path, Rule.BAD_CALL, f"is {_kind(call)}; it must be an object")
            return []
        if message.get("tool_calls"):
            self._say(path, Rule.BAD_CALL, "stands beside tool_calls, of which it is the old form; keep one of them")
            return []
        self._function(path, call)
        return [_Call(path, "function", str(call.get("name")))]

    def _function(self, path: str, function: dict[str, object]) -> None:
        name = function.get("name")
        if not isinstance(name, str) or not name:
            self._say(f"{path}.name", Rule.BAD_CALL, f"{_state(function, 'name')}; a call needs the tool's name")
        path = f"{path}.arguments"
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            problem = _not_an_object(arguments)
            if problem:
                self._say(path, Rule.BAD_ARGUMENTS, problem)
        elif isinstance(arguments, dict):
            self._say(path, Rule.BAD_ARGUMENTS, "is an object; it must be a string that holds the JSON of one")
        else:
            what = f'{_state(function, "arguments")}; it must be a string of JSON, "{{}}" for none'
            self._say(path, Rule.BAD_ARGUMENTS, what)

    # ---- how the messages follow each other

    def _order(self, messages: list[dict[str, object]]) -> None:
        begun = False
        previous = ""
        for index, role in enumerate(self.roles):
            if role in ("system", "developer"):
                if begun:
                    what = f"a {role} message after the conversation has begun; many chat templates refuse it"
                    self._say(f"messages[{index}].role", Rule.LATE_SYSTEM, what)
            else:
                begun = True
            if role == previous and role in ("user", "assistant") and not _calls_something(messages[index - 1]):
                what = f"two {role} messages in a row; many chat templates refuse it, so join them"
                self._say(f"messages[{index}].role", Rule.SAME_ROLE, what)
            previous = role
        if "assistant" not in self.roles:
            self._say("messages", Rule.NO_ASSISTANT, "has no assistant message, so there is nothing to learn")
        elif previous != "assistant":
            what = f"is the {previous}'s and the last message; end the row with the assistant's answer"
            self._say(f"messages[{len(messages) - 1}].role", Rule.LAST_NOT_ASSISTANT, what)

    def _answers(self, messages: list[dict[str, object]], calls: list[list[_Call]]) -> None:
        waiting: list[_Call] = []
        muddled = False
        for index, (role, message) in enumerate(zip(self.roles, messages, strict=True)):
            if role in ("tool", "function"):
                muddled = not self._answer(f"messages[{index}]", role, message, waiting) or muddled
                continue
            if waiting and not muddled:
                what = f"is not answered by a {waiting[0].role} message before messages[{index}]"
                self._say(waiting[0].path, Rule.NO_ANSWER, f"{what}; add the answer, or end the row on the call")
            waiting, muddled = list(calls[index]), False

    def _answer(self, path: str, role: str, message: dict[str, object], waiting: list[_Call]) -> bool:
        """Cross off the call that this message answers. False when there is none."""
        key = "tool_call_id" if role == "tool" else "name"
        given = message.get(key)
        open_calls = [call for call in waiting if call.role == role]
        if not open_calls:
            self._say(
                path, Rule.NO_QUESTION, f"is a {role} message, but no call waits for it; remove it, or add the call"
            )
            return False
        if given is None:
            if role == "tool" and open_calls[0].id is not None:
                what = f"is missing, so this is taken for the answer to {_quoted(open_calls[0].id)}"
                self._say(f"{path}.{key}", Rule.NO_CALL_ID, what)
            waiting.remove(open_calls[0])
            return True
        for call in open_calls:
            if call.id == str(given):
                waiting.remove(call)
                return True
        names = ", ".join(_quoted(call.id) for call in open_calls if call.id is not None) or "a call without an id"
        self._say(f"{path}.{key}", Rule.NO_QUESTION, f"{_shown(given)} answers no open call; waiting: {names}")
        return False

    def _weights(self, messages: list[dict[str, object]]) -> None:
        weights = [message.get("weight") for message in messages if message["role"] == "assistant"]
        if weights and all(weight is not None and weight == 0 for weight in weights):
            self._say("messages", Rule.NOTHING_TO_LEARN, "every assistant message has weight 0: nothing is learnt here")


def _calls_something(message: dict[str, object]) -> bool:
    return bool(message.get("tool_calls") or isinstance(message.get("function_call"), dict))


def _not_an_object(arguments: str) -> str:
    """What keeps a string from being the JSON of an object; empty when nothing does."""
    if not arguments.strip():
        return 'is empty; write "{}" for a call without arguments'
    text = arguments.encode("utf-8", "surrogatepass")
    if is_too_deep(text):
        return f"has lists and objects more than {DEEPEST} levels inside each other"
    try:
        _arguments.decode(text)
    except msgspec.ValidationError:
        return "is the JSON of something that is not an object; arguments are named"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"is no JSON: {_quoted(arguments)}"
    return ""


def _walk(value: object) -> Iterator[tuple[str, object]]:
    """Every value in a row with its path, parents first, in the order of the text."""
    rest: list[tuple[str, object]] = [("", value)]
    while rest:
        path, value = rest.pop()
        yield path, value
        if isinstance(value, dict):
            rest.extend((_at(path, key), item) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            rest.extend((f"{path}[{index}]", value[index]) for index in reversed(range(len(value))))


def _at(path: str, key: str) -> str:
    if not _KEY.fullmatch(key):
        return f"{path}[{_quoted(key)}]"
    return f"{path}.{key}" if path else key


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a number"


def _state(holder: dict[str, object], key: str) -> str:
    if key not in holder:
        return "is missing"
    return "is empty" if holder[key] == "" else f"is {_kind(holder[key])}"


def _shown(value: object) -> str:
    """A value from a row, as it may stand in a message."""
    if isinstance(value, str):
        return _quoted(value)
    return _kind(value) if isinstance(value, (bool, dict, list, type(None))) else str(value)


def _quoted(text: str, longest: int = 40) -> str:
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return f'"{_printable(cut)}"'


def _printable(text: str) -> str:
    """`text` without what a terminal or an encoder would trip over."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _like(word: str, words: Iterable[str], ratio: float) -> str | None:
    """The one of `words` that is most like `word`, None when none is alike enough."""
    from difflib import get_close_matches  # here, because few rows need a hint

    return next(iter(get_close_matches(word, words, 1, ratio)), None)


def _misspelt(key: str, holder: dict[str, object]) -> str:
    """That a key which is missing may be there under a name that is nearly the same; empty when there is none."""
    near = _like(key, map(_printable, holder), 0.8)
    return f"; did you write it as {_quoted(near)}?" if near and near != key else ""


def _syntax(error: JSONDecodeError) -> str:
    """Why a text is no JSON, in words for the person who wrote it."""
    text = error.doc
    rest = text[error.pos : error.pos + 80].lstrip()
    column = f"at column {error.pos + 1}"
    if "\0" in text:
        return "holds NUL bytes; the file is damaged, or in another encoding than UTF-8"
    if error.msg == "Extra data" and rest.rstrip() == ",":
        return f"is no JSON: a comma follows the row ({column}); nothing stands between rows but the line end"
    if error.msg == "Extra data":
        return f"more than one value stands on this line ({column}); each row needs a line of its own"
    if error.msg.startswith("Unterminated string"):
        return f"is no JSON: it ends within the string that begins {column}; cut off, or a line end inside a text"
    if not rest:
        return f"is no JSON: it ends in the middle, {column}; cut off, or one row spread over several lines"
    if rest[0] == "'" or rest.startswith(("True", "False", "None")):
        return f"is no JSON but Python's notation ({column}); write the rows with json.dumps"
    if error.msg.startswith("Invalid control character"):
        return f"is no JSON: a control character inside a string ({column}); write \\n for a line end, \\t for a tab"
    return f"is no JSON: {error.msg[0].lower()}{error.msg[1:]} {column}, before {_quoted(rest, 20)}"
