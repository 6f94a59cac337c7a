"""Where requests go (wire-contract §1.1, design §4)."""

from __future__ import annotations

import re

from msgspec import Struct

from synth_train.domain.model.addresses import address, is_loopback
from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import Variables

PRODUCTION = "https://api.usesynth.ai"
EMBEDDED = "local"
"""What `--backend` says for the embedded backend; not a URL, and understood from that option only."""

_OPTION = "--backend"
_DIRECT = ("BACKEND_BASE_URL", "BACKEND_OVERRIDE")
_MODE = "SYNTH_BACKEND_URL_OVERRIDE"
_BY_MODE = {
    "local": ("LOCAL_BACKEND_URL", "http://localhost:8000"),
    "dev": ("DEV_BACKEND_URL", "http://localhost:8000"),
    "prod": ("PROD_BACKEND_URL", PRODUCTION),
}


class BackendBase(Struct, frozen=True, kw_only=True):
    """The base URL of a backend, without trailing slashes, user name or password; `local` is the embedded one."""

    base: str
    source: str
    """Who decided: `--backend`, `BACKEND_BASE_URL in /home/me/.env`, or `default`."""
    notes: tuple[str, ...] = ()
    """What the user should be told about it, as warnings."""
    password: Secret | None = None
    """What stood in the URL as one. Never sent, kept only to be redacted."""

    @property
    def embedded(self) -> bool:
        """Whether it is the backend inside this program, which takes no key."""
        return self.base == EMBEDDED


def is_embedded(option: str | None) -> bool:
    """Whether `--backend` names the embedded backend."""
    return option is not None and option.strip().lower() == EMBEDDED


def resolve_base(option: str | None, variables: Variables, *, insecure_http: bool = False) -> BackendBase:
    """Decide the base: `--backend`, else the variables of wire-contract §1.1, else the production host.

    Variables count from the process environment and from env files that the user named or picked. One in a file that
    was found by itself is passed over, with a note.

    Raises:
        UsageError: an empty option, something that is no http(s) URL, or plain http to a host that is not loopback
            while `insecure_http` is false. The message holds no user name, password or query of the URL.
    """
    if option is not None:
        if not option.strip():
            raise UsageError(f"{_OPTION} is empty", hint=f"Leave {_OPTION} out for {PRODUCTION}, or give a URL.")
        if is_embedded(option):
            return BackendBase(base=EMBEDDED, source=_OPTION)
        return _checked(option, _OPTION, (), insecure_http)
    text, source, notes = _from_variables(variables.chosen())
    unheard = _from_variables(variables)
    if unheard[:2] != (text, source):
        notes = (
            *notes,
            f"{unheard[1]} is not used: a file that was found by itself does not decide where keys are sent. "
            "Name the file with --env-file to use it.",
        )
    return _checked(text, source, notes, insecure_http)


def _from_variables(variables: Variables) -> tuple[str, str, tuple[str, ...]]:
    """A base as it was written, who wrote it, and what to say about it."""
    direct = variables.lookup(*_DIRECT)
    if direct:
        return direct.value, direct.where, ()
    mode = variables.lookup(_MODE)
    word = mode.value.strip().lower() if mode else "prod"
    name, default = _BY_MODE.get(word, _BY_MODE["prod"])
    notes: tuple[str, ...] = ()
    if mode and word not in _BY_MODE:
        notes = (f"{mode.where} is none of {', '.join(_BY_MODE)}; it is taken as prod.",)
    found = variables.lookup(name)
    if found:
        return found.value, found.where, notes
    return default, mode.where if mode else "default", notes


def _checked(text: str, source: str, notes: tuple[str, ...], insecure_http: bool) -> BackendBase:
    text = text.strip()
    shown = _showable(text)
    try:
        found = address(text)
    except ValueError as error:
        raise UsageError(f"{source}: {shown!r} {error}", hint=_remedy(shown, source)) from None
    if found.url.startswith("http://") and not insecure_http and not found.loopback:
        raise UsageError(
            f"{source}: {shown!r} would send the key unencrypted",
            hint="Use https, or allow it with --insecure-http on a network that you trust.",
        )
    if "@" in text.partition("://")[2].partition("/")[0]:
        notes = (*notes, f"{source}: the sign-in inside the URL is not used; SYNTH_API_KEY is sent.")
    return BackendBase(base=found.url, source=source, notes=notes, password=found.password)


def _showable(text: str) -> str:
    """`text` for a message about what is wrong with it. A password may hold any character and a query may be a key, so
    all that stands before the last `@`, and all that follows a `?` or `#`, is left out."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    rest = rest.rpartition("@")[2]
    mark = re.search(r"[?#]", rest)
    return f"{scheme}{separator}{rest[: mark.end()]}..." if mark else f"{scheme}{separator}{rest}"


def _remedy(shown: str, source: str) -> str:
    if shown.lower() == EMBEDDED:
        return f"Only {_OPTION} {EMBEDDED} means the embedded backend."
    if "://" in shown:
        return f"A base looks like {PRODUCTION}."
    host = shown.partition("/")[0].partition(":")[0]
    example = f"Write {'http' if is_loopback(host) else 'https'}://{shown}"
    return f"{example}, or {EMBEDDED} for the embedded backend." if source == _OPTION else f"{example}."
