"""Running commands in this process, on a backend in memory and on real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from synth_train.adapters.in_memory.rehearsal import Rehearsal
from synth_train.adapters.stdin_prompt import NobodyToAsk
from synth_train.domain.usecases.train import Train
from synth_train.entrypoints.cli import main
from synth_train.entrypoints.wiring import App, build_app, rehearsed
from synth_train.ports.progress import ProgressPort

SFT = """\
type = "sft"

[algorithm]
type = "offline"
method = "sft"
variety = "fft"

[job]
model = "Qwen/Qwen3-0.6B"
data = "train.jsonl"
"""

RL = """\
type = "rl"

[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"

[model]
base = "Qwen/Qwen3-4B"

[services]
task_url = "https://task.example"
"""

ROW = '{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}\n'


SOURCES = Path(__file__).parents[2] / "src"


def python(code: str, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own, which must succeed."""
    # Not counted for coverage, which would load modules of its own.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    env["PYTHONPATH"] = str(SOURCES)
    return subprocess.run(
        [sys.executable, "-c", code, *argv], cwd=cwd, env=env, capture_output=True, text=True, check=True
    )


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document: dict[str, Any] = json.loads(self.out)
        return document


@dataclass
class CommandLine:
    """`synth-ai` on a `Rehearsal`; `change` may put other ports in its place."""

    capsys: pytest.CaptureFixture[str]
    rehearsal: Rehearsal = field(default_factory=Rehearsal)
    change: Callable[[Train], Train] = field(default=lambda train: train)

    def __call__(self, *argv: str) -> Ran:
        def build(progress: ProgressPort) -> App:
            train = rehearsed(build_app(progress).train, self.rehearsal)
            return App(self.change(replace(train, prompt=NobodyToAsk())))

        code = main(argv, build=build)
        seen = self.capsys.readouterr()
        return Ran(code, seen.out, seen.err)
