"""A person whose answers are written down beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from synth_train.domain.model.errors import AnswerNeeded
from synth_train.domain.model.secret import Secret
from synth_train.ports.prompt import PromptPort


class ScriptedPrompt(PromptPort):
    """PromptPort that plays a script: pairs of a part of the question and what is typed, in order.

    ``ScriptedPrompt(("Which env file", "2"), ("SYNTH_API_KEY", "sk-..."), ("Save", ""))``

    A question that the script does not expect next fails, naming it. `None` in place of an answer is a person who
    went away. Assert on `asked`, every question with its options, and on `left`, what was never asked.
    """

    somebody = True

    def __init__(self, *script: tuple[str, str | None]) -> None:
        self.left = list(script)
        self.asked: list[str] = []

    def choose(self, question: str, options: Sequence[str], *, default: int = 0, remedy: str) -> int | None:
        typed = self._answer(" | ".join([question, *options]), remedy)
        index = int(typed) - 1 if typed else default
        if index >= len(options):
            raise AssertionError(f"{question!r} has {len(options)} options, but the script picks {typed}")
        return None if index < 0 else index

    def ask_secret(self, question: str, *, remedy: str) -> Secret:
        return Secret(self._answer(question, remedy).strip())

    def confirm(self, question: str, *, default: bool, remedy: str) -> bool:
        typed = self._answer(question, remedy).lower()
        return typed.startswith("y") if typed else default

    def _answer(self, question: str, remedy: str) -> str:
        self.asked.append(question)
        if not self.left or self.left[0][0] not in question:
            expected = f"the script expects {self.left[0][0]!r} next" if self.left else "the script is over"
            raise AssertionError(f"unexpected question {question!r}: {expected}")
        _, typed = self.left.pop(0)
        if typed is None:
            raise AnswerNeeded(f"No answer came to: {question}", hint=remedy)
        return typed
