"""Keys that must not be seen, and the mask that stands for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

SHORTEST_TO_SHOW = 16
"""A shorter secret would be guessable from the six characters of its mask, so nothing of it is shown."""

WINDOW = 8
"""So many characters of a secret in a row count as the secret; a server may echo only a part of it."""


class Secret:
    """A key. Shown as its mask everywhere; the text itself comes out of `reveal()` alone.

    It has no encoding: msgspec and json refuse it, and so does pickle. Two secrets with the same text are equal.
    """

    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def reveal(self) -> str:
        """The text, for a header or a sealed box, and for nothing that is shown or kept."""
        return self.__text

    @property
    def mask(self) -> str:
        """First and last three characters, as `sk-...092`; of a secret under 16 characters, nothing."""
        if len(self.__text) < SHORTEST_TO_SHOW:
            return "..."
        return f"{self.__text[:3]}...{self.__text[-3:]}"

    def __repr__(self) -> str:
        return f"Secret({self.mask})"

    def __str__(self) -> str:
        return self.mask

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.__text == self.__text

    def __hash__(self) -> int:
        return hash(self.__text)

    def __bool__(self) -> bool:
        return bool(self.__text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not to be pickled")


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """`text` with every stretch of `WINDOW` or more characters of a secret replaced by that secret's mask.

    A secret shorter than the window is replaced where it stands whole.
    """
    for secret in secrets:
        text = _without(text, secret)
    return text


def shows(text: str, secrets: Iterable[Secret]) -> bool:
    """Whether `redact` would find anything in `text`."""
    return any(window in text for secret in secrets for window in _windows(secret))


def _windows(secret: Secret) -> frozenset[str]:
    whole = secret.reveal()
    size = min(WINDOW, len(whole))
    return frozenset(whole[i : i + size] for i in range(len(whole) - size + 1) if size)


def _without(text: str, secret: Secret) -> str:
    windows = _windows(secret)
    if not any(window in text for window in windows):
        return text
    size = min(WINDOW, len(secret.reveal()))
    kept: list[str] = []
    at = 0
    while at < len(text):
        if text[at : at + size] not in windows:
            kept.append(text[at])
            at += 1
            continue
        at += size
        while text[at - size + 1 : at + 1] in windows:
            at += 1
        kept.append(secret.mask)
    return "".join(kept)
