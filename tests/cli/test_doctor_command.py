"""`doctor` on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.commands import CommandLine
from synth_train.adapters import this_machine
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.this_machine import ThisMachine
from synth_train.domain.model.errors import BackendUnreachable, KeyRefused
from synth_train.version import install_command


@pytest.fixture
def synth_ai(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTH_AI_HOME", str(tmp_path / "home"))
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(capsys)


def test_each_point_is_a_line_and_keys_are_masked(synth_ai: CommandLine, tmp_path: Path) -> None:
    ran = synth_ai("doctor", "--backend", "https://backend.test", "--task-url", "https://task.test")
    assert (ran.code, ran.err) == (0, "")
    assert "ok       synth-api-key: sk-...kwy (SYNTH_API_KEY in the process environment)" in ran.out.splitlines()
    assert "ok       backend: https://backend.test answers (from --backend)" in ran.out.splitlines()
    assert f"ok       home: {tmp_path / 'home'}" in ran.out.splitlines()
    assert "sk-rehearsal-qvzjxkwy" not in ran.out


def test_the_findings_can_be_had_as_a_document(synth_ai: CommandLine) -> None:
    document = synth_ai("doctor", "--output", "json").document
    assert (document["command"], document["exit_code"]) == ("doctor", 0)
    assert {finding["outcome"] for finding in document["findings"]} <= {"ok", "skipped", "warning"}


def test_the_exit_code_is_that_of_the_first_failure(synth_ai: CommandLine) -> None:
    synth_ai.rehearsal.backend.fail_next("features", BackendUnreachable("no route"))
    assert synth_ai("doctor").code == 7
    synth_ai.rehearsal.backend.fail_next("list_jobs", KeyRefused("401"))
    assert synth_ai("doctor").code == 4
    synth_ai.rehearsal.env = InMemoryEnv({"ENVIRONMENT_API_KEY": "wrong-environment-key"})
    synth_ai.rehearsal.task_app.keys = set()
    assert synth_ai("doctor", "--task-url", "https://task.test").code == 5


# The machine


def test_proxies_are_told_without_their_logins(tmp_path: Path) -> None:
    environ = {"https_proxy": "http://me:secret@proxy:3128", "NO_PROXY": "", "SSL_CERT_FILE": "/nowhere.pem"}
    machine = ThisMachine(tmp_path / "not" / "there", environ).look(devices=False)
    assert dict(machine.proxies) == {"https_proxy": "http://proxy:3128"}
    assert dict(machine.certificates) == {"SSL_CERT_FILE=/nowhere.pem": False}
    assert machine.packages["msgspec"]
    assert (machine.home_fault, machine.devices) == ("", None)
    assert machine.free_disk > 0
    assert list(tmp_path.iterdir()) == []


def test_what_training_lacks_is_named_with_the_command_that_fits_this_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"torch", "transformers", "peft", "accelerate", "tensorboard"}
    monkeypatch.setattr(this_machine, "installed_version", lambda name: "1.0" if name in there else None)
    machine = ThisMachine(tmp_path, {}).look(devices=False)
    assert machine.training_lacks == ("trl",)
    assert machine.training_remedy == install_command("local")


def test_a_folder_that_is_none_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in ThisMachine(tmp_path / "file", {}).look(devices=False).home_fault


def test_devices_come_from_torch_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert ThisMachine(tmp_path, {}).look(devices=True).devices == ()
    torch = SimpleNamespace(
        cuda=SimpleNamespace(device_count=lambda: 1, get_device_name=lambda index: f"GPU {index}"),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert ThisMachine(tmp_path, {}).look(devices=True).devices == ("cuda:0 (GPU 0)", "mps", "cpu")
