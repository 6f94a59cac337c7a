"""Every command from its words to its exit code, on a backend in memory."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.commands import RL, ROW, SFT, CommandLine
from support.terminal import Terminal
from synth_train.adapters.console.screen import OutputClosed
from synth_train.domain.model.errors import BackendUnreachable, LocalStateError
from synth_train.domain.model.moments import Created, Moment
from synth_train.domain.usecases.train import Train
from synth_train.entrypoints.cli.signals import Interrupted
from synth_train.ports.progress import ProgressPort


@pytest.fixture
def synth_ai(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTH_AI_HOME", str(tmp_path / "home"))
    Path("sft.toml").write_text(SFT)
    Path("rl.toml").write_text(RL)
    Path("train.jsonl").write_text(ROW * 3)
    return CommandLine(capsys)


def at(kind: type[Moment], act: Callable[[], None]) -> Callable[[Train], Train]:
    """Ports whose progress acts when it is told of a moment of `kind`, after that was shown."""

    class Acting(ProgressPort):
        def __init__(self, inner: ProgressPort) -> None:
            self._inner = inner

        def tell(self, moment: Moment) -> None:
            self._inner.tell(moment)
            if isinstance(moment, kind):
                act()

    return lambda train: replace(train, progress=Acting(train.progress))


def raising(error: BaseException, *, at_the: type[Moment]) -> Callable[[Train], Train]:
    """Ports whose progress raises when it is told of a moment of that kind, after it was shown."""

    def act() -> None:
        raise error

    return at(at_the, act)


# -- train


def test_an_sft_job_from_its_toml_to_its_end(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml")

    assert ran.code == 0, ran.err
    (job,) = synth_ai.rehearsal.backend.jobs
    assert re.fullmatch(
        r"""Backend base: https://api\.usesynth\.ai \(key sk-\.\.\.kwy\)
