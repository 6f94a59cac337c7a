"""Every rule about a row, with the path it names and the words it uses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from synth_train.domain.model.dataset_rules import DEEPEST, Rule, is_blank, is_too_deep, judge

USER = {"role": "user", "content": "weather in Oslo?"}
ANSWER = {"role": "assistant", "content": "4 degrees"}


def line(row: object) -> bytes:
    return json.dumps(row).encode()


def row(*messages: object, **keys: object) -> bytes:
    return line({"messages": messages, **keys})


def asked(user: object) -> bytes:
    """A row with this message of the user, and an answer."""
    return row(user, ANSWER)


def said(content: object) -> bytes:
    return asked({"role": "user", "content": content})


def call(**changes: object) -> dict[str, object]:
    made = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    return {key: value for key, value in {**made, **changes}.items() if value is not ...}


def calling(*calls: object, **keys: object) -> dict[str, object]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **keys}


def answering(**changes: object) -> dict[str, object]:
    made = {"role": "tool", "tool_call_id": "call_1", "content": "4"}
    return {key: value for key, value in {**made, **changes}.items() if value is not ...}


def arguments(value: object) -> bytes:
    function = {"name": "weather"} if value is ... else {"name": "weather", "arguments": value}
    return row(USER, calling(call(function=function)))


def legacy(name: object = "weather", **keys: object) -> dict[str, object]:
    return {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}, **keys}


def weighted(weight: object) -> bytes:
    return row(USER, {**ANSWER, "weight": weight})


ARGUMENTS = "messages[1].tool_calls[0].function.arguments"

FINE = {
    "a question and its answer": row(USER, ANSWER),
    "an assistant that speaks first": row(ANSWER),
    "several system messages before the first turn": row(
        {"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, USER, ANSWER
    ),
    "a call without text that nothing follows": row(USER, calling(call())),
    "a call beside an empty text": row(USER, calling(call(), content="")),
    "a call, its answer and what comes of it": row(USER, calling(call()), answering(), ANSWER),
    "a question after the answer of a tool": row(USER, calling(call()), answering(), USER, ANSWER),
    "two calls answered in the other order": row(
        USER, calling(call(), call(id="b")), answering(tool_call_id="b"), answering(), ANSWER
    ),
    "a call in the flat form": row(
        USER, calling({"name": "weather", "arguments": "{}"}), answering(tool_call_id=None), ANSWER
    ),
    "calls and answers without ids": row(USER, calling(call(id=...)), answering(tool_call_id=...), ANSWER),
    "ids that are numbers": row(USER, calling(call(id=7)), answering(tool_call_id=7), ANSWER),
    "the old form of a call": row(USER, legacy(), {"role": "function", "name": "weather", "content": "4"}, ANSWER),
    "the old form without a name in the answer": row(USER, legacy(), {"role": "function", "content": "4"}, ANSWER),
    "keys that are null": row(
        {**USER, "name": None, "tool_calls": None, "function_call": None, "weight": None}, ANSWER, tools=None
    ),
    "an empty list of calls beside a text": row(USER, {**ANSWER, "tool_calls": []}),
    "texts beside the content": row(USER, {**ANSWER, "name": "n", "reasoning": "r", "raw_content": "c"}),
    "weights of 0 and 1": row(USER, {**ANSWER, "weight": 0}, USER, {**ANSWER, "weight": 1.0}),
    "parts": said(
        [
            {"type": "text", "text": "?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "image", "image": "https://example.invalid/a.png"},
        ]
    ),
    "both forms of tools": row(
        USER,
        ANSWER,
        tools=[{"type": "function", "function": {"name": "a", "description": "d", "parameters": {}}}, {"name": "b"}],
        functions=[{"name": "c", "parameters": None}],
    ),
    "metadata, and keys nobody knows": row(USER, ANSWER, metadata={"a": 1}, source=[None], id=7),
    "a pair of surrogates, which is one character": said("\U0001f378"),
    "numbers of any length": row(USER, ANSWER, id=10**400, share=1e300),
    "as many levels as may be": row(USER, ANSWER, id=json.loads("[" * (DEEPEST - 1) + "]" * (DEEPEST - 1))),
    "the same key twice with one value": b'{"messages":[{"role":"assistant","content":"a","content":"a"}]}',
}


@pytest.mark.parametrize("text", FINE.values(), ids=FINE)
def test_what_can_be_trained_on_is_left_in_peace(text: bytes) -> None:
    assert judge(text).findings == ()


BROKEN: dict[str, tuple[bytes, str, Rule, str]] = {
    # the bytes
    "latin-1": (b'{"messages": "\xe9"}', "", Rule.NOT_UTF8, "byte 0xe9 at byte 15 of the line"),
    "half a surrogate in bytes": (b'{"messages": "\xed\xb2\xb2"}', "", Rule.NOT_UTF8, "is not UTF-8"),
    "a mark where files were joined": (b"\xef\xbb\xbf" + row(USER, ANSWER), "", Rule.MARK_INSIDE, "remove EF BB BF"),
    # the JSON
    "text": (b"hello", "", Rule.NOT_JSON, 'expecting value at column 1, before "hello"'),
    "a row cut off between values": (b'{"messages": [', "", Rule.NOT_JSON, "ends in the middle"),
    "a row cut off in a text": (b'{"messages": [{"role": "us', "", Rule.NOT_JSON, "string that begins at column 24"),
    "two rows on a line": (row(USER, ANSWER) * 2, "", Rule.NOT_JSON, "more than one value"),
    "a comma between rows": (row(USER, ANSWER) + b", ", "", Rule.NOT_JSON, "a comma follows the row (at column "),
    "Python's quotes": (b"{'messages': []}", "", Rule.NOT_JSON, "json.dumps"),
    "Python's constants": (b'{"messages": None}', "", Rule.NOT_JSON, "json.dumps"),
    "NUL bytes": (b'\0{"messages": []}', "", Rule.NOT_JSON, "NUL"),
    "a tab in a text": (b'{"messages": "a\tb"}', "", Rule.NOT_JSON, "control character"),
    "a comma too few": (b'{"messages": [] "id": 1}', "", Rule.NOT_JSON, "expecting ',' delimiter at column 17"),
    "NaN": (
        b'{"messages": [{"role": "assistant", "content": "a"}], "a": {"b c": [1, NaN]}}',
        'a["b c"][1]',
        Rule.NO_NUMBER,
        "NaN is no JSON",
    ),
    "minus infinity": (b'{"messages": -Infinity}', "messages", Rule.NO_NUMBER, "-Infinity is no JSON"),
    "too many levels": (b"[" * 100_000, "", Rule.TOO_DEEP, str(DEEPEST)),
    "one level too many": (
        row(USER, ANSWER, id=json.loads("[" * DEEPEST + "]" * DEEPEST)),
        "",
        Rule.TOO_DEEP,
        str(DEEPEST),
    ),
    "half a surrogate": (said("m\udcb2"), "messages[0].content", Rule.HALF_PAIR, "half of a surrogate pair"),
    "half a surrogate in a key": (row(USER, ANSWER, meta={"\ud83c": 1}), "meta", Rule.HALF_PAIR, "a key holds half"),
    "half a surrogate deep inside": (
        row(USER, ANSWER, meta=[{"a": "\ud83c"}]),
        "meta[0].a",
        Rule.HALF_PAIR,
        "half of a surrogate pair",
    ),
    "content twice": (
        b'{"messages":[{"role":"assistant","content":"a","content":"b"}]}',
        "messages[0].content",
        Rule.KEY_TWICE,
        "given twice",
    ),
    "messages twice": (
        b'{"messages":[],"messages":[{"role":"assistant","content":"a"}]}',
        "messages",
        Rule.KEY_TWICE,
        "given twice",
    ),
    # the row
    "a list": (b'["not", "an", "object"]', "", Rule.NO_OBJECT, "is a list"),
    "a string": (b'"messages"', "", Rule.NO_OBJECT, "is a string"),
    "null": (b"null", "", Rule.NO_OBJECT, "is null"),
    "no messages": (b"{}", "messages", Rule.NO_MESSAGES, "is missing"),
    "a prompt and a completion": (line({"prompt": "x"}), "messages", Rule.NO_MESSAGES, "prompt/completion"),
    "ShareGPT": (
        line({"conversations": []}),
        "messages",
        Rule.NO_MESSAGES,
        "ShareGPT rows; write messages for conversations, role for from",
    ),
    "a misspelt key": (line({"mesages": [ANSWER]}), "messages", Rule.NO_MESSAGES, 'did you write it as "mesages"?'),
    "messages that are no list": (line({"messages": {}}), "messages", Rule.NO_MESSAGES, "is an object"),
    "no message": (line({"messages": []}), "messages", Rule.NO_MESSAGES, "is empty"),
    "metadata that is no object": (row(USER, ANSWER, metadata="x"), "metadata", Rule.BAD_METADATA, "is a string"),
    # tools
    "tools that are no list": (row(USER, ANSWER, tools={}), "tools", Rule.BAD_TOOLS, "is an object"),
    "a tool that is no object": (row(USER, ANSWER, tools=["t"]), "tools[0]", Rule.BAD_TOOLS, "is a string"),
    "a tool without a name": (
        row(USER, ANSWER, tools=[{"type": "function", "function": {}}]),
        "tools[0].function.name",
        Rule.BAD_TOOLS,
        "is missing",
    ),
    "a tool with an empty name": (
        row(USER, ANSWER, functions=[{"name": ""}]),
        "functions[0].name",
        Rule.BAD_TOOLS,
        "is empty",
    ),
    "a description that is no text": (
        row(USER, ANSWER, tools=[{"name": "t", "description": 7}]),
        "tools[0].description",
        Rule.BAD_TOOLS,
        "is a number",
    ),
    "parameters that are no object": (
        row(USER, ANSWER, tools=[{"name": "t", "parameters": False}]),
        "tools[0].parameters",
        Rule.BAD_TOOLS,
        "is false",
    ),
    # the message
    "a message that is no object": (row(USER, "hi"), "messages[1]", Rule.BAD_MESSAGE, "is a string"),
    "no role": (asked({"content": "x"}), "messages[0].role", Rule.BAD_ROLE, "is missing"),
    "a misspelt role key": (
        asked({"rol": "user", "content": "x"}),
        "messages[0].role",
        Rule.BAD_ROLE,
        'is missing; did you write it as "rol"?',
    ),
    "a misspelt content key": (
        asked({"role": "user", "contnet": "x"}),
        "messages[0].content",
        Rule.NO_CONTENT,
        'is missing; did you write it as "contnet"?',
    ),
    "a role that is no text": (asked({"role": 7, "content": "x"}), "messages[0].role", Rule.BAD_ROLE, "is 7"),
    "a blank role": (asked({"role": " ", "content": "x"}), "messages[0].role", Rule.BAD_ROLE, 'is " "'),
    "a role of another format": (asked({"role": "human", "content": "x"}), "messages[0].role", Rule.BAD_ROLE, '"user"'),
    "a role in capitals": (asked({"role": "User", "content": "x"}), "messages[0].role", Rule.BAD_ROLE, 'write "user"'),
    "a misspelt role": (asked({"role": "sytem", "content": "x"}), "messages[0].role", Rule.BAD_ROLE, 'write "system"'),
    "a role nobody knows": (
        asked({"role": "m\u202e\x1b", "content": "x"}),
        "messages[0].role",
        Rule.BAD_ROLE,
        '"m\\u202e\\x1b" is no role; it must be system, developer, user, assistant, tool or function',
    ),
    "no content": (asked({"role": "user"}), "messages[0].content", Rule.NO_CONTENT, "is missing"),
    "null content": (said(None), "messages[0].content", Rule.NO_CONTENT, "is null"),
    "a user with calls needs content": (
        row(USER, {"role": "assistant", "content": None, "tool_calls": []}),
        "messages[1].content",
        Rule.NO_CONTENT,
        "is null",
    ),
    "content that is a number": (said(7), "messages[0].content", Rule.BAD_CONTENT, "is a number"),
    "content that is true": (said(True), "messages[0].content", Rule.BAD_CONTENT, "is true"),
    "content that is an object": (said({"a": 1}), "messages[0].content", Rule.OBJECT_CONTENT, "write it as text"),
    "an empty answer": (row(USER, {**ANSWER, "content": ""}), "messages[1].content", Rule.EMPTY_ANSWER, "is empty"),
    "a name that is no text": (asked({**USER, "name": 7}), "messages[0].name", Rule.BAD_TEXT, "must be text"),
    "reasoning that is no text": (
        row(USER, {**ANSWER, "reasoning": []}),
        "messages[1].reasoning",
        Rule.BAD_TEXT,
        "is a list",
    ),
    # parts
    "no parts": (said([]), "messages[0].content", Rule.NO_CONTENT, "empty list"),
    "a part that is text": (said(["hi"]), "messages[0].content[0]", Rule.BAD_PART, "is a string"),
    "a part without a type": (said([{}]), "messages[0].content[0].type", Rule.BAD_PART, "is missing"),
    "a part of an unknown type": (
        said([{"type": "hologram"}]),
        "messages[0].content[0].type",
        Rule.BAD_PART,
        '"hologram" is no kind of part',
    ),
    "a text part without text": (said([{"type": "text"}]), "messages[0].content[0].text", Rule.BAD_PART, "is missing"),
    "an image address without its object": (
        said([{"type": "image_url", "image_url": "http://x"}]),
        "messages[0].content[0].image_url",
        Rule.BAD_PART,
        "is a string",
    ),
    "an image address that is no text": (
        said([{"type": "image_url", "image_url": {"url": 7}}]),
        "messages[0].content[0].image_url.url",
        Rule.BAD_PART,
        "is a number",
    ),
    "an image on somebody's disk": (
        said([{"type": "image", "image": "/home/me/a.png"}]),
        "messages[0].content[0].image",
        Rule.IMAGE_PLACE,
        '"/home/me/a.png" begins with neither',
    ),
    # weights
    "a weight of 2": (weighted(2), "messages[1].weight", Rule.BAD_WEIGHT, "is 2"),
    "a weight in words": (weighted("1"), "messages[1].weight", Rule.BAD_WEIGHT, 'is "1"'),
    "a weight that is true": (weighted(True), "messages[1].weight", Rule.BAD_WEIGHT, "is true"),
    "a huge weight": (weighted(2).replace(b"2}", b"9" * 5000 + b"}"), "messages[1].weight", Rule.BAD_WEIGHT, "is inf"),
    "weights that are all 0": (weighted(0), "messages", Rule.NOTHING_TO_LEARN, "nothing is learnt"),
    # calls
    "calls that are no list": (
        row(USER, {**ANSWER, "tool_calls": {}}),
        "messages[1].tool_calls",
        Rule.BAD_CALL,
        "list",
    ),
    "a call that is no object": (row(USER, calling("x")), "messages[1].tool_calls[0]", Rule.BAD_CALL, "is a string"),
    "a call of nothing": (
        row(USER, calling(call(function=...))),
        "messages[1].tool_calls[0].function",
        Rule.BAD_CALL,
        "is missing",
    ),
    "a call without a name": (
        row(USER, calling(call(function={"arguments": "{}"}))),
        "messages[1].tool_calls[0].function.name",
        Rule.BAD_CALL,
        "is missing",
    ),
    "a flat call with an empty name": (
        row(USER, calling({"name": "", "arguments": "{}"})),
        "messages[1].tool_calls[0].name",
        Rule.BAD_CALL,
        "is empty",
    ),
    "no arguments": (arguments(...), ARGUMENTS, Rule.BAD_ARGUMENTS, "is missing"),
    "arguments that are an object": (arguments({"city": "Oslo"}), ARGUMENTS, Rule.BAD_ARGUMENTS, "must be a string"),
    "arguments that are a number": (arguments(7), ARGUMENTS, Rule.BAD_ARGUMENTS, "is a number"),
    "arguments cut off": (arguments('{"city": '), ARGUMENTS, Rule.BAD_ARGUMENTS, 'is no JSON: "{"city": "'),
    "arguments that are a list": (arguments('["Oslo"]'), ARGUMENTS, Rule.BAD_ARGUMENTS, "not an object"),
    "empty arguments": (arguments(" "), ARGUMENTS, Rule.BAD_ARGUMENTS, 'write "{}"'),
    "arguments with NaN": (arguments('{"a": NaN}'), ARGUMENTS, Rule.BAD_ARGUMENTS, "is no JSON"),
    "arguments too deep": (arguments('{"a":' + "[" * 100_000), ARGUMENTS, Rule.BAD_ARGUMENTS, str(DEEPEST)),
    "a call by the user": (asked({**USER, "tool_calls": [call()]}), "messages[0].tool_calls[0]", Rule.BAD_CALL, "only"),
    "an old call that is no object": (
        row(USER, {**ANSWER, "function_call": "auto"}),
        "messages[1].function_call",
        Rule.BAD_CALL,
        "is a string",
    ),
    "both forms of a call": (
        row(USER, legacy(tool_calls=[call()]), answering(), ANSWER),
        "messages[1].function_call",
        Rule.BAD_CALL,
        "keep one",
    ),
    "an old call without a name": (
        row(USER, legacy(name=None)),
        "messages[1].function_call.name",
        Rule.BAD_CALL,
        "null",
    ),
    "two calls with one id": (
        row(USER, calling(call(), call())),
        "messages[1].tool_calls[1].id",
        Rule.SAME_CALL_ID,
        '"call_1"',
    ),
    # answers
    "a call that the assistant itself goes past": (
        row(USER, calling(call()), ANSWER),
        "messages[1].tool_calls[0]",
        Rule.NO_ANSWER,
        "before messages[2]",
    ),
    "the second of two calls not answered": (
        row(USER, calling(call(), call(id="b")), answering(), ANSWER),
        "messages[1].tool_calls[1]",
        Rule.NO_ANSWER,
        "before messages[3]",
    ),
    "an answer that nobody asked for": (
        row(USER, answering(), ANSWER),
        "messages[1]",
        Rule.NO_QUESTION,
        "no call waits",
    ),
    "an answer to another call": (
        row(USER, calling(call()), answering(tool_call_id="call_9"), ANSWER),
        "messages[2].tool_call_id",
        Rule.NO_QUESTION,
        '"call_9" answers no open call; waiting: "call_1"',
    ),
    "an answer with an id to a call without": (
        row(USER, calling(call(id=...)), answering(), ANSWER),
        "messages[2].tool_call_id",
        Rule.NO_QUESTION,
        "waiting: a call without an id",
    ),
    "a second answer to one call": (
        row(USER, calling(call()), answering(), answering(), ANSWER),
        "messages[3]",
        Rule.NO_QUESTION,
        "no call waits",
    ),
    "an answer without an id": (
        row(USER, calling(call()), answering(tool_call_id=...), ANSWER),
        "messages[2].tool_call_id",
        Rule.NO_CALL_ID,
        '"call_1"',
    ),
    "an old answer by another name": (
        row(USER, legacy(), {"role": "function", "name": "time", "content": "4"}, ANSWER),
        "messages[2].name",
        Rule.NO_QUESTION,
        '"time" answers no open call; waiting: "weather"',
    ),
    # the order
    "nobody who answers": (row(USER), "messages", Rule.NO_ASSISTANT, "nothing to learn"),
    "the user's last word": (row(USER, ANSWER, USER), "messages[2].role", Rule.LAST_NOT_ASSISTANT, "is the user's"),
    "a system message in the middle": (
        row(USER, {"role": "system", "content": "s"}, ANSWER),
        "messages[1].role",
        Rule.LATE_SYSTEM,
        "after the conversation has begun",
    ),
    "two answers in a row": (row(USER, ANSWER, ANSWER), "messages[2].role", Rule.SAME_ROLE, "two assistant messages"),
}


@pytest.mark.parametrize(("text", "path", "rule", "words"), BROKEN.values(), ids=BROKEN)
def test_each_breach_is_named_once_with_its_path(text: bytes, path: str, rule: Rule, words: str) -> None:
    (finding,) = judge(text).findings

    assert (finding.path, finding.rule) == (path, rule)
    assert words in finding.what
    finding.what.encode()


def test_every_rule_has_an_example_here() -> None:
    assert {rule for _, _, rule, _ in BROKEN.values()} == set(Rule)


def test_all_breaches_of_a_row_are_found_at_once() -> None:
    found = judge(row({"role": "user", "content": 7}, {"role": "assistant", "content": "a", "weight": 2}, tools=[{}]))

    assert [finding.path for finding in found.findings] == [
        "messages[0].content",
        "messages[1].weight",
        "tools[0].name",
    ]


def test_two_users_without_an_answer_are_a_warning_and_an_error() -> None:
    assert [finding.rule for finding in judge(row(USER, USER)).findings] == [Rule.SAME_ROLE, Rule.NO_ASSISTANT]


def test_a_row_is_counted_by_its_messages_and_known_roles() -> None:
    found = judge(row({"role": "bot", "content": "x"}, "hi", USER, ANSWER))

    assert found.turns == 4
    assert found.roles == ("user", "assistant")


def test_a_long_text_is_quoted_by_its_beginning() -> None:
    (finding,) = judge(asked({"role": "x" * 1000, "content": "x"})).findings

    assert f'"{"x" * 39}…" is no role' in finding.what


@pytest.mark.parametrize(("text", "blank"), [(b" \t\r\n", True), (b"", True), (b"0\n", False), (b"\0", False)])
def test_white_space_alone_is_no_row(text: bytes, blank: bool) -> None:
    assert is_blank(text) is blank


def test_brackets_in_texts_are_no_levels() -> None:
    quoted = json.dumps({"a": '[{"\\' * DEEPEST}).encode()

    assert not is_too_deep(quoted)
    assert not is_too_deep(b"[" + b"[]," * DEEPEST + b"[]]")
    assert is_too_deep(b'{"a":' * (DEEPEST + 1))


def test_the_page_of_rules_lists_every_rule_with_its_severity() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dataset-rules.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([^|]+?) \| (error|warning) \|", page, re.MULTILINE)

    assert sorted(listed) == sorted((rule.reason, rule.severity.value) for rule in Rule)
