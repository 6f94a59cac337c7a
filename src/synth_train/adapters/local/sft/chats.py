"""Rows of a dataset as chat templates want them. The forms that rows come in are those of `docs/dataset-rules.md`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from synth_train.domain.model.dataset_rules import BYTE_ORDER_MARK, is_blank


class Chat(Struct, frozen=True, kw_only=True):
    """One row."""

    line: int
    """Where it stands: a physical line, counted from 1."""
    messages: list[dict[str, Any]]
    """With text for content, calls under `tool_calls` with their arguments as objects, and no `weight`."""
    tools: list[dict[str, Any]]
    """In the nested form. Empty when the row has none."""
    learnt: tuple[bool, ...]
    """For each message of the assistant, in turn, whether it is learnt: its weight is not 0."""

    @property
    def calls_tools(self) -> bool:
        """Whether tools are called in it, or answer."""
        return any(message["role"] == "tool" or "tool_calls" in message for message in self.messages)

    @property
    def last_answer(self) -> int:
        """Which message is the assistant's last one."""
        return max(index for index, message in enumerate(self.messages) if message["role"] == "assistant")


class Unfit(Exception):
    """A row that cannot be trained on. `reason` is the same for all rows of its sort."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def rows_of(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The rows of a dataset, each with its line number; blank lines are none."""
    for number, line in enumerate(lines, start=1):
        row = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if not is_blank(row):
            yield number, row


def chat_of(line: int, row: bytes) -> Chat:
    """A row as chat templates want it.

    Raises:
        Unfit: it cannot be one: no JSON, no chat, or it shows an image.
    """
    try:
        parsed = msgspec.json.decode(row)
        messages = [_message(message) for message in parsed["messages"]]
        tools = [_tool(tool) for tool in parsed.get("tools") or parsed.get("functions") or []]
        learnt = tuple(message.get("weight") != 0 for message in parsed["messages"] if message["role"] == "assistant")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unfit("no chat (`synth-ai data check` tells what is wrong)") from None
    return Chat(line=line, messages=messages, tools=tools, learnt=learnt)


def _message(message: dict[str, Any]) -> dict[str, Any]:
    role = message["role"]
    made: dict[str, Any] = {"role": "tool" if role == "function" else role, "content": _text(message.get("content"))}
    calls = message.get("tool_calls") or []
    if message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    if calls:
        made["tool_calls"] = [_call(call) for call in calls]
    if message.get("reasoning"):
        made["reasoning_content"] = message["reasoning"]  # what templates call it
    return made | {name: str(message[name]) for name in ("name", "tool_call_id") if message.get(name) is not None}


def _text(content: Any) -> str:
    if isinstance(content, list):
        if any(part["type"] != "text" for part in content):
            raise Unfit("a message with an image, and this trainer is for text")
        return "".join(part["text"] for part in content)
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
    return content or ""


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or call
    arguments = function["arguments"]
    # As objects, templates write all of them in one way, however the row had spaced them.
    arguments = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    made = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return made if call.get("id") is None else {"id": str(call["id"]), **made}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("function") is None:
        return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
    return {"type": "function", "function": tool["function"]}
