"""What the policy answers that sees a rollout through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synth_train.domain.model.scripted_policy import completion_for, example_of

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}}
FLAT = {"name": "flat", "parameters": {"properties": {"n": {"type": "integer"}}}}


def message(body: object) -> Any:
    completion: Any = completion_for(body)
    return completion["choices"][0]["message"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"tools": []},
        {"tools": "none"},
        {"tools": [1, {"function": {}}, {"function": 3}]},
        {"tools": [ADD], "tool_choice": "none"},
    ],
)
def test_without_a_tool_the_answer_is_a_word(body: object) -> None:
    assert message(body) == {"role": "assistant", "content": "ok"}
    assert completion_for(body)["model"] == "policy"


@pytest.mark.parametrize(
    ("choice", "called", "arguments"),
    [
        ("auto", "add", {"a": {}}),
        (None, "add", {"a": {}}),
        ({"type": "function", "function": {"name": "flat"}}, "flat", {"n": 1}),
        ({"type": "function", "function": {"name": "unknown"}}, "add", {"a": {}}),
    ],
)
def test_the_chosen_tool_is_called_else_the_first(choice: object, called: str, arguments: object) -> None:
    body = {"model": "m", "tools": [ADD, FLAT], "tool_choice": choice}
    [call] = message(body)["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (called, arguments)
    completion: Any = completion_for(body)
    assert (completion["model"], completion["choices"][0]["finish_reason"]) == ("m", "tool_calls")


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        (None, {}),
        ({"type": "string"}, "1"),
        ({"type": "integer"}, 1),
        ({"type": "number"}, 1),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["string", "null"]}, "1"),
        ({"type": []}, {}),
        ({"const": 7}, 7),
        ({"default": "left", "enum": ["right"]}, "left"),
        ({"enum": ["right", "left"]}, "right"),
        ({"enum": []}, {}),
        ({"examples": [3]}, 3),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1),
        ({"oneOf": [{"type": "string"}]}, "1"),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", 3]}, {"a": "1"}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
    ],
)
def test_a_schema_has_an_example(schema: object, example: object) -> None:
    assert example_of(schema) == example
