"""Somebody who answers for models, outside training.

In memory: `adapters.in_memory.speaker`.
"""

from __future__ import annotations

from typing import Protocol


class Speaker(Protocol):
    """Answers chat completions, for one model at a time.

    Checked in tests/contracts/test_speaker.py.
    """

    def complete(self, model: str, request: bytes) -> bytes:
        """Have a model answer. Returns when the answer is there, which may take minutes. May be called from any thread.

        Args:
            model: the id of a model that a job here has made, or whatever else names one to the trainer.
            request: the body of an OpenAI chat completion, without `stream`.

        Returns:
            The body of the reply, as JSON.

        Raises:
            Refusal: 400 for messages that the model cannot take, 404 when there is no such model, 422 when it cannot
                be used, 429 when too much is asked at once, 501 when there is nothing here to compute with, 503 when
                the model is still being loaded, or the answer was cut off.
        """
        ...

    def close(self) -> None:
        """Let go of the model. Who waits for an answer is refused; whoever asks later has it loaded again."""
        ...
