"""What a policy answers that only wants to see a rollout through: a call of the tool that it is given, or a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

WORD = "ok"


class Asked(Struct, frozen=True, kw_only=True):
    """One request that the policy got."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: object
    """The decoded JSON; None when it is no JSON."""


def completion_for(body: object) -> dict[str, object]:
    """The chat completion for a request, whatever it is.

    When tools are offered, the one that `tool_choice` names is called, else the first, with arguments that its schema
    allows; when not, the answer is a word.
    """
    request: Mapping[object, object] = body if isinstance(body, dict) else {}
    function = _function(request)
    message: dict[str, object] = {"role": "assistant", "content": WORD}
    if function is not None:
        arguments = msgspec.json.encode(example_of(function.get("parameters"))).decode()
        call = {"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "chatcmpl-check",
        "object": "chat.completion",
        "created": 0,
        "model": str(request.get("model") or "policy"),
        "choices": [
            {"index": 0, "message": message, "finish_reason": "stop" if function is None else "tool_calls"},
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def example_of(schema: object) -> object:
    """A value that a JSON Schema most likely allows; an object where it says nothing."""
    known: Mapping[object, object] = schema if isinstance(schema, dict) else {}
    for name in ("const", "default"):
        if name in known:
            return known[name]
    for name in ("enum", "examples", "anyOf", "oneOf"):
        choices = known.get(name)
        if isinstance(choices, list) and choices:
            return choices[0] if name in ("enum", "examples") else example_of(choices[0])
    type_ = known.get("type")
    type_ = type_[0] if isinstance(type_, list) and type_ else type_
    simple = {"string": "1", "integer": 1, "number": 1, "boolean": True, "null": None}
    if isinstance(type_, str) and type_ in simple:
        return simple[type_]
    if type_ == "array":
        minimum = known.get("minItems")
        return [example_of(known.get("items"))] * (minimum if isinstance(minimum, int) else 1)
    properties = known.get("properties")
    if not isinstance(properties, dict):
        return {}
    required = known.get("required")
    names = required if isinstance(required, list) else list(properties)
    return {name: example_of(properties.get(name)) for name in names if isinstance(name, str)}


def _function(request: Mapping[object, object]) -> Mapping[object, object] | None:
    """The function to call; None when there is none."""
    functions = [function for function in map(_function_of, _list(request.get("tools"))) if function is not None]
    choice = _function_of(request.get("tool_choice"))
    wanted = [function for function in functions if choice is not None and function["name"] == choice["name"]]
    return next(iter(wanted or functions), None) if request.get("tool_choice") != "none" else None


def _function_of(tool: object) -> Mapping[object, object] | None:
    """The function that a tool is, in the nested or the flat form."""
    if not isinstance(tool, dict):
        return None
    function = tool.get("function", tool)
    return function if isinstance(function, dict) and isinstance(function.get("name"), str) else None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
