"""`jobs ...` on backends across the wire: those that have every route, and those that have few."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from cases.scripted_server import Script, ScriptedServer
from support.backends import OUR_KEY, K, Side, backend_side, rl_request
from support.commands import Ran
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.events import Point
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind, short_ids
from synth_train.domain.model.settings import API_KEY
from synth_train.entrypoints.cli import main
from synth_train.entrypoints.wiring import App, build_app
from synth_train.ports.progress import ProgressPort


@dataclass
class CommandLine:
    """`synth-ai` with the real HTTP adapter, on the clock of the other side."""

    capsys: pytest.CaptureFixture[str]
    side: Side

    def __call__(self, *argv: str, backend: str = "") -> Ran:
        def build(progress: ProgressPort) -> App:
            return App(
                replace(
                    build_app(progress).train,
                    env=InMemoryEnv({API_KEY: OUR_KEY.reveal()}),
                    journal=InMemoryJournal(),
                    patience=TenacityPatience(self.side.clock),
                    clock=self.side.clock,
                )
            )

        code = main([*argv, "--backend", backend or self.side.backend.base], build=build)
        seen = self.capsys.readouterr()
        return Ran(code, seen.out, seen.err)

    def job(self) -> JobId:
        return self.side.backend.create(Kind.RL, rl_request(), K).job_id


@pytest.fixture
def synth_ai(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    with backend_side("http") as side:
        yield CommandLine(capsys, side)


def test_jobs_are_listed(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    ran = synth_ai("jobs", "list")
    assert ran.code == 0
    assert [line.split()[:4] for line in ran.out.splitlines()[-2:]] == [
        ["JOB", "KIND", "STATUS", "MODEL"],
        [job_id, "rl", "queued", "Qwen/Qwen3-4B"],
    ]


def test_an_empty_list_says_whether_it_was_narrowed(synth_ai: CommandLine) -> None:
    assert synth_ai("jobs", "list").err == "There are no jobs.\n"
    synth_ai.job()
    assert synth_ai("jobs", "list", "--status", "failed").err == "There are no such jobs.\n"
    assert synth_ai("jobs", "list", "--type", "sft").err == "There are no such jobs.\n"


def test_the_columns_of_a_list_can_be_chosen(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    ran = synth_ai("jobs", "list", "--columns", "status, id,base_model,fine_tuned_model")
    assert [line.split() for line in ran.out.splitlines()[-2:]] == [
        ["STATUS", "JOB", "BASE", "MODEL", "FINE-TUNED", "MODEL"],
        ["queued", job_id, "Qwen/Qwen3-4B"],
    ]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id,stat", "there is no column stat; did you mean status?"),
        ("id,,name", "there is no column ''; there are: id, kind,"),
    ],
)
def test_a_column_that_there_is_none_of_is_named(synth_ai: CommandLine, columns: str, said: str) -> None:
    ran = synth_ai("jobs", "list", "--columns", columns)
    assert ran.code == 2
    assert f"error: --columns: {said}" in ran.err


def test_a_job_is_named_by_the_beginning_of_its_id_or_as_the_last_one(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    for name in (job_id[:-1], "@last"):
        assert synth_ai("jobs", "show", name).out.splitlines()[-1] == f"Job {job_id}: queued"


def test_the_log_is_followed_to_the_end(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    ran = synth_ai("jobs", "logs", job_id, "--follow", "--output", "json")
    assert ran.code == 0, ran.err
    events = ran.document["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("rl.created", "rl.job.completed")


def test_the_log_can_be_narrowed_down(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    synth_ai("jobs", "watch", job_id)
    ran = synth_ai("jobs", "logs", job_id, "--search", "step 3")
    assert [line[20:] for line in ran.out.splitlines()[1:]] == ["Step 3 of 4. train.reward_mean=0.775"]
    assert synth_ai("jobs", "logs", job_id, "--level", "error").out.splitlines()[1:] == []
    assert len(synth_ai("jobs", "logs", job_id, "--since", "1s").out.splitlines()) == 1 + 2


def test_metrics_are_a_table_with_their_course(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    assert synth_ai("jobs", "metrics", job_id).err == "There are no metrics.\n"
    synth_ai("jobs", "watch", job_id)
    ran = synth_ai("jobs", "metrics", job_id)
    assert [line.split() for line in ran.out.splitlines()[1:]] == [
        ["METRIC", "STEPS", "FIRST", "LAST", "LOWEST", "HIGHEST", "COURSE"],
        ["train.reward_mean", "1-4", "0.525", "0.9", "0.525", "0.9", "▁▃▆█"],
    ]
    assert synth_ai("jobs", "metrics", job_id, "--name", "val.*").err == "There are no metrics.\n"


def test_metrics_are_every_point_for_programs(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    synth_ai("jobs", "watch", job_id)
    lines = synth_ai("jobs", "metrics", job_id, "--csv", "--name", "train.*").out.splitlines()
    assert lines[0] == "job_id,name,step,value,created_at"
    assert [line.split(",")[:4] for line in lines[1:]] == [
        [job_id, "train.reward_mean", str(step), repr(0.4 + 0.5 * step / 4)] for step in (1, 2, 3, 4)
    ]
    points = synth_ai("jobs", "metrics", job_id, "--output", "json").document["points"]
    assert [point["step"] for point in points] == [1, 2, 3, 4]


def test_metrics_as_csv_have_stdout_to_themselves(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    synth_ai("jobs", "watch", job_id)
    with_gap(synth_ai, job_id)
    lines = synth_ai("jobs", "metrics", job_id, "--csv", "--name", "train.loss").out.splitlines()
    assert [line.split(",")[1:4] for line in lines] == [["name", "step", "value"], ["train.loss", "5", ""]]


def with_gap(synth_ai: CommandLine, job_id: str) -> None:
    """Let a job have a point that is no number."""
    with synth_ai.side.world.store.transaction() as rows:
        rows.save_points(JobId(job_id), [Point(name="train.loss", step=5, value=math.nan, created_at=1.0)])


def test_what_is_no_number_is_a_gap_everywhere(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    synth_ai("jobs", "watch", job_id)
    with_gap(synth_ai, job_id)
    row = synth_ai("jobs", "metrics", job_id, "--name", "train.loss").out.splitlines()[-1]
    assert row.split() == ["train.loss", "5", "-", "-", "-", "-"]
    points = synth_ai("jobs", "metrics", job_id, "--output", "json").document["points"]
    assert (points[-1]["name"], points[-1]["value"]) == ("train.loss", None)


def test_metrics_are_drawn(synth_ai: CommandLine) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    job_id = synth_ai.job()
    assert synth_ai("jobs", "metrics", job_id, "--plot", "a.png").err == "There are no metrics.\n"
    assert not Path("a.png").exists()
    synth_ai("jobs", "watch", job_id)
    ran = synth_ai("jobs", "metrics", job_id, "--plot", "a.png")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, f"Metrics of job {job_id}: a.png (1 curve)")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    document = synth_ai("jobs", "metrics", job_id, "--plot", "b.svg", "--output", "json").document
    assert document["plot"] == str(Path("b.svg").absolute())
    assert f"{job_id} (RL, succeeded)" in Path("b.svg").read_text(encoding="utf-8")


def two_ended_jobs(synth_ai: CommandLine) -> list[JobId]:
    jobs = [synth_ai.side.backend.create(Kind.RL, rl_request(), IdempotencyKey(key)).job_id for key in "ab"]
    synth_ai("jobs", "watch", *jobs)
    return jobs


def test_metrics_of_several_jobs_are_compared(synth_ai: CommandLine) -> None:
    jobs = two_ended_jobs(synth_ai)
    head, *rows = [line.split() for line in synth_ai("jobs", "metrics", *jobs).out.splitlines()[1:]]
    assert head[:3] == ["METRIC", "JOB", "STEPS"]
    names = short_ids(jobs)
    assert [row[:3] for row in rows] == [["train.reward_mean", name, "1-4"] for name in names]
    document = synth_ai("jobs", "metrics", *jobs, "--output", "json").document
    assert [job["job_id"] for job in document["jobs"]] == jobs
    assert "job" not in document
    assert [point["job_id"] for point in document["points"]] == [job for job in jobs for _ in range(4)]
    lines = synth_ai("jobs", "metrics", *jobs, "--csv").out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["job_id", *(job for job in jobs for _ in range(4))]


def test_metrics_of_several_jobs_are_drawn_into_one_picture(synth_ai: CommandLine) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    jobs = two_ended_jobs(synth_ai)
    ran = synth_ai("jobs", "metrics", *jobs, "--plot", "a.svg")
    assert ran.out.splitlines()[-1] == "Metrics of 2 jobs: a.svg (2 curves)"
    picture = Path("a.svg").read_text(encoding="utf-8")
    assert all(f">{text}<" in picture for text in ("2 jobs compared", *short_ids(jobs)))


def test_a_picture_of_another_kind_is_refused_before_anything_is_asked(synth_ai: CommandLine) -> None:
    ran = synth_ai("jobs", "metrics", "job_1", "--plot", "a.jpg", backend="http://127.0.0.1:1")
    assert ran.code == 2
    assert "a.jpg: no picture is called so" in ran.err


def test_the_page_of_a_job_is_named(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    page = f"{synth_ai.side.backend.base}/#job={job_id}"
    ran = synth_ai("jobs", "open", job_id)
    assert (ran.code, ran.out.splitlines()[-1], ran.err) == (0, page, "")
    assert synth_ai("jobs", "open", job_id, "--output", "json").document["page"] == page


def test_a_backend_without_a_page_is_said_to_have_none(synth_ai: CommandLine) -> None:
    with ScriptedServer(FEW) as server:
        ran = synth_ai("jobs", "open", "job_1", backend=server.base)
    assert ran.code == 6
    assert f"error: the backend {server.base} has no page for its jobs\n" in ran.err
    assert "synth-ai jobs watch job_1" in ran.err


def test_a_job_is_run_again(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    assert synth_ai("jobs", "retry", job_id).code == 2
    synth_ai("jobs", "cancel", job_id)
    ran = synth_ai("jobs", "retry", job_id)
    new, old = synth_ai.side.jobs
    assert new.order.kind is Kind.RL
    assert (ran.code, ran.out.splitlines()[-1]) == (0, f"Job {new.id} runs {old.id} again")
    again = synth_ai("jobs", "retry", job_id, "--output", "json")
    assert (again.document["job_id"], again.document["retry_of"]) == (new.id, old.id)
    assert '"event":"created"' in again.err


def test_a_job_is_cancelled(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    ran = synth_ai("jobs", "cancel", job_id)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, f"Job {job_id}: cancelled: cancelled before it ran")


def test_a_job_that_is_over_stays_as_it_is_and_no_reason_is_made_up(synth_ai: CommandLine) -> None:
    job_id = synth_ai.job()
    synth_ai("jobs", "watch", job_id)
    assert synth_ai("jobs", "cancel", job_id).out.splitlines()[-1] == f"Job {job_id}: succeeded"


def test_a_job_without_a_model_has_none_to_fetch(synth_ai: CommandLine) -> None:
    ran = synth_ai("jobs", "download", synth_ai.job())
    assert ran.code == 6
    assert "error: " in ran.err


FEW: Script = {
    "GET /api/learning/jobs/job_1": [{"json": {"status": "running"}}],
    "GET /api/learning/jobs/job_2": [{"json": {"status": "failed"}}],
}


@pytest.mark.parametrize(
    ("argv", "cannot"),
    [
        (("jobs", "list"), "cannot list the jobs"),
        (("jobs", "logs", "job_1"), "cannot read the events"),
        (("jobs", "cancel", "job_1"), "cannot cancel the job"),
        (("jobs", "metrics", "job_1"), "cannot read the metrics"),
        (("jobs", "retry", "job_2"), "cannot read what the job was asked with"),
        (("jobs", "download", "job_1"), "cannot list the files of the model"),
    ],
)
def test_a_backend_that_lacks_a_route_is_said_to(synth_ai: CommandLine, argv: tuple[str, ...], cannot: str) -> None:
    with ScriptedServer(FEW) as server:
        ran = synth_ai(*argv, backend=server.base)
        assert ran.code == 6
        assert f"error: {cannot}, because the backend has no route for that: " in ran.err
        assert f"{server.base}/learning/jobs" in ran.err
        shown = synth_ai("jobs", "show", "job_1", backend=server.base)
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "Job job_1: running")
