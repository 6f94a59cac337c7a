"""What a probe of a task app found, and whether that is health (wire-contract §2.3)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from synth_train.domain.model.secret import Secret


class Trouble(str, Enum):
    """Why no reply came."""

    NAME = "the host name cannot be resolved"
    REFUSED = "the connection was refused"
    TLS = "the TLS handshake failed"
    TIMED_OUT = "no reply in time"
    RESET = "the connection was cut"
    REDIRECTS = "it redirects in a circle, or to another origin"
    PROXY = "the proxy does not let it through"
    OTHER = "the request failed"


class TaskAppKeys(Struct, frozen=True):
    """The environment key and its aliases, sent in `X-API-Key`, `X-API-Keys` and `Authorization`."""

    primary: Secret
    aliases: tuple[Secret, ...] = ()


class Probe(Struct, frozen=True, kw_only=True):
    """One GET of `/health` or `/task_info`: either `trouble`, or a `status` and what came with it."""

    url: str
    status: int | None = None
    content_type: str = ""
    body: object = None
    """The decoded JSON, None when it is no JSON."""
    excerpt: str = ""
    """At most 200 characters of the body, control characters and secrets taken out, for showing."""
    trouble: Trouble | None = None
    detail: str = ""
    """The transport's own words, secrets taken out; the proxy's address when one was used."""
