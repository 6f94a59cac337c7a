"""Questions to a person. In memory: `adapters.in_memory.prompt.ScriptedPrompt`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from synth_train.domain.model.secret import Secret


class PromptPort(Protocol):
    """Somebody who may be asked.

    `remedy` names the option or variable that would make the question needless; the adapter for an empty room
    (`NobodyToAsk`) raises `AnswerNeeded` with it as the hint, and so does an end of input.
    """

    @property
    def somebody(self) -> bool:
        """Whether anybody is there. If not, every question raises, so that there is no use in asking one."""
        ...

    def choose(self, question: str, options: Sequence[str], *, default: int = 0, remedy: str) -> int | None:
        """Let one of `options` be picked by its number, counted from 1. `default` is an index taken on an empty
        answer. Returns the index into `options`, or None for 0, which aborts. Any other answer is asked again.

        Raises:
            AnswerNeeded: nobody is there.
        """
        ...

    def ask_secret(self, question: str, *, remedy: str) -> Secret:
        """Ask for a key without showing what is typed. Never blank; blanks around it are not part of it.

        Raises:
            AnswerNeeded: nobody is there.
        """
        ...

    def confirm(self, question: str, *, default: bool, remedy: str) -> bool:
        """Ask a question that is answered by yes or no; `default` is taken on an empty answer.

        Raises:
            AnswerNeeded: nobody is there.
        """
        ...
