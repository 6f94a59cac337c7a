"""Questions on a real terminal: what is shown, what is asked again, and when nobody is asked at all."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Iterator
from typing import TextIO

import pytest

from support.typist import Typist
from synth_train.adapters.stdin_prompt import NobodyToAsk, StdinPrompt, prompt_for
from synth_train.domain.model.errors import AnswerNeeded
from synth_train.domain.model.secret import Secret

KEY = "fake-synth-key-0001-abcdefgh"


def test_a_choice_is_numbered_and_shows_its_default() -> None:
    with Typist("2\n") as typist:
        picked = StdinPrompt(typist.stdin, typist.stderr).choose(
            "Which env file?", ["/repo/.env", "/repo/app/.env"], remedy=""
        )

    assert picked == 1
    assert typist.shown == ("Which env file?\n  1) /repo/.env\n  2) /repo/app/.env\n  0) abort\nChoice [1]: 2\n")


def test_numbers_of_two_digits_stand_in_line() -> None:
    with Typist("10\n") as typist:
        picked = StdinPrompt(typist.stdin, typist.stderr).choose("Which?", [*"abcdefghij"], remedy="")

    assert picked == 9
    assert "   9) i\n  10) j\n   0) abort\n" in typist.shown


@pytest.mark.parametrize("answer", ["3", "-1", "two", "1.0", "²"])
def test_an_answer_that_is_no_option_is_asked_again(answer: str) -> None:
    with Typist(f"{answer}\n", "1\n") as typist:
        assert StdinPrompt(typist.stdin, typist.stderr).choose("Which?", ["a", "b"], remedy="") == 0

    assert "Type a number from 0 to 2.\nChoice [1]: 1\n" in typist.shown


def test_bytes_that_are_no_text_are_asked_again() -> None:
    with Typist(b"\xff\xfe\n", "1\n") as typist:
        assert StdinPrompt(typist.stdin, typist.stderr).choose("Which?", ["a", "b"], remedy="") == 0


def test_control_characters_of_a_path_are_shown_escaped() -> None:
    with Typist("1\n") as typist:
        StdinPrompt(typist.stdin, typist.stderr).choose("Which?", ["a\x1b[2Jb", "c\udcffd"], remedy="")

    assert "  1) a\\x1b[2Jb\n  2) c\\udcffd\n" in typist.shown


def test_a_secret_is_not_shown_and_blank_lines_are_asked_again() -> None:
    with Typist("\n", " \n", f"{KEY}\n") as typist:
        secret = StdinPrompt(typist.stdin, typist.stderr).ask_secret("SYNTH_API_KEY", remedy="")

    assert secret == Secret(KEY)
    assert typist.shown == "SYNTH_API_KEY: \nNothing was typed.\n" * 2 + "SYNTH_API_KEY: \n"


@pytest.mark.parametrize("typed", ["key\n", "\x04"], ids=["answered", "left"])
def test_the_terminal_shows_what_is_typed_again_after_a_secret(typed: str) -> None:
    with Typist(typed, "y\n") as typist:
        prompt = StdinPrompt(typist.stdin, typist.stderr)
        try:
            prompt.ask_secret("KEY", remedy="")
        except AnswerNeeded:
            assert typed == "\x04"
        prompt.confirm("Save?", default=False, remedy="")

    assert typist.shown.endswith("Save? [y/N]: y\n")


def test_a_yes_or_no_is_asked_until_it_is_one() -> None:
    with Typist("perhaps\n", "no\n") as typist:
        assert StdinPrompt(typist.stdin, typist.stderr).confirm("Save?", default=True, remedy="") is False

    assert typist.shown == "Save? [Y/n]: perhaps\nType y or n.\nSave? [Y/n]: no\n"


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r+b", buffering=0) as raw, io.TextIOWrapper(raw) as stream:
        yield stream
    os.close(ours)


def test_somebody_is_asked_where_stdin_and_stdout_are_terminals(terminal: TextIO) -> None:
    assert isinstance(prompt_for(terminal, terminal, io.StringIO(), {"CI": ""}), StdinPrompt)


def test_nobody_is_asked_anywhere_else(terminal: TextIO) -> None:
    closed = io.StringIO()
    closed.close()
    elsewhere = [
        prompt_for(io.StringIO(), terminal, terminal, {}),
        prompt_for(terminal, io.StringIO(), terminal, {}),
        prompt_for(terminal, terminal, terminal, {"CI": "true"}),
        prompt_for(None, terminal, terminal, {}),
        prompt_for(terminal, None, terminal, {}),
        prompt_for(terminal, terminal, None, {}),
        prompt_for(closed, terminal, terminal, {}),
        prompt_for(terminal, closed, terminal, {}),
    ]

    assert all(isinstance(prompt, NobodyToAsk) for prompt in elsewhere)
