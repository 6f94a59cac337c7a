"""What is made of a reply before anybody sees it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth_train.adapters.http.reading import decoded, excerpt, one_line, retry_after
from synth_train.domain.model.secret import Secret

KEY = Secret("fake-synth-key-0001-abcdefgh")


def test_json_is_read_with_secrets_masked_wherever_they_stand() -> None:
    body = {"detail": [f"no: {KEY.reveal()}"], KEY.reveal(): {"n": 1, "ok": None}}

    assert decoded(msgspec.json.encode(body), [KEY]) == {"detail": ["no: fak...fgh"], "fak...fgh": {"n": 1, "ok": None}}


def test_a_secret_that_is_spelt_with_escapes_is_masked_too() -> None:
    assert decoded(rb'"\u0066ake-synth-key-0001-abcdefgh"', [KEY]) == "fak...fgh"


@pytest.mark.parametrize("key", ['quote"quote"quote', "back\\slash\\back\\slash", "a\x01control\x02character"])
def test_a_secret_that_json_must_escape_is_masked_too(key: str) -> None:
    assert decoded(msgspec.json.encode([f"no: {key}"]), [Secret(key)]) == [f"no: {Secret(key).mask}"]


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b'{"a":', b'"\xff"', b"[NaN]", b"[" * 100_000 + b"]" * 100_000, b'"\\ud800"']
)
def test_what_is_no_json_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        decoded(content, [KEY])


def test_an_excerpt_is_short_and_plain_and_holds_no_secret() -> None:
    shown = excerpt(b"<b>\x1b[2J" + b"x" * 180 + KEY.reveal().encode() + b"\n\xff" + b"y" * 9000, [KEY])

    assert len(shown) == 200
    assert "\x1b" not in shown
    assert "fake-syn" not in shown
    assert "fak...fgh" in shown


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_one_line_is_the_same_json_in_printable_ascii_or_beyond(value: object) -> None:
    line = one_line(value)

    assert line.isprintable()
    assert msgspec.json.decode(line) == value


def test_control_characters_of_every_kind_are_escaped_and_letters_are_not() -> None:
    assert one_line("\x1b\x7f\x9b\u202e\U000e0001é東") == '"\\u001b\\u007f\\u009b\\u202e\\udb40\\udc01é東"'


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5.0),
        (" 5 ", 5.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:30 -0000", 10.0),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Tue, 99 Nov 2023 22:13:30 GMT", None),
    ],
)
def test_how_long_to_wait(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, now=1_700_000_000.0) == seconds
