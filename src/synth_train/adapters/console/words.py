"""Small things said the same way everywhere."""

from __future__ import annotations

_UNSAFE = (
    *range(0x20),
    0x7F,
    *range(0x80, 0xA0),
    *(0x200E, 0x200F, 0x2028, 0x2029),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
"""Control characters, and those that turn the direction of a line or break it."""

_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSAFE} | {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


def printable(text: str) -> str:
    """`text` as one line that cannot steer a terminal. The escapes are JSON's own, so that JSON stays JSON."""
    return text.translate(_ESCAPES)


def seconds(value: float) -> str:
    """A duration without needless zeros: `5`, `0.2`, `3600`."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def clock(elapsed: float) -> str:
    """Elapsed seconds as `mm:ss`; an hour and more is counted in minutes."""
    minutes, rest = divmod(int(elapsed), 60)
    return f"{minutes:02d}:{rest:02d}"


def size(count: int) -> str:
    """Bytes, as people say them: `812 bytes`, `1.4 MB`."""
    if count < 1000:
        return f"{count} byte" if count == 1 else f"{count} bytes"
    amount, unit = count / 1000, "kB"
    for bigger in ("MB", "GB", "TB"):
        if amount < 999.95:
            break
        amount, unit = amount / 1000, bigger
    return f"{amount:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
