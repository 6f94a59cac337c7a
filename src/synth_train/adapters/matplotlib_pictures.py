"""Pictures by matplotlib, which the extra [plot] brings and nothing else loads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.domain.model.curves import Curve, Panel
from synth_train.domain.model.errors import LocalStateError, UsageError
from synth_train.version import install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("png", "svg", "pdf")

_WIDTH, _TITLE, _PANEL = 9.0, 0.6, 2.4
"""Inches."""
_DOTS = 150
"""An inch."""
_NAMED = 20
"""Curves of a panel, up to which a legend can be read. More are drawn thin, as a band."""
_COLUMN = 8
"""Of a legend: lines that fit into a panel."""
_FEW = 40
"""Points of a curve, up to which each is marked: one alone makes no line."""


def check(path: Path) -> None:
    """Make sure that a picture can be drawn into such a file, before anything is fetched for it.

    Raises:
        UsageError: there is nothing to draw with, or the file's name means no kind of picture.
    """
    if _kind(path) not in KINDS:
        kinds = ", ".join(f".{kind}" for kind in KINDS)
        raise UsageError(f"{path}: no picture is called so", hint=f"Let the name end in one of {kinds}.")
    if find_spec("matplotlib") is None:
        raise UsageError(
            "--plot needs matplotlib, which is not installed",
            hint=f"Install it with: {install_command('plot')}",
        )


def draw(path: Path, *, title: str, panels: Sequence[Panel], logarithmic: bool = False) -> None:
    """Draw panels, one below the other over the same steps, into a file that `check` has passed; it is replaced whole.

    No display is needed.

    Args:
        logarithmic: whether the scales of values are, where all of them are above 0.

    Raises:
        LocalStateError: it cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(_WIDTH, _TITLE + _PANEL * len(panels)), dpi=_DOTS, layout="constrained")
    figure.suptitle(_plain(title))
    column = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(column, panels, strict=True):
        _fill(axes, panel)
        if logarithmic and all(value > 0 for curve in panel.curves for value in curve.values if isfinite(value)):
            axes.set_yscale("log")
    column[-1].set_xlabel("step")
    column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        # Text stays text, and a fixed salt makes the same curves the same file.
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "synth-train"}):
            figure.savefig(aside, format=_kind(path))
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise LocalStateError(
            f"cannot write {path}: {error.strerror or error}", hint="Name another file with --plot."
        ) from error


def _fill(axes: Axes, panel: Panel) -> None:
    named = len(panel.curves) <= _NAMED
    width, alpha = (1.4, 1.0) if named else (0.5, 0.5)
    for curve in panel.curves:
        marker = _marker(curve) if named else ""
        label = _plain(curve.name)
        axes.plot(curve.steps, _gapped(curve), label=label, linewidth=width, alpha=alpha, marker=marker)
    axes.set_ylabel(_plain(panel.label))
    axes.grid(visible=True, alpha=0.3)
    axes.margins(x=0.02)
    if named:
        columns = -(-len(panel.curves) // _COLUMN)
        axes.legend(loc="best", fontsize="small", framealpha=0.8, ncols=columns)


def _gapped(curve: Curve) -> list[float]:
    return [value if isfinite(value) else nan for value in curve.values]


def _marker(curve: Curve) -> str:
    """Points among gaps would be lost without one."""
    return "." if len(curve.steps) <= _FEW or not all(map(isfinite, curve.values)) else ""


def _kind(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _plain(text: str) -> str:
    """Without the signs in which matplotlib sees formulas; a label that begins with `_` it would leave out."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
