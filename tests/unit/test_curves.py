"""Metrics as curves, and which of them share an axis."""

from __future__ import annotations

import pytest

from synth_train.domain.model.curves import Curve, curves_of, panels_of
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
