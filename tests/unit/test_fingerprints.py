"""What makes two runs the same submission."""

from __future__ import annotations

import pytest

from synth_train.domain.model.fingerprints import account_of, fingerprint_of
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.secret import Secret

SAME = {
    "backend": "https://backend.example",
    "account": "a",
    "kind": Kind.SFT,
    "config": b'{"a":1}',
    "request": b'{"b":2}',
    "uploads": ("11", "22"),
}


def fingerprint(**changes: object) -> str:
    return fingerprint_of(**{**SAME, **changes})  # type: ignore[arg-type]


def test_the_same_request_has_the_same_fingerprint() -> None:
    assert fingerprint() == fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "https://other.example"},
        {"account": "b"},
        {"kind": Kind.RL},
        {"config": b'{"a":2}'},
        {"request": b'{"b":3}'},
        {"uploads": ("11",)},
        {"uploads": ("22", "11")},
        {"uploads": ("112", "2")},
        {"backend": "https://backend.examplea", "account": ""},
    ],
)
def test_any_difference_makes_another_submission(change: dict[str, object]) -> None:
    assert fingerprint(**change) != fingerprint()


def test_an_account_is_told_from_another_without_telling_its_key() -> None:
    key = Secret("sk-0123456789abcdef")
    account = account_of("https://backend.example", key)
    assert account == account_of("https://backend.example", Secret("sk-0123456789abcdef"))
    assert account != account_of("https://backend.example", Secret("sk-0123456789abcdeg"))
    assert account != account_of("https://other.example", key)
    assert account_of("local", None) != account
    assert "0123456789" not in account
