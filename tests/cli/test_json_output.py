"""What `--output json` writes is what its schema says, command by command, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.commands import RL, ROW, SFT, CommandLine, Ran
from support.sample_app import SAMPLE
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.domain.model.errors import BackendUnreachable
from synth_train.entrypoints.cli.parser import COMMANDS, JOB_ACTIONS

KEY = "q7vzhk3x9pwmtj5dbnrswxyz"


@pytest.fixture
def synth_ai(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    Path("sft.toml").write_text(SFT)
    Path("rl.toml").write_text(RL)
    Path("bad.toml").write_text("type = 3\n")
    Path("train.jsonl").write_text(ROW)
    Path("bad.jsonl").write_text("{}\n")
    return CommandLine(capsys)


@pytest.fixture
def schema(synth_ai: CommandLine) -> dict[str, Any]:
    return synth_ai("config", "schema", "output").document


def strict(schema: Any) -> Any:
    """The schema without the freedom to add fields, which is for readers and not for us."""
    if isinstance(schema, dict):
        closed = {name: strict(value) for name, value in schema.items()}
        return closed | {"additionalProperties": False} if "properties" in closed else closed
    return [strict(one) for one in schema] if isinstance(schema, list) else schema


def check(ran: Ran, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """All objects on both streams, each of them as the schema says."""
    objects: list[dict[str, Any]] = [json.loads(line) for line in [*ran.out.splitlines(), *ran.err.splitlines()]]
    validator = Draft202012Validator(strict(schema))
    for one in objects:
        name = "stopped" if {"command", "error"} <= one.keys() else one.get("command") or _line(one.get("event"))
        only = strict(schema["$defs"][name.replace(" ", "-").replace("_", "-")])
        told = Draft202012Validator({**only, "$defs": strict(schema["$defs"])})
        assert not [f"{error.json_path}: {error.message}" for error in told.iter_errors(one)], one
        assert validator.is_valid(one), one
    return objects


def _line(event: str | None) -> str:
    if event is None:
        return "failure"
    return event if event == "created" else f"watch-{event}"


def test_the_schema_is_one(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    listed = [reference["$ref"].rpartition("/")[2] for reference in schema["oneOf"]]
    assert len(set(listed)) == len(listed)
    assert {*listed, "kind", "phase", "problem", "error", "job", "event", "point", "finding"} == set(schema["$defs"])


def test_every_command_with_json_is_in_the_schema(schema: dict[str, Any]) -> None:
    commands = {f"jobs-{action}" for action in ("list", *JOB_ACTIONS)} | {
        "config-check",
        "config-models",
        "data-check",
        "task-app-check",
    }
    commands |= set(COMMANDS) - {"config", "data", "jobs", "task-app", "serve", "completion"}
    assert commands == {
        name for name, one in schema["$defs"].items() if "const" in one.get("properties", {}).get("command", {})
    }


@pytest.mark.parametrize(
    "argv",
    [
        ("train", "--config", "sft.toml"),
        ("train", "--config", "rl.toml", "--config", "bad.toml"),
        ("train", "--config", "sft.toml", "--no-poll"),
        ("train", "--config", "sft.toml", "--dry-run"),
        ("train", "--config", "sft.toml", "--poll-timeout", "12"),
        ("train", "--config", "nowhere.toml", "-v"),
        ("config", "check", "sft.toml", "rl.toml", "bad.toml"),
        ("config", "models"),
        ("data", "check", "train.jsonl", "bad.jsonl", "nowhere.jsonl"),
        ("jobs", "list"),
        ("jobs", "show", "job_none"),
        ("doctor",),
        ("task-app", "check", "http://127.0.0.1:9"),
        ("train", "--xyzzy"),
    ],
    ids=" ".join,
)
def test_a_command_writes_what_its_schema_says(
    synth_ai: CommandLine, schema: dict[str, Any], argv: tuple[str, ...]
) -> None:
    ran = synth_ai(*argv, "--output", "json")
    objects = check(ran, schema)
    assert objects
    assert {one["exit_code"] for one in objects if "command" in one} <= {ran.code}


@pytest.mark.parametrize(
    ("argv", "command", "code"),
    [
        (("trian",), None, 2),
        (("train", "--xyzzy"), None, 2),
        (("train", "--config", "sft.toml", "--env-file", "nowhere.env"), "train", 2),
        (("config", "check"), None, 2),
        (("data", "check"), None, 2),
        (("jobs", "list", "--backend", "nowhere"), "jobs list", 2),
        *((("jobs", action, "job_none"), f"jobs {action}", 6) for action in JOB_ACTIONS),
        (("task-app", "check", "nowhere"), "task-app check", 2),
        (("doctor", "--xyzzy"), None, 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_error_that_ends_a_command_stands_in_the_one_document_and_on_stderr(
    synth_ai: CommandLine, schema: dict[str, Any], argv: tuple[str, ...], command: str | None, code: int
) -> None:
    ran = synth_ai(*argv, "--output", "json")
    document, told = check(ran, schema)

    assert (ran.code, document["exit_code"], document["command"]) == (code, code, command)
    assert document["error"] == told["error"]


@pytest.mark.parametrize("failure", ["", "out of memory"])
@pytest.mark.parametrize("action", JOB_ACTIONS)
def test_what_is_done_with_a_job_is_written_as_its_schema_says(
    synth_ai: CommandLine, schema: dict[str, Any], action: str, failure: str
) -> None:
    world = synth_ai.rehearsal.backend.world
    world.trainer.failure = failure
    synth_ai("train", "--config", "sft.toml", *(() if action in ("watch", "cancel") else ("--poll",)))
    [job] = synth_ai.rehearsal.backend.jobs
    if not failure:
        world.results.made[job.id] = {"config.json": b"{}"}
    check(synth_ai("jobs", action, job.id, "--output", "json"), schema)
    check(synth_ai("jobs", "list", "--output", "json"), schema)


def test_every_line_of_a_watch_is_as_the_schema_says(synth_ai: CommandLine, schema: dict[str, Any]) -> None:
    for _ in range(2):
        synth_ai("train", "--config", "sft.toml", "--no-poll")
    jobs = [job.id for job in synth_ai.rehearsal.backend.jobs]
    synth_ai.rehearsal.backend.fail_next("events", BackendUnreachable("cut"))
    first = synth_ai("jobs", "watch", jobs[0], "--poll-timeout", "1", "--output", "json")
    assert check(first, schema)[-1]["error"]["type"] == "GaveUpWaiting"
    objects = check(synth_ai("jobs", "watch", *jobs, "--poll-timeout", "35", "--output", "json"), schema)
    assert {"status", "event", "metrics", "ended", "result"} <= {one.get("event") for one in objects}
    result = next(one for one in objects if one.get("event") == "result")
    assert result["exit_code"] in (0, 9)


@pytest.fixture
def url() -> Iterator[str]:
    app = SAMPLE.serve("127.0.0.1", 0, (KEY,))
    app.RequestHandlerClass.log_message = lambda *_: None
    thread = Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{app.server_port}"
    app.shutdown()
    thread.join()
    app.server_close()


def test_the_check_of_a_task_app_is_written_as_its_schema_says(
    synth_ai: CommandLine, schema: dict[str, Any], url: str
) -> None:
    synth_ai.rehearsal.env = InMemoryEnv({"ENVIRONMENT_API_KEY": KEY})
    [document] = check(synth_ai("task-app", "check", url, "--output", "json"), schema)
    assert len(document["findings"]) == 44
