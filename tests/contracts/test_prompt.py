"""What every PromptPort promises: by a script, and by somebody who types at a real terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from support.typist import Typist
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.stdin_prompt import NobodyToAsk, StdinPrompt
from synth_train.domain.model.errors import AnswerNeeded
from synth_train.domain.model.secret import Secret
from synth_train.ports.prompt import PromptPort

T = TypeVar("T")
Answered = Callable[[str | None], PromptPort]


@pytest.fixture(params=["scripted", "stdin"])
def answered(request: pytest.FixtureRequest) -> Iterator[Answered]:
    """A prompt whose next question gets one answer; None is somebody who goes away."""
    with ExitStack() as stack:

        def build(typed: str | None) -> PromptPort:
            if request.param == "scripted":
                return ScriptedPrompt(("", typed))
            typist = stack.enter_context(Typist("\x04" if typed is None else f"{typed}\n"))
            return StdinPrompt(typist.stdin, typist.stderr)

        yield build


@pytest.mark.parametrize(("typed", "picked"), [("1", 0), ("2", 1), ("", 1), ("0", None)])
def test_an_option_is_picked_by_its_number(answered: Answered, typed: str, picked: int | None) -> None:
    assert answered(typed).choose("Which?", ["a", "b"], default=1, remedy="--config") == picked


@pytest.mark.parametrize("typed", ["sk-live", "  sk-live "])
def test_a_secret_is_what_was_typed_without_blanks_around_it(answered: Answered, typed: str) -> None:
    assert answered(typed).ask_secret("KEY", remedy="Set KEY.") == Secret("sk-live")


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize(("typed", "said"), [("y", True), ("Yes", True), ("n", False), ("NO", False), ("", None)])
def test_yes_and_no_are_understood(answered: Answered, typed: str, said: bool | None, default: bool) -> None:
    answer = answered(typed).confirm("Save?", default=default, remedy="--env-file")

    assert answer is (default if said is None else said)


ASK: list[Callable[[PromptPort], object]] = [
    lambda prompt: prompt.choose("The question", ["a"], remedy="The remedy."),
    lambda prompt: prompt.ask_secret("The question", remedy="The remedy."),
    lambda prompt: prompt.confirm("The question", default=True, remedy="The remedy."),
]
asked = pytest.mark.parametrize("ask", ASK, ids=["choose", "ask_secret", "confirm"])


@asked
def test_somebody_who_goes_away_is_an_answer_needed_with_the_remedy(
    answered: Answered, ask: Callable[[PromptPort], object]
) -> None:
    prompt = answered(None)

    assert prompt.somebody
    with pytest.raises(AnswerNeeded, match="The question") as caught:
        ask(prompt)
    assert caught.value.hint == "The remedy."


@asked
def test_an_empty_room_is_an_answer_needed_with_the_remedy(ask: Callable[[PromptPort], object]) -> None:
    prompt: PromptPort = NobodyToAsk()

    assert not prompt.somebody
    with pytest.raises(AnswerNeeded, match="The question") as caught:
        ask(prompt)
    assert caught.value.hint == "The remedy."


def test_a_script_names_the_question_it_did_not_expect() -> None:
    prompt = ScriptedPrompt(("Which env file", "1"))

    with pytest.raises(AssertionError, match="unexpected question 'Save\\?': the script expects 'Which env file' next"):
        prompt.confirm("Save?", default=True, remedy="")
    with pytest.raises(AssertionError, match="unexpected question 'Save\\?': the script is over"):
        ScriptedPrompt().confirm("Save?", default=True, remedy="")


def test_a_script_cannot_pick_what_is_not_offered() -> None:
    with pytest.raises(AssertionError, match="'Which\\?' has 2 options, but the script picks 3"):
        ScriptedPrompt(("Which", "3")).choose("Which?", ["a", "b"], remedy="")
