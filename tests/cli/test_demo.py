"""`make demo` and `make demo-rl`: what examples/demo.py prints, on shortened configs."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module, with a copy of the examples and a home of its own."""
    examples = tmp_path / "examples"
    shutil.copytree(EXAMPLES, examples, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))  # its commands run in another folder
    spec = importlib.util.spec_from_file_location("demo", examples / "demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shorten(config: Path, *changes: tuple[str, str]) -> None:
    """Write other values over those of the example."""
    text = config.read_text(encoding="utf-8")
    for key, value in changes:
        text, times = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert times == 1, key
    config.write_text(text, encoding="utf-8")


def needs_local() -> None:
    pytest.importorskip("trl", reason="the extra [local] is not installed")


def test_chats_are_trained_on_and_asked_about_before_and_after(
    demo: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_local()
    shorten(demo.EXAMPLES / "sft" / "tiny.toml", ("n_epochs", "2"), ("samples", "2"))
    assert demo.main(["sft"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "$ SYNTH_AI_HOME=.demo synth-ai train --config examples/sft/tiny.toml --backend local --poll-interval 1\n"
    )
    assert "] succeeded\n" in said
    assert re.findall(r"Step (\d+) of 12: loss", said) == [str(step) for step in range(1, 13)]
    [asked] = re.findall(
        r"not trained on:\n((?:  \"Name the capital of \w+\.\"\n    before  \".*\"\n    after   \".*\"\n)+)", said
    )
    assert asked.count("before") == 2
    [(first, last)] = re.findall(r"^training loss (\S+) -> (\S+)$", said, re.MULTILINE)
    assert float(last) < float(first)


def test_a_task_app_is_started_and_the_reward_told(demo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    needs_local()
    shorten(demo.EXAMPLES / "rl" / "brackets.toml", ("iterations_per_epoch", "2"))
    assert demo.main(["rl"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("$ python examples/rl/task_app.py --task brackets --port 0 &\nTask app brackets on http://")
    assert "Task app healthy\n" in said
    assert re.findall(r"Iteration (\d) of 2: mean reward", said) == ["1", "2"]
    assert re.search(r"^mean reward 0\.\d\d -> 0\.\d\d$", said, re.MULTILINE)
    assert "/rollout" in (demo.HOME / "task_app.log").read_text(encoding="utf-8")


def test_without_the_extra_the_demo_says_so_and_takes_a_backend_in_memory(
    demo: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "NEEDED", ("json", "no_such_package"))
    monkeypatch.setitem(demo.DEMOS, "in-memory", lambda: 42)
    assert demo.main(["sft"]) == 42
    assert "of which is not installed here: no_such_package.\n" in capsys.readouterr().out
    assert demo.main(["rl"]) == 2
    monkeypatch.setattr(demo.sys, "version_info", (3, 10, 13))
    assert demo.main(["rl"]) == 2
    assert "this is 3.10.13: make clean, then make demo PYTHON=python3.12." in capsys.readouterr().out


def test_the_demo_in_memory_says_that_it_trains_nothing(demo: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("litestar", reason="the extra [serve] is not installed")
    assert demo.main(["in-memory"]) == 0
    said = capfd.readouterr().out
    assert said.startswith("This one trains no model: its backend lives in memory, and its trainer only takes time.\n")
    assert "] succeeded\n" in said


def test_of_a_long_run_some_twenty_steps_are_shown_and_the_end_is_a_mean(demo: ModuleType) -> None:
    run = demo.Run()
    lines = [f"job: Step {step} of 400: loss {4 - step / 100:.4f}. train.loss=1" for step in range(1, 401)]
    shown = [line for line in map(run.see, lines) if line]
    assert (shown[0], shown[-1]) == ("job: Step 1 of 400: loss 3.9900", "job: Step 400 of 400: loss 0.0000")
    assert len(shown) == 21
    first, last = run.course
    assert first == 3.99
    assert last == pytest.approx(0.02)