Dataset OK \(rows=3, turns=6, .*\)
Uploading /\S+/train\.jsonl \(\d+ bytes, training set\)\.\.\.
File ready \(id=file_\w+\)
POST https://api\.usesynth\.ai/learning/jobs
Payload preview:\{"model":"Qwen/Qwen3-0\.6B",.*\}
Response 201: \{.*\}
Polling job status \(interval=5s, timeout=3600s\)\.\.\.
\[00:00\] queued
\[\d\d:\d\d\] running
\[\d\d:\d\d\] succeeded
Fine-tuned model: ft:Qwen/Qwen3-0\.6B:\S+
""",
        ran.out,
    )
    assert ran.err.splitlines()[-1] == f"Job {job.id}: succeeded"


def test_an_rl_job_from_its_toml_to_its_end(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "rl.toml")

    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[1].startswith("Verification OK (candidates=1, statuses=[200])")
    assert lines[2:4] == ["Task app healthy", "POST https://api.usesynth.ai/rl/jobs"]
    assert lines[-2].endswith("succeeded")


def test_a_dry_run_prints_the_very_bytes_and_nothing_else_on_stdout(synth_ai: CommandLine) -> None:
    dry = synth_ai("train", "--config", "sft.toml", "--dry-run")
    synth_ai("train", "--config", "sft.toml", "--no-poll")

    (sent,) = synth_ai.rehearsal.backend.requests
    assert dry.code == 0
    assert dry.out.count("\n") == 1
    assert json.loads(dry.out) == {**json.loads(sent), "training_file_id": None}
    assert dry.err.startswith("Dataset OK")


def test_a_dry_run_of_several_prints_a_line_for_each(synth_ai: CommandLine) -> None:
    dry = synth_ai("train", "--config", "sft.toml", "--config", "rl.toml", "--dry-run")

    assert [json.loads(line).get("job_type") for line in dry.out.splitlines()] == [None, "rl"]
    assert dry.err.splitlines()[-2:] == ["sft.toml: would be sent", "rl.toml: would be sent"]
    assert synth_ai.rehearsal.backend.calls == []


def test_several_configs_take_turns_and_each_has_a_line_at_the_end(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", "--config", "rl.toml", "--no-poll")

    first, second = synth_ai.rehearsal.backend.jobs
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.startswith("Config ")] == [
        "Config 1 of 2: sft.toml",
        "Config 2 of 2: rl.toml",
    ]
    assert ran.out.splitlines()[-2:] == [f"sft.toml: job {first.id} created", f"rl.toml: job {second.id} created"]
    watch = f"synth-ai jobs watch {first.id} {second.id} --backend https://api.usesynth.ai"
    assert ran.err.splitlines()[-1] == f"Watch them with: {watch}"


def test_a_job_that_is_not_followed_is_named_at_the_end_with_the_command_that_does(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", "--no-poll")

    (job,) = synth_ai.rehearsal.backend.jobs
    assert ran.code == 0
    assert ran.err.splitlines()[-2:] == [
        f"Job {job.id}: created",
        f"Watch it with: synth-ai jobs watch {job.id} --type sft --backend https://api.usesynth.ai",
    ]


def test_a_job_that_failed_has_its_reason_in_the_document(synth_ai: CommandLine) -> None:
    synth_ai.rehearsal.backend.world.trainer.failure = "out of memory"
    failed = synth_ai("train", "--config", "sft.toml", "--output", "json").document["results"][0]
    synth_ai.rehearsal.backend.world.trainer.failure = ""
    well = synth_ai("train", "--config", "sft.toml", "--output", "json").document["results"][0]

    assert (failed["status"], failed["reason"]) == ("failed", "out of memory")
    assert (well["status"], well["reason"]) == ("succeeded", None)


def test_a_key_used_twice_is_said_to_have_its_job(synth_ai: CommandLine) -> None:
    synth_ai("train", "--config", "sft.toml", "--idempotency", "K")
    ran = synth_ai("train", "--config", "sft.toml", "--idempotency", "K")

    (job,) = synth_ai.rehearsal.backend.jobs
    assert ran.code == 0
    assert f"its job is {job.id}, last seen 'succeeded'\n" in ran.err
    assert f"Job {job.id} exists already\n" in ran.out


def test_a_broken_config_is_told_once_and_the_ones_after_it_are_not_begun(synth_ai: CommandLine) -> None:
    Path("broken.toml").write_text('type = "sft"\n[job]\nmodel = "Qwen/Qwen3-0.6"\ndata = "train.jsonl"\n')
    ran = synth_ai("train", "--config", "sft.toml", "--config", "broken.toml", "--config", "rl.toml")

    assert ran.code == 3
    assert len([line for line in ran.err.splitlines() if "broken.toml:3: job.model" in line]) == 1
    (_, second, third) = ran.out.splitlines()[-3:]
    assert second.startswith("broken.toml:3: job.model")
    assert third == "rl.toml: not begun"
    assert len(synth_ai.rehearsal.backend.jobs) == 1


def test_a_job_that_fails_is_exit_code_8_and_says_why(synth_ai: CommandLine) -> None:
    synth_ai.rehearsal.backend.world.trainer.failure = "out of memory"
    ran = synth_ai("train", "--config", "sft.toml")

    assert ran.code == 8
    assert re.fullmatch(r"error: job \S+: failed: .*out of memory.*", ran.err.splitlines()[-1])


def test_giving_up_is_exit_code_9_and_the_last_line_has_job_and_word(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", "--poll-timeout", "12")

    (job,) = synth_ai.rehearsal.backend.jobs
    assert ran.code == 9
    assert "synth-ai jobs watch" in ran.err
    assert ran.err.splitlines()[-1] == f"Job {job.id}: running"


def test_a_backend_that_cannot_be_reached_is_exit_code_7(synth_ai: CommandLine) -> None:
    synth_ai.rehearsal.backend.fail_next("features", BackendUnreachable("no reply"), times=9)
    ran = synth_ai("train", "--config", "sft.toml")

    assert ran.code == 7
    assert "error: no reply\n" in ran.err


def test_an_option_of_the_other_kind_is_a_usage_error(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "rl.toml", "--dataset", "train.jsonl")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: --dataset ")


def test_on_a_terminal_the_body_of_a_dry_run_is_easy_to_read(
    synth_ai: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    ran = synth_ai("train", "--config", "sft.toml", "--dry-run")

    lines = terminal.shown().splitlines()
    assert ran.code == 0
    assert lines[:2] == ["{", '  "model": "Qwen/Qwen3-0.6B",']
    assert json.loads("".join(lines))["training_type"] == "sft_offline"


@pytest.mark.parametrize(("option", "code"), [([], 0), (["--strict"], 3), (["--allow-unknown"], 0)])
def test_what_an_unknown_key_is_can_be_chosen(synth_ai: CommandLine, option: list[str], code: int) -> None:
    Path("sft.toml").write_text(SFT + "[wholly_new]\nx = 1\n")

    assert synth_ai("train", "--config", "sft.toml", "--dry-run", *option).code == code


# -- for programs


def test_the_document_tells_of_every_config(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", "--config", "rl.toml", "--output", "json")

    first, second = ran.document["results"]
    assert (ran.code, ran.document["version"], ran.document["command"]) == (0, 1, "train")
    assert (first["config"], first["kind"], first["ok"]) == ("sft.toml", "sft", True)
    assert (first["status"], first["phase"], first["error"]) == ("succeeded", "succeeded", None)
    assert first["fine_tuned_model"].startswith("ft:")
    assert second["job_id"] == synth_ai.rehearsal.backend.jobs[1].id
    assert [json.loads(line)["event"] for line in ran.err.splitlines()] == ["created", "created"]


def test_an_error_of_a_config_stands_in_the_document_and_on_stderr(synth_ai: CommandLine) -> None:
    Path("sft.toml").write_text(SFT + "[compute]\ngpu_cuont = 1\n")
    ran = synth_ai("train", "--config", "sft.toml", "--output=json")

    (result,) = ran.document["results"]
    told = json.loads(ran.err)["error"]
    assert ran.code == ran.document["exit_code"] == told["exit_code"] == 3
    assert result["error"] == told
    assert told["problems"][0]["key"] == "compute.gpu_cuont"


def test_warnings_stand_in_the_document(synth_ai: CommandLine) -> None:
    Path("sft.toml").write_text(SFT + "[wholly_new]\nx = 1\n")
    ran = synth_ai("train", "--config", "sft.toml", "--output", "json", "--dry-run")

    assert any("wholly_new" in warning for warning in ran.document["warnings"])
    assert ran.document["results"][0]["payload"]["model"] == "Qwen/Qwen3-0.6B"
    assert ran.err == ""


def test_a_wrong_command_line_is_told_as_an_object_too(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--output", "json", "--idem", "K")

    assert (ran.code, ran.document["exit_code"]) == (2, 2)
    assert json.loads(ran.err)["error"]["message"] == "there is no option --idem; did you mean --idempotency?"


# -- ends that nobody wished for


def test_an_interrupted_run_says_what_became_of_the_job(synth_ai: CommandLine) -> None:
    synth_ai.change = raising(Interrupted(2), at_the=Created)
    ran = synth_ai("train", "--config", "rl.toml")

    (job,) = synth_ai.rehearsal.backend.jobs
    assert ran.code == 130
    assert ran.err.splitlines()[-2:] == [
        f"error: interrupted: job {job.id} goes on",
        f"  Watch it again with: synth-ai jobs watch {job.id} --type rl --backend https://api.usesynth.ai",
    ]


def test_a_run_that_nobody_can_read_ends_with_141_and_is_taken_up_by_the_next(synth_ai: CommandLine) -> None:
    synth_ai.change = raising(OutputClosed(), at_the=Created)
    cut = synth_ai("train", "--config", "sft.toml", "--no-poll")
    synth_ai.change = lambda train: train
    again = synth_ai("train", "--config", "sft.toml", "--no-poll")

    (job,) = synth_ai.rehearsal.backend.jobs
    assert (cut.code, again.code) == (141, 0)
    assert f"Job {job.id} exists already\n" in again.out


def test_a_bug_is_called_one(synth_ai: CommandLine) -> None:
    synth_ai.change = raising(ZeroDivisionError("division by zero"), at_the=Created)
    ran = synth_ai("train", "--config", "rl.toml")

    (job,) = synth_ai.rehearsal.backend.jobs
    assert ran.code == 1
    assert ran.err.splitlines()[-2:] == [
        f"error: a bug in synth-ai: ZeroDivisionError: division by zero; job {job.id} goes on",
        "  Please report it, with what the same command says under -v.",
    ]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "gone"])
def test_a_bug_shows_no_key(synth_ai: CommandLine, kept: bool) -> None:
    env = synth_ai.rehearsal.env
    path = env.put("keys.env", {"ENVIRONMENT_API_KEY": "from-a-file-bdfhgmrt"})

    def fail() -> None:
        if not kept:
            env.trouble[path] = LocalStateError("gone")
        raise ZeroDivisionError("from-a-file-bdfhgmrt / environment-rehearsal-wkxq")

    synth_ai.change = at(Created, fail)
    ran = synth_ai("train", "--config", "sft.toml", "--env-file", str(path), "-v")

    assert ran.code == 1
    assert "rehearsal-wkxq" not in ran.err
    assert ("file-bdfhgmrt" in ran.err) is not kept


def test_help_is_no_error(synth_ai: CommandLine) -> None:
    ran = synth_ai("--help")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("usage: synth-ai COMMAND")


# -- config


def test_a_good_config_is_told_with_kind_and_model(synth_ai: CommandLine) -> None:
    ran = synth_ai("config", "check", "sft.toml", "rl.toml")

    assert ran.code == 0, ran.err
    assert ran.out == (
        "Config OK (sft.toml, type=sft, model=Qwen/Qwen3-0.6B)\nConfig OK (rl.toml, type=rl, model=Qwen/Qwen3-4B)\n"
    )


@pytest.mark.parametrize(("options", "code"), [([], 3), (["--any-model"], 0)])
def test_a_config_for_a_machine_of_ones_own_is_good_when_that_is_said(
    synth_ai: CommandLine, options: list[str], code: int
) -> None:
    Path("tiny.toml").write_text(SFT.replace("Qwen/Qwen3-0.6B", "tiny"))

    assert synth_ai("config", "check", "tiny.toml", *options).code == code


def test_every_broken_config_is_told_and_the_good_ones_too(synth_ai: CommandLine) -> None:
    Path("broken.toml").write_text(SFT.replace("model", "modle"))
    ran = synth_ai("config", "check", "none.toml", "broken.toml", "sft.toml")

    assert ran.code == 3
    assert "none.toml: there is no such file" in ran.err
    assert "broken.toml:9: job.modle" in ran.err
    assert ran.out.startswith("Config OK (sft.toml")


def test_what_was_decided_for_the_user_is_noted(synth_ai: CommandLine) -> None:
    Path("sft.toml").write_text(SFT.replace('[algorithm]\ntype = "offline"\nmethod = "sft"\nvariety = "fft"\n', ""))
    ran = synth_ai("config", "check", "sft.toml")

    assert ran.code == 0
    assert ran.err.startswith("note: sft.toml has no [algorithm]")


def test_warnings_stand_beside_the_good_word(synth_ai: CommandLine) -> None:
    Path("sft.toml").write_text(SFT + "[wholly_new]\nx = 1\n")
    ran = synth_ai("config", "check", "sft.toml")

    assert ran.out.endswith(", 1 warning)\n")
    assert "warning: sft.toml:11: wholly_new" in ran.err


def test_options_come_before_what_the_file_says(synth_ai: CommandLine) -> None:
    ran = synth_ai("config", "check", "sft.toml", "--model", "Qwen/Qwen3-8B", "--set", "hyperparameters.n_epochs=0")

    assert ran.code == 3
    assert "--set hyperparameters.n_epochs=0: hyperparameters.n_epochs: " in ran.err


def test_configs_are_told_as_a_document(synth_ai: CommandLine) -> None:
    Path("sft.toml").write_text(SFT + "[wholly_new]\nx = 1\n")
    ran = synth_ai("config", "check", "none.toml", "sft.toml", "--output", "json")

    none, good = ran.document["files"]
    assert (ran.code, ran.document["command"]) == (3, "config check")
    assert (none["config"], none["ok"], none["error"]["type"]) == ("none.toml", False, "InvalidConfig")
    assert (good["ok"], good["kind"], good["warnings"][0]["key"]) == (True, "sft", "wholly_new")


@pytest.mark.parametrize("kind", ["rl", "sft"])
def test_the_schema_is_json(synth_ai: CommandLine, kind: str) -> None:
    ran = synth_ai("config", "schema", kind)

    assert ran.code == 0
    assert ran.document["$schema"] == "https://json-schema.org/draft/2020-12/schema"


# -- data


def test_a_good_dataset_is_told_in_one_line(synth_ai: CommandLine) -> None:
    ran = synth_ai("data", "check", "train.jsonl")

    assert ran.code == 0, ran.err
    assert re.fullmatch(r"Dataset OK \(rows=3, turns=6, .*\)\n", ran.out)


def test_a_bad_row_is_told_with_its_line(synth_ai: CommandLine) -> None:
    Path("train.jsonl").write_text(ROW + "{}\n" + ROW)
    ran = synth_ai("data", "check", "train.jsonl")

    assert ran.code == 3
    assert len([line for line in ran.err.splitlines() if "train.jsonl:2: " in line]) == 1


def test_only_the_first_rows_are_looked_at_when_asked_so(synth_ai: CommandLine) -> None:
    Path("train.jsonl").write_text(ROW + ROW + "{}\n")
    ran = synth_ai("data", "check", "train.jsonl", "--examples", "2")

    assert ran.code == 0, ran.err
    assert "rows=2" in ran.out


def test_datasets_are_told_as_a_document(synth_ai: CommandLine) -> None:
    ran = synth_ai("data", "check", "none.jsonl", "train.jsonl", "--output", "json")

    none, good = ran.document["files"]
    assert (ran.code, ran.document["command"]) == (3, "data check")
    assert (none["file"], none["ok"], none["error"]["type"]) == ("none.jsonl", False, "InvalidDataset")
    assert (good["ok"], good["rows"], good["turns"], good["roles"]) == (True, 3, 6, {"user": 3, "assistant": 3})


# -- jobs


@pytest.mark.parametrize("kind", ["sft", "rl"])
@pytest.mark.parametrize("option", [[], ["--type"]])
def test_a_job_can_be_looked_at_and_watched(synth_ai: CommandLine, kind: str, option: list[str]) -> None:
    synth_ai("train", "--config", f"{kind}.toml", "--no-poll")
    (job,) = synth_ai.rehearsal.backend.jobs
    option = [*option, kind] if option else []
    shown = synth_ai("jobs", "show", job.id, *option)
    watched = synth_ai("jobs", "watch", job.id, *option)

    assert shown.out.splitlines()[-1] == f"Job {job.id}: queued"
    assert watched.code == 0, watched.err
    first, *_, step, last = watched.err.splitlines()
    assert first == "job: The job is waiting."
    assert step.startswith("job: Step 4 of 4. train.")
    assert last == f"Job {job.id}: succeeded"
    assert [line for line in watched.out.splitlines() if line.startswith("[")] == [
        "[00:00] queued",
        "[00:10] running",
        "[00:30] succeeded",
    ]


def test_a_finished_job_is_shown_with_its_model_or_its_reason(synth_ai: CommandLine) -> None:
    synth_ai("train", "--config", "sft.toml")
    synth_ai.rehearsal.backend.world.trainer.failure = "out of memory"
    synth_ai("train", "--config", "sft.toml")
    good, bad = synth_ai.rehearsal.backend.jobs

    assert "Fine-tuned model: ft:" in synth_ai("jobs", "show", good.id).out
    assert "failed: " in synth_ai("jobs", "show", bad.id).out
    assert synth_ai("jobs", "show", bad.id).code == 0
    assert synth_ai("jobs", "watch", bad.id).code == 8


def test_a_job_is_told_as_a_document_and_a_watch_as_one_object_a_line(synth_ai: CommandLine) -> None:
    synth_ai("train", "--config", "sft.toml", "--no-poll")
    (job,) = synth_ai.rehearsal.backend.jobs
    watched = synth_ai("jobs", "watch", job.id, "--output", "json")
    shown = synth_ai("jobs", "show", job.id, "--output", "json")
    assert (watched.code, watched.err) == (0, "")

    *lines, result = map(json.loads, watched.out.splitlines())
    assert [line["status"] for line in lines if line["event"] == "status"] == ["queued", "running", "succeeded"]
    told = [line["seq"] for line in lines if line["event"] == "event"]
    assert told == list(range(1, len(told) + 1))
    assert told
    assert [line["step"] for line in lines if line["event"] == "metrics"] == [1, 2, 3, 4]
    assert lines[-1]["event"] == "ended"
    assert (result["event"], result["command"], result["exit_code"]) == ("result", "jobs watch", 0)
    assert result["jobs"] == [shown.document["job"]]
    assert shown.document["job"]["job_id"] == job.id
    assert shown.document["job"]["phase"] == "succeeded"


@pytest.fixture
def three_jobs(synth_ai: CommandLine) -> list[str]:
    for _ in range(3):
        synth_ai("train", "--config", "sft.toml", "--no-poll")
    return [job.id for job in synth_ai.rehearsal.backend.jobs]


def test_several_jobs_are_watched_together(synth_ai: CommandLine, three_jobs: list[str]) -> None:
    ran = synth_ai("jobs", "watch", *three_jobs, three_jobs[0])
    assert ran.code == 0, ran.err
    assert ran.out.count("Backend base") == 1
    assert [line for line in ran.out.splitlines() if line.startswith("[00:00]")] == [
        f"[00:00] {job} queued" for job in three_jobs
    ]
    assert [line for line in ran.err.splitlines() if line.startswith("Job ")] == [
        f"Job {job}: succeeded" for job in three_jobs
    ]


def test_the_exit_status_of_several_is_the_worst_of_theirs(synth_ai: CommandLine, three_jobs: list[str]) -> None:
    ran = synth_ai("jobs", "watch", *three_jobs, "--poll-timeout", "35", "--output", "json")
    assert ran.code == 9
    result = json.loads(ran.out.splitlines()[-1])
    assert [job.get("error", {}).get("type") for job in result["jobs"]] == [None, "GaveUpWaiting", "GaveUpWaiting"]
    assert [json.loads(line)["error"]["exit_code"] for line in ran.err.splitlines()] == [9, 9]

    synth_ai.rehearsal.backend.world.trainer.failure = "out of memory"
    assert synth_ai("jobs", "watch", *three_jobs).code == 8


def test_on_a_terminal_a_chart_is_drawn(synth_ai: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    monkeypatch.setenv("TERM", "xterm")
    ran = synth_ai("train", "--config", "rl.toml", "--stream-format", "chart")
    shown = terminal.shown()
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if line.startswith("[")] == [
        "[00:00] queued", "[00:10] running", "[00:30] succeeded",
    ]  # fmt: skip
    assert "train.reward_mean" in shown
    assert "step 4/4" in shown
    assert "job: " not in shown


def test_off_a_terminal_a_chart_is_lines(synth_ai: CommandLine) -> None:
    ran = synth_ai("train", "--config", "sft.toml", "--stream-format", "chart")
    assert (ran.code, "\x1b" in ran.out + ran.err) == (0, False)
    assert "job: Step 4 of 4. train.loss=0.5" in ran.err.splitlines()


def test_a_job_that_is_not_there_is_exit_code_6(synth_ai: CommandLine) -> None:
    assert synth_ai("jobs", "show", "job_none").code == 6
