"""Metrics as curves, and which of them share an axis."""

from __future__ import annotations

from math import inf, nan

import pytest

from synth_train.domain.model.curves import Curve, curves_of, panels_compared, panels_of, thinned
from synth_train.domain.model.events import Point


def point(name: str, step: int, value: float = 0.0) -> Point:
    return Point(name=name, step=step, value=value, created_at=0.0)


def test_each_metric_is_a_curve_over_its_steps() -> None:
    points = [point("b", 1, 0.5), point("a", 2, 1.5), point("b", 2, 0.25)]
    assert curves_of(points) == (
        Curve(name="a", steps=(2,), values=(1.5,)),
        Curve(name="b", steps=(1, 2), values=(0.5, 0.25)),
    )
    assert curves_of([]) == ()


def test_curves_of_one_quantity_share_a_panel_and_those_looked_at_first_come_first() -> None:
    names = [
        "eval.reward_mean",
        "time.update",
        "time.task_app",
        "train.loss",
        "train.reward_mean",
        "val.loss",
        "x.mine",
    ]
    panels = panels_of(curves_of([point(name, 1) for name in names]))
    assert [(panel.label, [curve.name for curve in panel.curves]) for panel in panels] == [
        ("loss", ["train.loss", "val.loss"]),
        ("mean reward", ["eval.reward_mean", "train.reward_mean"]),
        ("mine", ["x.mine"]),
        ("time (s)", ["time.task_app", "time.update"]),
    ]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("train.tokens_per_second", "speed (tokens/s)"),
        ("rollout.seconds", "time (s)"),
        ("train.learning_rate", "learning rate"),
        ("plain_name", "plain name"),
    ],
)
def test_a_quantity_is_called_by_its_words_and_unit(name: str, label: str) -> None:
    [panel] = panels_of(curves_of([point(name, 1)]))
    assert panel.label == label


def test_curves_of_several_jobs_share_a_panel_and_are_named_after_their_jobs() -> None:
    one = curves_of([point("train.loss", 1), point("val.loss", 1), point("train.reward_mean", 1)])
    other = curves_of([point("train.loss", 2), point("train.reward_mean", 2), point("x.mine", 2)])
    panels = panels_compared({"job_a": one, "job_b": other, "job_c": ()})
    assert [(panel.label, [curve.name for curve in panel.curves]) for panel in panels] == [
        ("loss", ["job_a train.loss", "job_a val.loss", "job_b train.loss"]),
        ("mean reward", ["job_a", "job_b"]),
        ("mine", ["job_b"]),
    ]
    assert panels[1].curves[1].steps == (2,)


def steps_left(values: list[float], width: int) -> list[int]:
    return [one.step for one in thinned((point("a", step, value) for step, value in enumerate(values)), width)]


def test_a_thinned_curve_keeps_the_lowest_and_the_highest_of_each_stretch_and_its_ends() -> None:
    assert steps_left([2, 2, 9, 1, 2, 3, 4, 5, 5, 5], 5) == [0, 2, 3, 5, 7, 9]
    assert steps_left([2, 2, 1, 9, 2, 3, 4, 5, 5, 5], 5) == [0, 2, 3, 5, 7, 9]


def test_of_equal_values_the_first_is_kept() -> None:
    assert steps_left([1, 1, 1, 1, 1, 1, 1, 1], 4) == [0, 4, 7]


def test_a_gap_of_each_stretch_is_kept_and_hides_no_value() -> None:
    assert steps_left([1, nan, nan, 5, 2, 3, inf, nan, nan, 2], 5) == [0, 1, 3, 5, 6, 9]
    assert steps_left([nan, nan, nan], 5) == [0, 2]


def test_a_width_of_one_step_leaves_everything() -> None:
    assert steps_left([3, nan, 1, 4, 1], 1) == [0, 1, 2, 3, 4]
    assert thinned([], 1) == ()


def test_each_metric_is_thinned_by_itself_and_points_stay_in_order() -> None:
    points = [
        point(name, step, value * sign)
        for step, value in enumerate([3, 9, 4, 1])
        for name, sign in (("a", 1), ("b", -1))
    ]
    points.append(point("c", 3))
    assert [(one.name, one.step) for one in thinned(points, 10)] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 3),
        ("b", 3),
        ("c", 3),
    ]
