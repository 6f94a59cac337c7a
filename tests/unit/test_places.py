"""How places and keys are written for people."""

from __future__ import annotations

import pytest

from synth_train.domain.model.places import KeyPath, Place, Problem, dotted, quoted


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("training", "weight_sync", "targets", 1), "training.weight_sync.targets[1]"),
        (("a b", "c"), '"a b".c'),
        (("a", 'say "hi"\n'), 'a."say \\"hi\\"\\n"'),
    ],
)
def test_a_key_is_written_as_toml_would_have_it(path: KeyPath, text: str) -> None:
    assert dotted(path) == text


def test_text_is_quoted_on_one_line_and_cut_when_long() -> None:
    assert quoted("a\nb") == '"a\\nb"'
    assert quoted("x" * 100, at_most=5) == '"xxxx…"'
    assert quoted("caf\udce9") == '"caf?"'


def test_a_problem_is_place_key_and_what() -> None:
    assert str(Problem(Place("rl.toml", 3), "model.base", "wrong")) == "rl.toml:3: model.base: wrong"
    assert str(Problem(Place("rl.toml"), "", "wrong")) == "rl.toml: wrong"
