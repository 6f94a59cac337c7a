"""What somebody may have meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable

FARTHEST = 2
"""More slips of the finger than this make another word (design §4)."""

LEAST_KEPT = 8
"""Letters that an abbreviation keeps. With fewer, `batch` and `max_len` would stand for any of several names."""


LEAST_ALIKE = 0.6
"""Of two file names: the share of letters that they have in common, in order."""


def slips(one: str, other: str) -> int:
    """The least number of letters put in, left out, replaced, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, above, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` that `name` looks like a slip of, None when there is none.

    Case, and `-` for `_`, do not count. A name is near within two slips that leave more than half of its letters
    alone: by two slips `job` is `log` and `x` is `no`, which says nothing about what was meant. Where there is none
    such, a long abbreviation is taken for the only name that it fits: `hyperparams`, `seq_length`.
    """
    plain, known = _plain(name), list(known)
    best: tuple[int, str] | None = None
    for candidate in known:
        other = _plain(candidate)
        if abs(len(other) - len(plain)) > FARTHEST:
            continue
        count = slips(plain, other)
        near = count <= FARTHEST and 2 * count < max(len(plain), len(other))
        if near and (best is None or count < best[0]):
            best = (count, candidate)
    if best is not None:
        return best[1]
    whole = [candidate for candidate in known if abbreviates(plain, _plain(candidate))]
    return whole[0] if len(whole) == 1 else None


def files_like(name: str, names: Iterable[str]) -> list[str]:
    """At most three file names that are like `name`, the likest first. An ending that both have makes no likeness:
    by it, `a.jsonl` would be like any `b.jsonl`."""
    from difflib import SequenceMatcher  # here, because it is needed only when a file is missing

    def likeness(other: str) -> float:
        (one, ending), (two, its) = _cut(name), _cut(other)
        return SequenceMatcher(None, two, one).ratio() if ending == its else SequenceMatcher(None, other, name).ratio()

    rated = [(likeness(other), other) for other in names]
    return [other for rate, other in sorted(rated, key=lambda one: (-one[0], one[1])) if rate >= LEAST_ALIKE][:3]


def _cut(name: str) -> tuple[str, str]:
    stem, dot, ending = name.rpartition(".")
    return (stem, ending) if dot else (name, "")


def abbreviates(short: str, long: str) -> bool:
    """Whether `short` is `long` without one piece of it that does not begin it, and keeps more than half."""
    if not max(LEAST_KEPT, len(long) // 2 + 1) <= len(short) < len(long):
        return False
    return any(long.startswith(short[:cut]) and long.endswith(short[cut:]) for cut in range(1, len(short) + 1))


def _plain(name: str) -> str:
    return name.replace("-", "_").casefold()
