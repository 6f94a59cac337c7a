"""A speaker without a model."""

from __future__ import annotations

import itertools

import msgspec

from synth_train.domain.model.hosting import Refusal
from synth_train.ports.speaker import Speaker


class ScriptedSpeaker(Speaker):
    """Speaker that says `answer`, a word for each token, whatever it is asked.

    Arrange with `models`, those that there are beside what jobs have made, `answer`, and `refusal`, which is raised
    instead. Inspect with `asked`.
    """

    def __init__(self) -> None:
        self.models = {"tiny"}
        self.answer = "Well, let me think about it."
        self.refusal: Refusal | None = None
        self.asked: list[dict[str, object]] = []
        self._count = itertools.count(1)

    def complete(self, model: str, request: bytes) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        if model not in self.models and ":" not in model:
            raise Refusal(404, "unknown_model", f"there is no model {model}")
        body = msgspec.json.decode(request, type=dict[str, object])
        said = msgspec.convert(body["messages"], list[dict[str, object]])
        if any(not isinstance(message.get("content"), (str, type(None))) for message in said):
            raise Refusal(400, "unsupported", "a message has content of another kind than text")
        self.asked.append(body)
        words = self.answer.split()
        limit = msgspec.convert(body.get("max_tokens", len(words)), int)
        prompt = sum(len(str(message.get("content") or "").split()) for message in said)
        reply = {
            "id": f"chatcmpl-{next(self._count)}",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": " ".join(words[:limit])},
                    "finish_reason": "length" if limit < len(words) else "stop",
                    "logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": min(limit, len(words)),
                "total_tokens": prompt + min(limit, len(words)),
            },
        }
        return msgspec.json.encode(reply)

    def close(self) -> None:
        """There is nothing to let go of."""
