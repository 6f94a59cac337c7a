"""Addresses of services: what may be asked, what may be shown."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from synth_train.domain.model.secret import Secret

_LOGIN = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*@")


class Address(Struct, frozen=True, kw_only=True):
    """An http(s) URL that can be asked and shown."""

    url: str
    """Without user name and password, and without slashes at its end."""
    host: str
    """Lower case; an IPv6 address without its brackets."""
    password: Secret | None = None
    """What stood before the `@`. Never sent, kept only to be redacted."""

    @property
    def loopback(self) -> bool:
        """Whether it names this very machine, so that nobody else can use it."""
        return is_loopback(self.host)

    @property
    def private(self) -> bool:
        """Whether it names this machine or its local network: out of reach for a service on the internet."""
        number = _number(self.host)
        return self.loopback or self.host.endswith(".local") or (number is not None and number.is_private)


def address(text: str) -> Address:
    """`text` as an address.

    Raises:
        ValueError: it is none. The message says why in words that fit behind the text, and holds none of it.
    """
    if not text.isprintable() or " " in text:
        raise ValueError("has a blank or a control character in it")
    parts = _split(text)
    if parts.scheme not in ("http", "https"):
        raise ValueError("does not begin with http:// or https://")
    if not parts.hostname:
        raise ValueError("has no host")
    if parts.query or parts.fragment:
        raise ValueError("has a query or a fragment; only scheme, host, port and path make sense here")
    return Address(
        url=parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/"),
        host=parts.hostname,
        password=Secret(parts.password) if parts.password else None,
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: `localhost` or below it, 127.0.0.0/8, `::1`, or the unspecified address."""
    number = _number(host)
    if number is None:
        return host.lower().rstrip(".").rpartition(".")[2] == "localhost"
    return number.is_loopback or number.is_unspecified


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs have scheme, host and port in common, so that what is meant for one may be sent to the other.

    Raises:
        ValueError: one of them is no URL.
    """
    return _origin(one) == _origin(other)


def without_credentials(text: str) -> str:
    """`text`, a URL or what passes for one, without user name and password; for showing."""
    return _LOGIN.sub(r"\1", text)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError("has a host or a port that cannot be read") from None
    return parts


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        number = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(number, "ipv4_mapped", None) or number
