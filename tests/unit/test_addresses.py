"""Addresses: what is one, what is near, and what of it may be shown."""

from __future__ import annotations

import pytest

from synth_train.domain.model.addresses import address, is_loopback, same_origin, without_credentials
from synth_train.domain.model.secret import Secret


@pytest.mark.parametrize(
    ("text", "url", "host"),
    [
        ("https://api.example.com", "https://api.example.com", "api.example.com"),
        ("https://API.example.com/api///", "https://API.example.com/api", "api.example.com"),
        ("http://127.0.0.1:8001/app/", "http://127.0.0.1:8001/app", "127.0.0.1"),
        ("http://[::1]:8001", "http://[::1]:8001", "::1"),
        ("http://user:pass@host:1/x", "http://host:1/x", "host"),
        ("http://us@er:pa@host/x", "http://host/x", "host"),
    ],
)
def test_an_address_has_no_login_and_no_slash_at_its_end(text: str, url: str, host: str) -> None:
    found = address(text)

    assert (found.url, found.host) == (url, host)


def test_the_password_of_a_url_is_kept_as_a_secret_to_be_redacted() -> None:
    assert address("http://user:hunter2hunter2@host").password == Secret("hunter2hunter2")
    assert address("http://user@host").password is None
    assert "hunter2" not in repr(address("http://user:hunter2hunter2@host"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("api.example.com", "http://"),
        ("ftp://host", "http://"),
        ("", "http://"),
        ("https://", "no host"),
        ("https:///api", "no host"),
        ("https://host:port", "cannot be read"),
        ("https://host:99999", "cannot be read"),
        ("https://[::1", "cannot be read"),
        ("https://host/?q=1", "a query"),
        ("https://host/#top", "a query"),
        ("https://ho st", "blank"),
        ("https://host\n", "control character"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        address(text)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::ffff:127.0.0.1"]
)
def test_loopback_hosts_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["example.com", "localhost.example.com", "10.0.0.1", "128.0.0.1", "::2", ""])
def test_other_hosts_are_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://localhost:1", True),
        ("http://192.168.1.4", True),
        ("http://printer.local", True),
        ("http://[fe80::1%25eth0]", True),
        ("http://8.8.8.8", False),
        ("https://example.com", False),
    ],
)
def test_a_private_address_is_out_of_reach_from_the_internet(url: str, private: bool) -> None:
    assert address(url).private is private


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://host/a", "http://host/b?c", True),
        ("http://host/a", "http://HOST:80/b", True),
        ("https://host", "https://host:443", True),
        ("http://host", "https://host", False),
        ("http://host", "http://host:8080", False),
        ("http://host", "http://other", False),
        ("http://host", "ftp://host", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert same_origin(one, other) is same


def test_what_is_no_url_has_no_origin() -> None:
    with pytest.raises(ValueError):
        same_origin("http://host", "http://host:port")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:secret@proxy:3128", "http://proxy:3128"),
        ("user:sec@ret@proxy:3128/", "proxy:3128/"),
        ("https://host/path?next=https://a:b@c", "https://host/path?next=https://a:b@c"),
        ("https://host?mail=a@b", "https://host?mail=a@b"),
        ("proxy:3128", "proxy:3128"),
    ],
)
def test_a_login_is_never_shown(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
