"""What a probe of a task app found, whether that is health, and if not, what to do (wire-contract §2.3, design §3)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from synth_train.domain.model.replies import says
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.showing import plain


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

    @property
    def all(self) -> tuple[Secret, ...]:
        """The key first, then its aliases."""
        return (self.primary, *self.aliases)


class Probe(Struct, frozen=True, kw_only=True):
    """One GET of `/health` or `/task_info`: either `trouble`, or a `status` and what came with it."""

    url: str
    status: int | None = None
    content_type: str = ""
    body: object = None
    """The decoded JSON, secrets taken out; None when it is no JSON."""
    excerpt: str = ""
    """At most 200 characters of the body, control characters and secrets taken out, for showing."""
    trouble: Trouble | None = None
    detail: str = ""
    """The transport's own words, secrets taken out; the proxy's address when one was used."""


class Fault(Struct, frozen=True, kw_only=True):
    """Why a probe is no sign of health."""

    what: str
    """The URL asked, the status or the trouble, and what the reply says."""
    remedy: str
    passing: bool = False
    """Whether it may be gone at the next try: transport trouble, 429, 5xx."""
    about_key: bool = False
    """Whether the app does not accept the key."""


def health_fault(probe: Probe) -> Fault | None:
    """What is wrong with an app that answers `/health` so; None when it is healthy.

    Healthy is 200 with a JSON object that does not say the opposite. A 401 or 403 that tells which key it wants comes
    from an app that is alive and asks for a key elsewhere; so it is healthy too, and `/task_info` decides.
    """
    if probe.status in (401, 403) and _names_its_key(probe.body):
        return None
    return _fault(probe) or (_said_to_be_ill(probe) if isinstance(probe.body, dict) else None)


def task_info_fault(probe: Probe) -> Fault | None:
    """What is wrong with an app that answers `/task_info` so; None when it is 200 with a JSON object."""
    return _fault(probe)


_AUTH = (401, 403)
_ILL_WORDS = frozenset(
    {"unhealthy", "error", "down", "failing", "failed", "fail", "unavailable", "critical", "dead", "not ok", "not_ok"}
)
_NOT_PASSING = (Trouble.TLS, Trouble.REDIRECTS)
_SEE_LOG = "See the task app's own log."
_WRONG_URL = "Check the task URL (--task-url): another program seems to answer there."
_REMEDIES = {
    Trouble.NAME: "Check the host in the task URL (--task-url, TASK_APP_URL or services.task_url), and the network.",
    Trouble.REFUSED: "Nothing listens there. Start the task app, or mend host and port of the task URL (--task-url).",
    Trouble.TLS: "Check scheme and port of the task URL (--task-url). If the certificate is of an authority of your "
    "own, name its file in REQUESTS_CA_BUNDLE or SSL_CERT_FILE.",
    Trouble.TIMED_OUT: "It may be starting up, or hang: see the task app's own log, then run the command again.",
    Trouble.RESET: f"It may have crashed while it answered. {_SEE_LOG}",
    Trouble.REDIRECTS: "Give the address that it redirects to as the task URL (--task-url).",
    Trouble.PROXY: "Check HTTP_PROXY and HTTPS_PROXY, or name the host in NO_PROXY to ask it directly.",
    Trouble.OTHER: "Check the task URL (--task-url) and the network.",
}


def _fault(probe: Probe) -> Fault | None:
    """What is wrong whichever of the two routes was asked."""
    if probe.trouble is not None:
        return Fault(
            what=_worded(probe, probe.trouble.value, probe.detail),
            remedy=_REMEDIES[probe.trouble],
            passing=probe.trouble not in _NOT_PASSING,
        )
    status = probe.status or 0
    said = says(probe.body) or probe.excerpt
    what = _worded(probe, str(status), said)
    if status == 200:
        if isinstance(probe.body, dict):
            return None
        kind = "the reply is no JSON object" + (f" but {probe.content_type}" if probe.content_type else "")
        return Fault(what=_worded(probe, f"200, but {kind}", probe.excerpt), remedy=_WRONG_URL)
    if status in _AUTH or (status == 400 and "unauthori" in said.lower()):
        return Fault(what=what, remedy=_key_remedy(probe.body), about_key=True)
    if status in (404, 405):
        return Fault(what=what, remedy=f"{_WRONG_URL} If the app lives below a path, the URL needs that path.")
    if status == 503 and "missing_environment_api_key" in said:
        return Fault(
            what=what,
            remedy="The task app itself has no ENVIRONMENT_API_KEY. Start it again with the one that is used here.",
        )
    return Fault(what=what, remedy=_SEE_LOG, passing=status == 429 or status >= 500)


def _said_to_be_ill(probe: Probe) -> Fault | None:
    body: dict[object, object] = probe.body if isinstance(probe.body, dict) else {}
    word = body.get("status")
    denied = [f"{name} is false" for name in ("healthy", "ok") if body.get(name) is False]
    if isinstance(word, str) and word.strip().lower() in _ILL_WORDS:
        denied.append(f"status is {word!r}")
    if not denied:
        return None
    what = _worded(probe, f"200, but {' and '.join(denied)}", says(body))
    return Fault(what=what, remedy=f"The task app says itself that it is not healthy. {_SEE_LOG}")


def _names_its_key(body: object) -> bool:
    """The auth-optional rule of wire-contract §2.3."""
    if not isinstance(body, dict):
        return False
    return (
        bool(body.get("expected_api_key_prefix")) or "expected prefix" in says({"detail": body.get("detail")}).lower()
    )


def _key_remedy(body: object) -> str:
    prefix = body.get("expected_api_key_prefix") if isinstance(body, dict) else None
    # More of it than a mask shows would be a leak, whoever tells it.
    begins = f" It wants one that begins with {plain(prefix[:3])!r}." if isinstance(prefix, str) and prefix else ""
    return (
        f"The task app does not accept our ENVIRONMENT_API_KEY.{begins} Set ENVIRONMENT_API_KEY to the key that the "
        "app was started with, or start it again with this one."
    )


def _worded(probe: Probe, outcome: str, said: str) -> str:
    return f"GET {probe.url}: {outcome}" + (f": {plain(said)}" if said else "")
