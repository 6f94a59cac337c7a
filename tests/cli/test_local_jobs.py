"""`--backend local` and `jobs ...` from their words to their exit codes, on the embedded backend with real workers."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.commands import ROW, Ran, python
from support.local import Local, alive, environment, until
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.adapters.local.backend import LocalBackends
from synth_train.adapters.local.sqlite_store import SqliteJobStore
from synth_train.domain.model.hosting import JobFilter
from synth_train.domain.model.jobs import JobId, JobSummary
from synth_train.domain.model.secret import Secret
from synth_train.entrypoints.cli import main
from synth_train.entrypoints.wiring import App, build_app
from synth_train.ports.backend import BackendsPort
from synth_train.ports.progress import ProgressPort
from synth_train.version import install_command

SFT = """\
type = "sft"

[job]
model = "tiny"
data = "train.jsonl"

[play]
steps = 3
"""

RL = """\
type = "rl"

[services]
task_url = "http://127.0.0.1:9"

[model]
source = "tiny"

[play]
tell_key = true
"""

KEY = Secret("q7vzhk3x9pwmtj5dbnrswxyz")

QUICK = ("--poll-interval", "0.05")


class CommandLine:
    """The command in this process, the backend behind it, and a task app that takes `KEY`."""

    def __init__(self, local: Local, capsys: pytest.CaptureFixture[str]) -> None:
        self.local = local
        self.backends: BackendsPort = local.backends()
        self._capsys = capsys

    def __call__(self, *argv: str) -> Ran:
        def build(progress: ProgressPort) -> App:
            train = build_app(progress).train
            return App(replace(train, backends=self.backends, task_app=InMemoryTaskApp(keys={KEY})))

        code = main([*argv, "--backend", "local"], build=build)
        seen = self._capsys.readouterr()
        return Ran(code, seen.out, seen.err)

    def train(self, *options: str) -> JobId:
        """The id of a job that has ended well, or was not waited for."""
        ran = self("train", "--config", "sft.toml", *QUICK, "--output", "json", *options)
        assert ran.code == 0, ran.err
        [result] = ran.document["results"]
        return JobId(result["job_id"])

    @property
    def jobs(self) -> list[JobSummary]:
        return list(self.local.anew().list_jobs(JobFilter()))


@pytest.fixture
def synth_ai(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTH_AI_HOME", str(tmp_path / "home"))
    for name in ("SYNTH_API_KEY", "ENVIRONMENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    Path("sft.toml").write_text(SFT)
    Path("rl.toml").write_text(RL)
    Path("train.jsonl").write_text(ROW * 3)
    local = Local(tmp_path / "home" / "local")
    yield CommandLine(local, capsys)
    local.stop()


LONG = ("--set", "play.steps=1000", "--set", "play.pause=0.1", "--no-poll")

# -- train


def test_a_toml_is_trained_without_a_key_and_told_as_on_the_doc_page(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", *QUICK)

    assert ran.code == 0, ran.err
    assert re.fullmatch(
        r"""Backend base: local
