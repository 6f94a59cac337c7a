"""Chats with models, outside training (wire-contract §4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from synth_train.domain.model.hosting import Owner, Refusal, maker_of
from synth_train.domain.usecases.hosting.results import Results
from synth_train.ports.speaker import Speaker

MOST_TOKENS = 2048
"""Of one answer. A request for more gets so many."""

USUAL_TOKENS = 512
"""Of an answer for which no number is asked."""

_Tokens = Annotated[int, Meta(ge=1)]


class ChatRequest(Struct, frozen=True, kw_only=True):
    """What is looked at here of a request for a chat completion; the rest is for the model's side."""

    model: Annotated[str, Meta(min_length=1, description="a model that a job has made, or one that can be trained")]
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    n: Annotated[int | None, Meta(description="1")] = None
    stream: Annotated[bool | None, Meta(description="false: answers come whole")] = None


@dataclass(frozen=True, kw_only=True)
class Chats:
    """Answers from models: those of the owner who asks, and base models."""

    results: Results
    speaker: Speaker

    def complete(self, owner: Owner, body: bytes) -> bytes:
        """Have a model answer.

        `thinking_budget` is let pass, and has no effect: no model here knows it.

        Args:
            body: the request, as it came.

        Returns:
            The body of the reply, as JSON.

        Raises:
            Refusal: 400 when the body is no JSON object or asks for what is not done here, 422 for a value that cannot
                be, 404 for a model that is not there or another owner's; and as `Speaker.complete`.
        """
        try:
            asked = msgspec.json.decode(body, type=ChatRequest)
            rest = msgspec.json.decode(body, type=dict[str, object])
        except msgspec.ValidationError as error:
            raise Refusal(422, "invalid_request", f"the request cannot be read: {error}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise Refusal(400, "invalid_json", "the request body is no JSON object") from None
        if asked.stream:
            raise Refusal(400, "not_streamed", "answers are not streamed here; send the request without stream")
        if asked.n not in (None, 1):
            raise Refusal(400, "one_answer", "n: there is one answer to a request here; send several requests")
        if maker_of(asked.model) is not None:
            self.results.maker(owner, asked.model)
        for name in ("thinking_budget", "max_completion_tokens", "stream"):
            rest.pop(name, None)
        rest["max_tokens"] = min(asked.max_completion_tokens or asked.max_tokens or USUAL_TOKENS, MOST_TOKENS)
        return self.speaker.complete(asked.model, msgspec.json.encode(rest))
