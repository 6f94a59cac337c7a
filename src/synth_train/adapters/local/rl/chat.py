"""OpenAI chat completions in terms of tokens: reading a request, wording an answer."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import msgspec
from jinja2 import TemplateError
from msgspec import Meta, Struct
from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import add_response_schema, parse_response, supports_tool_calling

from synth_train.adapters.local.rl.sampler import Answer, Ask, Sampling

Json = dict[str, Any]

_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_UNHEEDED = ("frequency_penalty", "presence_penalty", "logit_bias", "min_p", "response_format", "guided_json")
"""What would change the answer, and does not here."""


class Refused(Exception):
    """A request that is answered with an error, as OpenAI words them."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": "invalid_request_error", "code": code}}


class _Body(Struct, frozen=True, kw_only=True):
    """What is read of a request. Anything else is let pass."""

    messages: Annotated[list[Json], Meta(min_length=1)]
    model: str | None = None
    tools: list[Json] | None = None
    tool_choice: str | Json | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: int | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    stream: bool | None = None
    logprobs: bool | None = None
    chat_template_kwargs: Json | None = None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A request as it was understood."""

    prompt: tuple[int, ...]
    sampling: Sampling
    model: str
    tools: list[Json] | None
    """Those that the answer may call; None when calls are not to be looked for."""
    log_probs: bool
    """Whether the answer is to hold them."""
    unheeded: tuple[str, ...]
    """What it asks for and does not get, in words for a warning."""

    def ask(self, seed: int) -> Ask:
        """It, for the sampler."""
        return Ask(prompt=self.prompt, sampling=self.sampling, seed=seed)


class Chat:
    """The policy's side of a chat. Safe to use from several threads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, name: str, defaults: Sampling, context: int) -> None:
        self._tokenizer, self._name, self._defaults, self._context = tokenizer, name, defaults, context
        self._takes_tools = supports_tool_calling(tokenizer)
        self._parser = _parser_of(tokenizer)

    def read(self, raw: bytes) -> Wanted:
        """Understand a request.

        Raises:
            Refused: it cannot be answered.
        """
        try:
            body = msgspec.json.decode(raw, type=_Body)
            given = msgspec.json.decode(raw, type=Json)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise Refused(400, "invalid_request", f"the request cannot be read: {error}") from None
        if (body.n or 1) != 1:
            raise Refused(400, "unsupported", "n must be 1: a rollout is trained on the one answer that it was given")
        if body.stream:
            raise Refused(400, "unsupported", "answers are not streamed here: send the request without stream")
        tools = body.tools if body.tools and body.tool_choice != "none" else None
        prompt = self._prompt([_message(message) for message in body.messages], tools, body.chat_template_kwargs or {})
        room = self._context - len(prompt)
        if room < 1:
            raise Refused(
                400, "context_length_exceeded", f"the messages are {len(prompt)} tokens, of {self._context} that fit"
            )
        return Wanted(
            prompt=tuple(prompt),
            sampling=self._sampling(body, room),
            model=body.model or self._name,
            tools=tools,
            log_probs=bool(body.logprobs),
            unheeded=tuple(self._unheeded(body, given, tools)),
        )

    def reply(self, wanted: Wanted, answer: Answer, cid: str) -> Json:
        """The body of the response."""
        message: Json = {"role": "assistant", "content": answer.text}
        calls = self._calls(wanted, answer) if wanted.tools else None
        if calls is not None:
            content, found = calls
            message = {"role": "assistant", "content": content or None, "tool_calls": found}
        finish = "tool_calls" if calls is not None and answer.finish == "stop" else answer.finish
        choice: Json = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        if wanted.log_probs:
            choice["logprobs"] = {"content": [*map(self._log_prob, answer.tokens, answer.log_probs)]}
        return {
            "id": f"chatcmpl-{cid}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": wanted.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": len(wanted.prompt),
                "completion_tokens": len(answer.tokens),
                "total_tokens": len(wanted.prompt) + len(answer.tokens),
            },
        }

    def _prompt(self, messages: list[Json], tools: list[Json] | None, options: Mapping[str, Any]) -> list[int]:
        try:
            ids = self._tokenizer.apply_chat_template(
                messages,
                tools=[*tools] if tools else None,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
                **{name: value for name, value in options.items() if name not in _TEMPLATE_ARGUMENTS},
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise Refused(400, "invalid_messages", f"the chat template does not take these messages: {error}") from None
        return cast(list[int], ids)

    def _sampling(self, body: _Body, room: int) -> Sampling:
        defaults = self._defaults
        stop = body.stop
        most = body.max_completion_tokens or body.max_tokens or defaults.max_tokens
        return Sampling(
            temperature=defaults.temperature if body.temperature is None else body.temperature,
            top_p=body.top_p or defaults.top_p,
            top_k=max(defaults.top_k if body.top_k is None else body.top_k, 0),
            repetition_penalty=body.repetition_penalty or defaults.repetition_penalty,
            max_tokens=min(most, room),
            stop=defaults.stop if stop is None else tuple(filter(None, [stop] if isinstance(stop, str) else stop)),
        )

    def _unheeded(self, body: _Body, given: Json, tools: object) -> list[str]:
        found = [name for name in _UNHEEDED if given.get(name) and given[name] != {"type": "text"}]
        if tools and not self._takes_tools:
            found.append("tools (the model's chat template has no place for them)")
        elif tools and body.tool_choice not in (None, "auto"):
            found.append("tool_choice (the policy is shown the tools; whether it calls one is for it to learn)")
        return found

    def _calls(self, wanted: Wanted, answer: Answer) -> tuple[str, list[Json]] | None:
        """What an answer says beside its calls, and the calls; None when it has none that can be read."""
        content, calls = _marked(answer.text)
        if not calls and self._parser is not None:
            parsed = parse_response(self._parser, list(answer.tokens), list(wanted.prompt), cast(Any, wanted.tools))
            content = str(parsed.get("content") or "").strip()
            found = [call["function"] for call in parsed.get("tool_calls") or []]
            calls = [(function["name"], json.dumps(function.get("arguments", {}))) for function in found]
        made = [
            {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for index, (name, arguments) in enumerate(calls)
        ]
        return (content, made) if made else None

    def _log_prob(self, token: int, log_prob: float) -> Json:
        text = self._tokenizer.decode([token])
        return {"token": text, "logprob": log_prob, "bytes": [*str(text).encode()], "top_logprobs": []}


_TEMPLATE_ARGUMENTS = frozenset(
    {"conversation", "tools", "add_generation_prompt", "tokenize", "return_dict", "return_tensors", "chat_template"}
)
"""What a request must not set through `chat_template_kwargs`."""


def _parser_of(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase | None:
    """A tokenizer that reads calls in the format of its model's family, if TRL knows that. The given one is left as it
    is, since it will be saved with the model."""
    try:
        return add_response_schema(copy.deepcopy(tokenizer))
    except ValueError:
        return None


def _marked(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands beside calls between `<tool_call>` marks, as Qwen and many others write them, and the calls; none
    unless all of them can be read."""
    found = [_call(match.group(1)) for match in _CALL.finditer(text)]
    calls = [call for call in found if call is not None]
    return (_CALL.sub("", text).strip(), calls) if len(calls) == len(found) else (text, [])


def _call(text: str) -> tuple[str, str] | None:
    """Name and arguments, as JSON, of `{"name": ..., "arguments": {...}}`."""
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(name, str):
        return None
    arguments = call.get("arguments", {})
    return name, arguments if isinstance(arguments, str) else json.dumps(arguments)


def _message(message: Json) -> Json:
    """A message as chat templates take it: text for content, objects for arguments."""
    plain = dict(message)
    if plain.get("role") == "developer":
        plain["role"] = "system"
    plain["content"] = _content(plain.get("content"))
    if plain.get("tool_calls"):
        plain["tool_calls"] = [_templated_call(call) for call in plain["tool_calls"]]
    return plain


def _content(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(400, "unsupported", "the policy reads text only: a message has content of another kind")
    return "".join(cast(list[str], texts))


def _templated_call(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
