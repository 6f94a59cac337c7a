"""Pictures of curves, as files."""

from __future__ import annotations

import re
from math import inf, nan
from pathlib import Path

import pytest

from synth_train.adapters import matplotlib_pictures
from synth_train.adapters.matplotlib_pictures import check, draw
from synth_train.domain.model.curves import Curve, Panel
from synth_train.domain.model.errors import LocalStateError, UsageError
from synth_train.version import install_command

pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")

LOSS = Panel(
    label="loss ($)",
    curves=(
        Curve(name="train.loss", steps=(1, 2, 3, 4, 5), values=(3.0, 2.0, nan, inf, 1.0)),
        Curve(name="_val.loss", steps=(5,), values=(1.5,)),
    ),
)
RATE = Panel(label="learning rate", curves=(Curve(name="train.learning_rate", steps=(1, 5), values=(0.5, 0.0)),))


def drawn(path: Path, *, logarithmic: bool = False) -> str:
    draw(path, title="job_1 (SFT, running) $x^2$", panels=[LOSS, RATE], logarithmic=logarithmic)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG\r\n"), ("b.PDF", b"%PDF-"), ("c.svg", b"<?xml")])
def test_the_name_says_what_kind_of_picture_it_is(tmp_path: Path, name: str, magic: bytes) -> None:
    path = tmp_path / name
    check(path)
    draw(path, title="job_1", panels=[LOSS])
    assert path.read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_title_axes_and_curves_are_named_as_they_are(tmp_path: Path) -> None:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn(tmp_path / "a.svg"))
    for text in ("job_1 (SFT, running) $x^2$", "loss ($)", "learning rate", "step", "train.loss", " _val.loss"):
        assert text in texts


def test_a_curve_has_a_gap_where_there_is_no_number(tmp_path: Path) -> None:
    # Three points in one curve: a line of two, and one that stands alone.
    line = re.search(r'<path d="(M[^"]*)" clip-path[^>]*style="fill: none; stroke: #1f77b4', drawn(tmp_path / "a.svg"))
    assert line is not None
    assert (line[1].count("M"), line[1].count("L")) == (2, 1)


def test_a_scale_is_logarithmic_where_all_values_allow_it(tmp_path: Path) -> None:
    plain, logarithmic = drawn(tmp_path / "a.svg"), drawn(tmp_path / "b.svg", logarithmic=True)
    assert plain != logarithmic
    assert ">0.5<" in logarithmic  # the learning rate ends at 0, which no such scale has


def test_the_same_curves_are_the_same_file_but_for_its_date(tmp_path: Path) -> None:
    first, second = (re.sub(r"<dc:date>.*</dc:date>", "", drawn(tmp_path / f"{at}.svg")) for at in "ab")
    assert first == second


@pytest.mark.parametrize("name", ["curves", "curves.jpg", ".png"])
def test_another_kind_of_file_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(Path(name))
    assert ".png, .svg, .pdf" in refused.value.hint


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matplotlib_pictures, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs matplotlib") as refused:
        check(Path("a.png"))
    assert refused.value.hint == f"Install it with: {install_command('plot')}"


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalStateError, match=r"cannot write .*missing/a.svg: No such file"):
        drawn(tmp_path / "missing" / "a.svg")
    (tmp_path / "taken.svg").mkdir()
    with pytest.raises(LocalStateError, match=r"taken\.svg"):
        drawn(tmp_path / "taken.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.svg"]


@pytest.mark.parametrize(("count", "named"), [(20, True), (21, False)])
def test_more_curves_than_a_legend_can_tell_apart_have_none(tmp_path: Path, count: int, named: bool) -> None:
    curves = tuple(Curve(name=f"job_{number}", steps=(1, 2), values=(1.0, number)) for number in range(count))
    draw(tmp_path / "a.svg", title="compared", panels=[Panel(label="loss", curves=curves)])
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert (">job_0<" in picture, ">job_19<" in picture) == (named, named)