Dataset OK \(rows=3, turns=6, .*\)
Uploading /\S+/train\.jsonl \(\d+ bytes, training set\)\.\.\.
File ready \(id=file_\w+\)
POST local/learning/jobs
Payload preview:\{"model":"tiny",.*\}
Response 201: \{.*\}
Polling job status \(interval=0\.05s, timeout=3600s\)\.\.\.
\[00:00\] queued
(\[00:\d\d\] running
)?\[00:\d\d\] succeeded
Fine-tuned model: ft:tiny:job_\w+
""",
        ran.out,
    )


def test_an_rl_job_has_the_key_of_the_env_file_and_needs_no_other(synth_ai: CommandLine) -> None:
    Path(".env").write_text(f"ENVIRONMENT_API_KEY={KEY.reveal()}\n")
    ran = synth_ai("train", "--config", "rl.toml", *QUICK)

    assert ran.code == 0, ran.err
    assert re.match(r"Using env file: /\S+/\.env\nBackend base: local\nTask app healthy\nPOST local/rl/jobs\n", ran.out)
    assert " wxyz\n" in synth_ai("jobs", "logs", "@last").out
    [job] = synth_ai.jobs
    with SqliteJobStore(synth_ai.local.home.database).transaction() as rows:
        kept = rows.job(job.job_id)
    assert kept is not None
    assert kept.key_place is not None
    assert (kept.key_place.name, kept.key_place.file) == ("ENVIRONMENT_API_KEY", str(Path(".env").absolute()))


def test_without_polling_the_job_goes_on_alone(synth_ai: CommandLine) -> None:
    job_id = synth_ai.train("--no-poll")

    # Nobody looks at the backend meanwhile, only at the folder.
    until(synth_ai.local.folder(job_id).model.is_dir)


def test_the_time_for_waiting_may_end_before_the_job(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", *LONG[:4], *QUICK, "--poll-timeout", "0.5")

    assert ran.code == 9
    [job] = synth_ai.jobs
    assert not job.phase.over


def test_ctrl_c_leaves_the_job_running(synth_ai: CommandLine, tmp_path: Path) -> None:
    code = (
        "import sys; from msgspec.structs import replace; from pathlib import Path; from support.local import Local;"
        "from synth_train.entrypoints.cli import main; from synth_train.entrypoints.wiring import App, build_app;"
        "backends = Local(Path(sys.argv[1])).backends();"
        "build = lambda progress: App(replace(build_app(progress).train, backends=backends));"
        "sys.exit(main(sys.argv[2:], build=build))"
    )
    argv = ["train", "--config", "sft.toml", "--backend", "local", *LONG[:4], *QUICK]
    command = subprocess.Popen(
        [sys.executable, "-c", code, str(synth_ai.local.home.path), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=os.pathsep.join(sys.path), SYNTH_AI_HOME=str(tmp_path / "home"), HOME=str(tmp_path)),
        start_new_session=True,
    )
    assert command.stdout is not None
    until(lambda: "running" in command.stdout.readline())  # type: ignore[union-attr]
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does: to the command and to all that it has started
    _, errors = command.communicate()

    [job] = synth_ai.jobs
    assert command.returncode == 130
    assert f"synth-ai jobs watch {job.job_id} --type sft --backend local" in errors
    worker = synth_ai.local.worker()
    assert worker is not None
    assert alive(worker)
    assert job.word == "running"


def test_a_second_run_under_the_users_key_is_the_same_job_and_another_request_is_refused(
    synth_ai: CommandLine,
) -> None:
    first = synth_ai.train("--idempotency", "K")
    assert synth_ai.train("--idempotency", "K") == first

    ran = synth_ai("train", "--config", "sft.toml", "--idempotency", "K", "--set", "play.steps=4")
    assert ran.code != 0
    assert len(synth_ai.jobs) == 1


def test_without_the_extra_nothing_is_made_and_the_remedy_named(synth_ai: CommandLine) -> None:
    folder = synth_ai.local.home.path
    synth_ai.backends = LocalBackends(folder, environment(), needed=("json", "no_such_package"))
    ran = synth_ai("train", "--config", "sft.toml")

    assert ran.code == 2
    assert "not installed: no_such_package\n" in ran.err
    assert f"Install them with: {install_command('local')}" in ran.err
    assert not folder.exists()


@pytest.mark.parametrize("options", [["--dry-run"], ["--help"]])
def test_what_only_a_worker_needs_is_not_loaded(synth_ai: CommandLine, options: list[str]) -> None:
    code = "import sys; from synth_train.__main__ import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    loaded = python(code, "train", "--config", "sft.toml", "--backend", "local", *options).stderr.split()
    assert not {"torch", "transformers", "sqlite3", "requests"} & set(loaded)


# -- jobs


def test_jobs_are_listed_a_line_for_each(synth_ai: CommandLine) -> None:
    first, second = synth_ai.train(), synth_ai.train("--set", "play.error='failed'", "--no-poll")
    synth_ai.local.ended(second)
    ran = synth_ai("jobs", "list")

    assert ran.code == 0
    head, *lines = ran.out.splitlines()[1:]
    assert head.split() == ["JOB", "KIND", "STATUS", "MODEL", "CREATED"]
    assert [line.split()[:4] for line in lines] == [
        [second, "sft", "failed", "tiny"],
        [first, "sft", "succeeded", f"ft:tiny:{first}"],
    ]
    assert all(re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d$", line) for line in lines)
    assert [job["job_id"] for job in synth_ai("jobs", "list", "--output", "json").document["jobs"]] == [second, first]
    assert first not in synth_ai("jobs", "list", "--status", "failed").out
    assert first not in synth_ai("jobs", "list", "--limit", "1").out


def test_where_there_are_no_jobs_it_is_said(synth_ai: CommandLine) -> None:
    ran = synth_ai("jobs", "list")

    assert (ran.code, ran.err) == (0, "There are no jobs.\n")


def test_a_job_is_named_by_its_beginning_or_as_the_last_one(synth_ai: CommandLine) -> None:
    job_id = synth_ai.train()

    for name in (job_id, job_id[:10], job_id.removeprefix("job_")[:6], "@last"):
        ran = synth_ai("jobs", "show", name)
        assert ran.code == 0, ran.err
        assert f"Job {job_id}: succeeded\n" in ran.out


def test_a_beginning_that_fits_several_jobs_is_refused_with_all_of_them(synth_ai: CommandLine) -> None:
    jobs = [synth_ai.train(), synth_ai.train()]
    ran = synth_ai("jobs", "show", "job_")

    assert ran.code == 2
    assert all(job_id in ran.err for job_id in jobs)


@pytest.mark.parametrize("name", ["job_none", "@last"])
def test_a_job_that_is_not_there_is_said_not_to_be(synth_ai: CommandLine, name: str) -> None:
    assert synth_ai("jobs", "show", name).code == 6


def test_a_job_is_watched_to_its_end(synth_ai: CommandLine) -> None:
    synth_ai.train("--no-poll", "--set", "play.pause=0.1")
    ran = synth_ai("jobs", "watch", "@last", *QUICK)

    assert ran.code == 0, ran.err
    assert "succeeded" in ran.out


def test_the_logs_tell_what_has_happened_with_the_loss_falling(synth_ai: CommandLine) -> None:
    job_id = synth_ai.train()
    ran = synth_ai("jobs", "logs", job_id)

    assert ran.code == 0, ran.err
    lines = [line[20:] for line in ran.out.splitlines()[1:]]
    assert lines == [
        "The job is waiting.",
        "Training begins.",
        "Step 1 of 3. train.loss=1",
        "Step 2 of 3. train.loss=0.5",
        "Step 3 of 3. train.loss=0.33333",
        f"Done; the model is ft:tiny:{job_id}.",
    ]
    document = synth_ai("jobs", "logs", job_id, "--output", "json").document
    assert [event["seq"] for event in document["events"]] == [1, 2, 3, 4, 5, 6]
    assert document["job"]["status"] == "succeeded"


def test_the_logs_are_followed_to_the_end_of_the_job(synth_ai: CommandLine) -> None:
    synth_ai.train("--no-poll", "--set", "play.pause=0.1", "--set", "play.error='failed'")
    ran = synth_ai("jobs", "logs", "@last", "--follow", *QUICK)

    assert ran.code == 8
    assert ran.out.splitlines()[-1].endswith("error: Failed: the loss is not a number.")
    assert len(ran.out.splitlines()) == 1 + 6


def test_a_running_job_is_cancelled(synth_ai: CommandLine) -> None:
    job_id = synth_ai.train(*LONG)
    until(lambda: synth_ai.jobs[0].word == "running")
    ran = synth_ai("jobs", "cancel", "@last")

    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == f"Job {job_id}: cancelled: cancelled while it ran"
    assert synth_ai("jobs", "cancel", "@last", "--output", "json").document["job"]["status"] == "cancelled"


def test_the_jobs_of_this_machine_have_a_page_only_while_they_are_served(synth_ai: CommandLine) -> None:
    job_id = synth_ai.train()
    ran = synth_ai("jobs", "open", "@last")
    assert ran.code == 6
    assert "have a page only while they are served" in ran.err
    assert f"Start `synth-ai serve`, then run: synth-ai jobs open {job_id}" in ran.err


def test_a_model_is_downloaded_whole_and_nothing_overwritten(synth_ai: CommandLine) -> None:
    job_id = synth_ai.train()
    ran = synth_ai("jobs", "download", job_id[:8])

    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == f"Model of job {job_id}: {job_id} (1 file, 2 bytes)"
    assert Path(job_id, "config.json").read_text() == "{}"
    assert synth_ai("jobs", "download", job_id).out == ran.out
    Path(job_id, "config.json").write_text("mine")
    again = synth_ai("jobs", "download", job_id)
    assert again.code == 2
    assert "is there already" in again.err
    assert Path(job_id, "config.json").read_text() == "mine"
    assert synth_ai("jobs", "download", job_id, "--force").code == 0
    assert Path(job_id, "config.json").read_text() == "{}"
    document = synth_ai("jobs", "download", job_id, "--out", "elsewhere", "--output", "json").document
    assert document["files"] == [{"name": "config.json", "bytes": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}]
    assert Path("elsewhere", "config.json").exists()


def test_a_job_that_has_made_no_model_has_none_to_download(synth_ai: CommandLine) -> None:
    synth_ai.train("--no-poll", "--set", "play.error='failed'")
    until(lambda: synth_ai.jobs[0].phase.over)
    ran = synth_ai("jobs", "download", "@last")

    assert ran.code == 6
    assert "is failed: there is no model to fetch" in ran.err
