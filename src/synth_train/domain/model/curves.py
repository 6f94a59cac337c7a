"""Metrics as curves, and what belongs into one picture of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from synth_train.domain.model.events import Point


class Curve(Struct, frozen=True, kw_only=True):
    """The course of one metric."""

    name: str
    steps: tuple[int, ...]
    """Ascending."""
    values: tuple[float, ...]
    """As many. One that is no finite number is a gap."""


class Panel(Struct, frozen=True, kw_only=True):
    """Curves of one quantity, which can share an axis."""

    label: str
    """The quantity in words, with its unit if it has one."""
    curves: tuple[Curve, ...]


def curves_of(points: Sequence[Point]) -> tuple[Curve, ...]:
    """A curve for each metric, by name; `points` come by step."""
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    return tuple(
        Curve(name=name, steps=tuple(one.step for one in of_name), values=tuple(one.value for one in of_name))
        for name, of_name in sorted(by_name.items())
    )


def panels_of(curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """The curves of each quantity together: `train.loss` and `val.loss` share an axis, loss and reward do not.

    What people look at first comes first.
    """
    by_label: dict[str, list[Curve]] = {}
    for curve in curves:
        by_label.setdefault(_label(curve.name), []).append(curve)
    panels = [Panel(label=label, curves=tuple(some)) for label, some in by_label.items()]
    return tuple(sorted(panels, key=lambda panel: _rank(panel.label)))


def panels_compared(curves: Mapping[str, Sequence[Curve]]) -> tuple[Panel, ...]:
    """The curves of several jobs, those of one quantity together; each is named after its job, and after its metric
    where a panel has several of them.

    Args:
        curves: of each job, by what it is called in the picture.
    """
    by_label: dict[str, list[tuple[str, Curve]]] = {}
    for job, some in curves.items():
        for panel in panels_of(some):
            by_label.setdefault(panel.label, []).extend((job, curve) for curve in panel.curves)
    panels = []
    for label, named in sorted(by_label.items(), key=lambda item: _rank(item[0])):
        several = len({curve.name for _, curve in named}) > 1
        panels.append(
            Panel(
                label=label,
                curves=tuple(replace(curve, name=f"{job} {curve.name}" if several else job) for job, curve in named),
            )
        )
    return tuple(panels)


def thinned(points: Iterable[Point], width: int) -> tuple[Point, ...]:
    """So much of each curve as can be seen from afar: the lowest and the highest value of each stretch of `width`
    steps, one of its gaps, and the curve's first and last point. With a width of 1 that is all of it.

    Args:
        points: by step; looked at once, in memory that does not grow with their number.
    """
    chosen: dict[tuple[int, str], Point] = {}
    ends: dict[str, Point] = {}
    for _, stretch in groupby(points, key=lambda point: point.step // width):
        lowest: dict[str, Point] = {}
        highest: dict[str, Point] = {}
        gaps: dict[str, Point] = {}
        for point in stretch:
            name, value = point.name, point.value
            if name not in ends:
                chosen[point.step, name] = point
            ends[name] = point
            if not isfinite(value):
                gaps.setdefault(name, point)
            elif name not in lowest:
                lowest[name] = highest[name] = point
            elif value < lowest[name].value:
                lowest[name] = point
            elif value > highest[name].value:
                highest[name] = point
        for point in chain(lowest.values(), highest.values(), gaps.values()):
            chosen[point.step, point.name] = point
    for point in ends.values():
        chosen[point.step, point.name] = point
    return tuple(point for _, point in sorted(chosen.items()))


def _label(name: str) -> str:
    """What a metric measures, and in what."""
    family, _, quantity = name.rpartition(".")
    if family == "time":
        return "time (s)"
    words = quantity.replace("_", " ")
    return _IN_UNITS.get(quantity, words)


_IN_UNITS = {
    "seconds": "time (s)",
    "tokens_per_second": "speed (tokens/s)",
    "tokens": "tokens per rollout",
    "turns": "turns per rollout",
    "failed": "failed rollouts",
    "reward_mean": "mean reward",
    "reward_std": "standard deviation of rewards",
    "entropy": "entropy (nats)",
    "kl": "KL divergence (nats)",
    "clip_share": "share of clipped ratios",
    "grad_norm": "gradient norm",
    "accuracy": "token accuracy",
}

_FIRST = ("loss", "mean reward", "token accuracy", "learning rate")


def _rank(label: str) -> tuple[int, str]:
    return _FIRST.index(label) if label in _FIRST else len(_FIRST), label
