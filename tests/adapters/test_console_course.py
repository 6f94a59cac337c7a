"""Events and metrics of a job: as lines, as NDJSON, and as a live panel."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from support.terminal import Terminal
from synth_train.adapters.console.ndjson import Ndjson
from synth_train.adapters.console.panel import Panel, Track
from synth_train.adapters.console.screen import Screen
from synth_train.adapters.console.transcript import Transcript
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.domain.model.errors import GaveUpWaiting
from synth_train.domain.model.events import Event
from synth_train.domain.model.jobs import JobId, Phase
from synth_train.domain.model.moments import (
    EventSeen,
    JobEnded,
    Moment,
    Noted,
    PointsSeen,
    PollFailed,
    PollingBegun,
    SeveralWatched,
    StatusSeen,
    WatchFailed,
)

A, B = JobId("job_a"), JobId("job_b")


def event(
    message: str, *, job: JobId = A, type: str = "sft.progress", level: str = "info", **data: object
) -> EventSeen:
    return EventSeen(job_id=job, event=Event(seq=1, type=type, message=message, level=level, created_at=1e9, data=data))


def points(step: int, *, job: JobId = A, at: float = 0.0, **values: float) -> PointsSeen:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return PointsSeen(job_id=job, step=step, values=named, created_at=at)


def status(word: str, phase: Phase = Phase.LIVE, *, job: JobId = A, elapsed: float = 0.0) -> StatusSeen:
    return StatusSeen(job_id=job, elapsed=elapsed, word=word, phase=phase)


def ended(job: JobId = A, *, model: str | None = None) -> JobEnded:
    return JobEnded(job_id=job, word="succeeded", phase=Phase.SUCCEEDED, reason="", fine_tuned_model=model)


class Shown:
    """What was written to two streams."""

    def __init__(self) -> None:
        self._out, self._err = io.BytesIO(), io.BytesIO()
        self.screen = Screen(io.TextIOWrapper(self._out, "utf-8"), io.TextIOWrapper(self._err, "utf-8"))

    @property
    def out(self) -> list[str]:
        return self._out.getvalue().decode().splitlines()

    @property
    def err(self) -> list[str]:
        return self._err.getvalue().decode().splitlines()


def transcript(*moments: Moment) -> Shown:
    shown = Shown()
    told = Transcript(shown.screen, monotonic=ManualClock().monotonic)
    for moment in moments:
        told.tell(moment)
    return shown


# Lines


def test_events_go_to_stderr_with_their_numbers_and_the_transcript_stays_as_it_is() -> None:
    shown = transcript(
        status("running"), event("Step 3 of 9.", step=3, total_steps=9, loss=0.123456), status("succeeded")
    )
    assert shown.out == ["[00:00] running", "[00:00] succeeded"]
    assert shown.err == ["job: Step 3 of 9. loss=0.12346"]


def test_counts_are_written_whole_and_measures_with_five_digits() -> None:
    shown = transcript(event("Ready.", parameters=1_018_368, loss=0.123456789))
    assert shown.err == ["job: Ready. parameters=1018368 loss=0.12346"]


def test_metrics_that_an_event_has_told_are_not_told_again() -> None:
    data: dict[str, Any] = {"step": 1, "total_steps": 9, "train.loss": 2.0}
    told = event("Step 1 of 9.", **data)
    shown = transcript(told, points(1, train_loss=2.0, train_lr=0.5), points(2, train_loss=1.0), points(3))
    assert shown.err == [
        "job: Step 1 of 9. train.loss=2",
        "job: Step 1 of 9. train.lr=0.5",
        "job: Step 2 of 9. train.loss=1",
    ]


def test_metrics_without_events_know_no_total() -> None:
    assert transcript(points(7, val_loss=1.5)).err == ["job: Step 7. val.loss=1.5"]


@pytest.mark.parametrize("type", ["rl.heartbeat", "rl.job.completed", "sft.job.cancelled"])
def test_events_that_say_no_more_than_the_status_are_left_out(type: str) -> None:
    assert transcript(event("Still running.", type=type)).err == []


def test_an_event_of_a_bad_kind_is_shown_as_one() -> None:
    shown = transcript(
        event("its key is gone", level="warning", type="rl.waiting"), event("it broke", level="error", type="rl.failed")
    )
    assert shown.err == ["warning: job job_a: its key is gone", "job: it broke"]


def test_several_jobs_are_told_apart() -> None:
    shown = transcript(
        SeveralWatched(job_ids=(A, B), interval=5.0, timeout=60.0),
        status("running"),
        status("queued", job=B),
        event("Training begins.", job=B),
        ended(B, model="ft:m:job_b"),
    )
    assert shown.out == [
        "Polling the status of 2 jobs (interval=5s, timeout=60s)...",
        "[00:00] job_a running",
        "[00:00] job_b queued",
        "Fine-tuned model of job_b: ft:m:job_b",
    ]
    assert shown.err == ["job_b: Training begins.", "Job job_b: succeeded"]


# NDJSON


def test_every_line_is_an_object_that_says_what_it_tells() -> None:
    shown = Shown()
    told = Ndjson(shown.screen)
    moments: list[Moment] = [
        PollingBegun(job_id=A, interval=5.0, timeout=60.0),
        status("running", elapsed=1.5),
        event("mind this", level="warning", step=1),
        points(1, train_loss=2.0),
        PollFailed(job_id=A, error="502"),
        ended(model="ft:m:1"),
        Noted(text="also this", warning=True),
    ]
    for moment in moments:
        told.tell(moment)
    assert [json.loads(line) for line in shown.out] == [
        {"version": 1, "event": "status", "job_id": "job_a", "status": "running", "phase": "live", "elapsed": 1.5},
        {
            "version": 1, "event": "event", "job_id": "job_a", "seq": 1, "type": "sft.progress", "level": "warning",
            "message": "mind this", "data": {"step": 1}, "created_at": 1e9,
        },
        {"version": 1, "event": "metrics", "job_id": "job_a", "step": 1, "values": {"train.loss": 2.0}},
        {"version": 1, "event": "poll_failed", "job_id": "job_a", "error": "502"},
        {
            "version": 1, "event": "ended", "job_id": "job_a", "status": "succeeded", "phase": "succeeded",
            "reason": None, "fine_tuned_model": "ft:m:1",
        },
    ]  # fmt: skip
    assert told.warnings == ["job job_a: mind this", "also this"]
    assert shown.err == []


# The panel


def track(*moments: EventSeen | PointsSeen) -> Track:
    seen = Track()
    for moment in moments:
        seen.see(moment)
    return seen


@pytest.mark.parametrize(
    ("names", "main"),
    [
        (["train.loss", "train.reward_mean", "a.reward"], "train.reward_mean"),
        (["train.loss", "eval.reward"], "eval.reward"),
        (["val.loss", "train.loss", "lr"], "train.loss"),
        (["val.loss", "lr"], "val.loss"),
        (["lr", "kl"], "kl"),
        ([], None),
    ],
)
def test_the_chart_shows_the_metric_that_says_most(names: list[str], main: str | None) -> None:
    seen = PointsSeen(job_id=A, step=1, values=dict.fromkeys(names, 1.0))
    assert track(seen).main_metric == main


def test_pace_and_time_left_come_from_the_times_of_the_backend() -> None:
    seen = track(event("", step=1, max_steps=100), *(points(step, at=1e9 + 2 * step) for step in range(2, 41)))
    assert (seen.step, seen.total) == (40, 100)
    assert seen.rate == pytest.approx(0.5, rel=0.05)
    assert seen.left == pytest.approx(120, rel=0.05)
    seen.phase = Phase.SUCCEEDED
    assert seen.left is None


def test_nobody_can_tell_a_pace_from_one_step_or_none_without_times() -> None:
    assert track(points(1, at=5.0)).rate is None
    assert track(points(1), points(2)).rate is None
    assert track(points(1, at=5.0), points(2, at=5.0)).rate is None
    assert track(points(1, at=5.0), points(2, at=6.0)).left is None


def rendered(*moments: Moment, height: int = 30) -> list[str]:
    """The panel after these moments, 3 seconds after the last one."""
    clock = ManualClock()
    panel = Panel(RecordedProgress(), Screen(None, None), monotonic=clock.monotonic)
    for moment in moments:
        panel.tell(moment)
    clock.advance(3.0)
    console = Console(file=io.StringIO(), width=80, height=height, color_system=None)
    with console.capture() as captured:
        console.print(panel.render(console))
    return captured.get().splitlines()


def test_the_panel_has_a_chart_and_a_line_for_each_job() -> None:
    lines = rendered(
        status("running", elapsed=60.0),
        event("", total_steps=4),
        *(points(step, at=1e9 + step, train_loss=4.0 / step) for step in (1, 2, 3)),
    )
    assert "train.loss" in "".join(lines)
    assert [len(line) for line in lines[:-1]] == [80] * 16
    assert lines[-1] == "running  01:03  ████████░░ 75%  step 3/4  1 steps/s  00:01 left"


def test_the_panel_names_the_jobs_when_there_are_several_and_fits_a_low_terminal() -> None:
    lines = rendered(status("running"), points(1, train_loss=2.0), points(1, job=B, train_loss=1.0), height=10)
    text = "\n".join(lines)
    assert "job_a train.loss" in text
    assert "job_b train.loss" in text
    assert lines[-2:] == ["job_a running  00:03  step 1", "job_b  00:00  step 1"]
    assert len(lines) == 6 + 2


def test_a_long_curve_is_thinned_out() -> None:
    assert len(rendered(*(points(step, train_loss=1.0) for step in range(1, 2000)))) == 17


def test_a_panel_without_numbers_is_a_line() -> None:
    assert rendered(status("queued")) == ["queued  00:03"]


def drawn(*moments: Moment) -> str:
    """All that appears on a terminal."""
    terminal = Terminal()
    screen = Screen(terminal.stream, terminal.stream, environ={"TERM": "xterm"})
    assert screen.can_draw
    panel = Panel(Transcript(screen, monotonic=ManualClock().monotonic), screen, monotonic=ManualClock().monotonic)
    for moment in moments:
        panel.tell(moment)
    screen.close()
    return terminal.shown()


def test_lines_appear_above_the_panel_and_the_last_picture_stays() -> None:
    shown = drawn(
        status("running"),
        points(1, train_loss=2.0),
        event("mind this", level="warning"),
        points(2, train_loss=1.0),
        status("succeeded", Phase.SUCCEEDED),
        ended(),
        PollingBegun(job_id=B, interval=5.0, timeout=60.0),
    )
    assert "[00:00] running\r\n" in shown
    assert "mind this\r\n" in shown
    picture, _, after = shown.rpartition("succeeded  00:00")
    assert "train.loss" in picture
    assert after.index("Job job_a: succeeded") > 0
    assert "\x1b[1A" not in after.partition("Job job_a")[0], "the last picture is not taken away"


def test_the_panel_stays_until_the_last_job_is_over() -> None:
    shown = drawn(
        status("running"),
        status("running", job=B),
        points(1, train_loss=2.0),
        status("succeeded", Phase.SUCCEEDED),
        ended(),
        points(1, job=B, train_loss=1.0),
        status("failed", Phase.FAILED, job=B),
        WatchFailed(job_id=B, error=GaveUpWaiting("gave up")),
    )
    assert "job_b train.loss" in shown


@pytest.mark.parametrize(("encoding", "draws"), [("utf-8", True), ("latin-1", False), ("ascii", False)])
def test_a_terminal_that_knows_only_few_letters_is_not_drawn_on(encoding: str, draws: bool) -> None:
    terminal = Terminal()
    terminal.stream.reconfigure(encoding=encoding)
    screen = Screen(None, terminal.stream, environ={"TERM": "xterm"})
    assert screen.can_draw is draws
    assert not Screen(None, None).can_draw
    terminal.shown()
