"""What may be shown of a reply, and what it asks for. Secrets go out before anything else looks at it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import timezone
from email.utils import parsedate_to_datetime

import msgspec

from synth_train.domain.model.secret import Secret, redact, shows
from synth_train.domain.model.showing import LONGEST_EXCERPT, plain


def decoded(content: bytes, secrets: Iterable[Secret]) -> object:
    """The JSON in `content`, whatever its media type was said to be, with secrets masked.

    Raises:
        ValueError: it is no JSON.
    """
    secrets = tuple(secrets)
    try:
        value = msgspec.json.decode(content)
        # Nearly all replies hold none, and to look into every text of a long one takes its time.
        return _redacted(value, secrets) if _may_show(value, secrets) else value
    except (ValueError, RecursionError) as error:
        raise ValueError("no JSON") from error


def excerpt(content: bytes, secrets: Iterable[Secret]) -> str:
    """The beginning of a body that is no JSON, as one line, secrets masked."""
    # Far more than is shown: a secret that the first cut has halved lies behind the second.
    return plain(redact(content[: 20 * LONGEST_EXCERPT].decode(errors="replace"), secrets))


def one_line(value: object) -> str:
    """`value` as JSON in one line that any terminal can show: control characters of every kind are escaped."""
    return _UNPRINTABLE.sub(
        lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), msgspec.json.encode(value).decode()
    )


def retry_after(value: str | None, now: float) -> float | None:
    """The seconds that a `Retry-After` header asks for: a number, with or without a fraction, or an HTTP date.

    Args:
        value: the header; None when there was none.
        now: seconds since 1970.

    Returns:
        None when there is nothing that can be read. A date in the past is zero.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, now)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def _escaped(letter: str) -> str:
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _until(date: str, now: float) -> float:
    try:
        then = parsedate_to_datetime(date)
        if then.tzinfo is None:
            then = then.replace(tzinfo=timezone.utc)
        return max(0.0, then.timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _may_show(value: object, secrets: tuple[Secret, ...]) -> bool:
    """Whether some text in `value` holds a secret: no, or perhaps."""
    # Written anew, what a server has escaped needlessly stands there plainly; a secret that JSON must escape may not.
    written = msgspec.json.encode(value).decode()
    return shows(written, secrets) or any(
        msgspec.json.encode(secret.reveal()).decode() != f'"{secret.reveal()}"' for secret in secrets
    )


def _redacted(value: object, secrets: tuple[Secret, ...]) -> object:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, list):
        return [_redacted(inner, secrets) for inner in value]
    if isinstance(value, dict):
        return {redact(key, secrets): _redacted(inner, secrets) for key, inner in value.items()}
    return value
