"""Secrets are not seen, and replies that repeat them are cleaned."""

from __future__ import annotations

import pickle

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth_train.domain.model.secret import WINDOW, Secret, redact, shows

KEY = "sk-live-0123456789abcdef-092"
keys = st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=40)


def windows(text: str) -> set[str]:
    size = min(WINDOW, len(text))
    return {text[start : start + size] for start in range(len(text) - size + 1)}


def test_a_secret_shows_its_first_and_last_three_characters() -> None:
    secret = Secret(KEY)

    assert (str(secret), f"{secret}", repr(secret)) == ("sk-...092", "sk-...092", "Secret(sk-...092)")
    assert secret.reveal() == KEY


@pytest.mark.parametrize("text", ["", "a", "fk-q7w8e9r0", "fifteen-letters"])
def test_a_secret_under_sixteen_characters_shows_nothing(text: str) -> None:
    assert str(Secret(text)) == "..."


def test_sixteen_characters_are_enough_to_show_six() -> None:
    assert str(Secret("abcdefghijklmnop")) == "abc...nop"


def test_secrets_are_equal_by_their_text_and_only_to_secrets() -> None:
    assert Secret(KEY) == Secret(KEY)
    assert hash(Secret(KEY)) == hash(Secret(KEY))
    assert Secret(KEY) != Secret("other")
    assert Secret(KEY) != KEY


def test_an_empty_secret_is_false() -> None:
    assert not Secret("")
    assert Secret("x")


def test_a_secret_refuses_to_be_encoded_or_pickled() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode({"key": Secret(KEY)})
    with pytest.raises(TypeError, match="not to be pickled"):
        pickle.dumps(Secret(KEY))


def test_a_secret_is_replaced_by_its_mask_wherever_it_stands() -> None:
    assert redact(f"Bearer {KEY}, {KEY}", [Secret(KEY)]) == "Bearer sk-...092, sk-...092"


def test_a_part_of_eight_characters_counts_as_the_secret() -> None:
    assert redact(f"expected prefix {KEY[:8]}!", [Secret(KEY)]) == "expected prefix sk-...092!"
    assert redact(f"expected prefix {KEY[:7]}!", [Secret(KEY)]) == f"expected prefix {KEY[:7]}!"


def test_a_short_secret_is_replaced_where_it_stands_whole() -> None:
    assert redact("tiny and tin", [Secret("tiny")]) == "... and tin"


def test_a_text_shows_a_secret_when_it_holds_a_part_of_it() -> None:
    key = Secret("abcdefghijklmnop")
    assert shows("x" + "cdefghij" + "x", [Secret("other-0123456789"), key])
    assert not shows("abcdefg ijklmnop"[:9], [key])
    assert not shows("anything", [])
    assert not shows("anything", [Secret("")])


def test_an_empty_secret_changes_nothing() -> None:
    assert redact("as it was", [Secret("")]) == "as it was"


@given(st.lists(keys, min_size=1, max_size=3), st.data())
@settings(deadline=None)
def test_no_eight_characters_of_any_secret_are_left(texts: list[str], data: st.DataObject) -> None:
    pieces = st.one_of(st.sampled_from(texts), st.text(max_size=5), st.sampled_from([text[3:] for text in texts]))
    said = "".join(data.draw(st.lists(pieces, max_size=6)))

    shown = redact(said, map(Secret, texts))

    # What the masks themselves show is theirs to show.
    for mask in {str(Secret(text)) for text in texts}:
        shown = shown.replace(mask, "...")
    assert not [window for text in texts for window in windows(text) if len(text) >= WINDOW and window in shown]
