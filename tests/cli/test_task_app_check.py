"""`task-app check` on the sample app, and on one that is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from support.commands import CommandLine
from support.sample_app import SAMPLE
from synth_train.adapters.http.scripted_policy import LoopbackPolicy
from synth_train.adapters.in_memory.env import InMemoryEnv

KEY = "q7vzhk3x9pwmtj5dbnrswxyz"


@pytest.fixture
def synth_ai(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    synth_ai = CommandLine(capsys)
    synth_ai.rehearsal.env = InMemoryEnv({"ENVIRONMENT_API_KEY": KEY})
    return synth_ai


@pytest.fixture
def url(capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    app = SAMPLE.serve("127.0.0.1", 0, (KEY,))
    app.RequestHandlerClass.log_message = lambda *_: None
    thread = Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{app.server_port}"
    app.shutdown()
    thread.join()
    app.server_close()


def test_the_sample_app_keeps_every_rule(synth_ai: CommandLine, url: str) -> None:
    ran = synth_ai("task-app", "check", url)
    assert (ran.code, ran.err) == (0, "")
    *lines, summary = ran.out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert summary.startswith("Task app: 44 ok, 0 failed, 0 warnings; the first rollout took 0.")


def test_the_app_of_the_page_about_task_apps_keeps_every_rule(
    synth_ai: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "task-app.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("ENVIRONMENT_API_KEY", KEY)
    names: dict[str, Any] = {"__name__": "task_app"}
    exec(compile(source, "task_app.py", "exec"), names)
    names["App"].log_message = lambda *_: None
    with names["ThreadingHTTPServer"](("127.0.0.1", 0), names["App"]) as app:
        thread = Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        ran = synth_ai("task-app", "check", f"http://127.0.0.1:{app.server_port}")
        app.shutdown()
        thread.join()

    *lines, summary = ran.out.splitlines()
    assert (ran.code, {line.split()[0] for line in lines}) == (0, {"ok"}), ran.out
    assert summary.startswith("Task app: 44 ok, 0 failed, 0 warnings")


def test_the_findings_can_be_had_as_a_document(synth_ai: CommandLine, url: str) -> None:
    ran = synth_ai("task-app", "check", url, "--output", "json")
    document = ran.document
    assert (ran.code, document["command"], document["task_app"]) == (0, "task-app check", url)
    assert document["rollout_seconds"] == 0.0, "on the clock of a rehearsal"
    assert {"rule": "health", "outcome": "ok", "what": None, "remedy": None} in document["findings"]


def test_a_key_that_the_app_does_not_take_is_exit_code_5_and_is_not_shown(synth_ai: CommandLine, url: str) -> None:
    synth_ai.rehearsal.env = InMemoryEnv({"ENVIRONMENT_API_KEY": "another-key-of-ours-qvzj"})
    ran = synth_ai("task-app", "check", url)
    assert ran.code == 5
    assert "failed   health: GET " in ran.out
    assert "another-key" not in ran.out + ran.err


def test_an_app_that_is_not_there_is_one_finding_with_a_remedy(synth_ai: CommandLine) -> None:
    ran = synth_ai("task-app", "check", "http://127.0.0.1:9")
    assert ran.code == 5
    finding, remedy, summary = ran.out.splitlines()
    assert finding.startswith("failed   health: GET http://127.0.0.1:9/health: the connection was refused")
    assert remedy.startswith("         Nothing listens there. Start the task app")
    assert summary == "Task app: 0 ok, 1 failed, 0 warnings"


def test_without_a_key_nothing_is_asked(synth_ai: CommandLine) -> None:
    synth_ai.rehearsal.env = InMemoryEnv({})
    ran = synth_ai("task-app", "check", "http://127.0.0.1:9")
    assert ran.code == 4
    assert "ENVIRONMENT_API_KEY not found" in ran.err


def test_rollouts_are_asked_for_with_the_names_of_a_config(synth_ai: CommandLine, url: str) -> None:
    Path("rl.toml").write_text('[rollout]\nenv_name = "sums"\npolicy_name = "p"\n')
    assert synth_ai("task-app", "check", url, "--config", "rl.toml").code == 0
    Path("bad.toml").write_text("rollout = 3\n")
    ran = synth_ai("task-app", "check", url, "--config", "bad.toml")
    assert (ran.code, ran.err) == (3, "error: bad.toml: rollout is no table\n")


def test_an_app_elsewhere_gets_no_rollouts(synth_ai: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synth_train.domain.usecases.inspect_task_app._Look.routes", lambda self: None)
    ran = synth_ai("task-app", "check", "https://task.example")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "Task app: 0 ok, 0 failed, 0 warnings, 1 skipped"


# The policy


def post(url: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.putrequest("POST", path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    reply = connection.getresponse()
    content = json.loads(reply.read())
    connection.close()
    return reply.status, content


def test_the_policy_answers_everything_and_remembers_it() -> None:
    with LoopbackPolicy().serving() as policy:
        good = post(
            policy.url, "/a/v1/chat/completions?cid=x", b'{"model": "m"}', {"Content-Length": "14", "X-Check": "1"}
        )
        bad = post(policy.url, "/failing/v1", b"no json", {"Content-Length": "7"})
        endless = post(policy.url, "/b", b"", {"Content-Length": "chunked"})
        asked = policy.asked()
    assert (good[0], good[1]["model"], bad[0], endless[0]) == (200, "m", 500, 200)
    assert [(one.path, one.query, one.body) for one in asked] == [
        ("/a/v1/chat/completions", {"cid": "x"}, {"model": "m"}),
        ("/failing/v1", {}, None),
        ("/b", {}, None),
    ]
    assert asked[0].headers["x-check"] == "1"
