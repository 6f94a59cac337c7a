"""What others say, made fit for a message."""

from __future__ import annotations

from synth_train.domain.model.showing import plain


def test_it_is_one_line_without_control_characters() -> None:
    assert plain(" a\n\tb \x1b[31mred\x07\x00 \x9b2J\u202ec ") == "a b [31mred 2Jc"


def test_it_is_cut_and_the_cut_is_seen() -> None:
    assert plain("x" * 200) == "x" * 200
    assert plain("x" * 201) == "x" * 199 + "…"
    assert plain("abcdef", longest=3) == "ab…"
