"""Making what others say fit for a message."""

from __future__ import annotations

LONGEST_EXCERPT = 200
"""Characters of somebody else's text that a message shows."""


def plain(text: str, *, longest: int = LONGEST_EXCERPT) -> str:
    """`text` as one line without control characters, cut to `longest` characters."""
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
