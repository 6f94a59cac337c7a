"""A worker of the embedded backend whose trainer obeys the job: its `config.play` says what it does.

Run as a program, as the real worker is. In the folder of a job it leaves `pids`, a line for each time it was begun.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import msgspec

from synth_train.adapters.local import worker
from synth_train.adapters.local.home import whole
from synth_train.adapters.local.trainers import Bench
from synth_train.domain.model.hosting import Happening, Note, Step, Task, Tick, TrainingFailed
from synth_train.ports.hosting import Trainer


class Play(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a job does."""

    steps: int = 2
    pause: float = 0.0
    """Seconds before each step, in which it ticks."""
    die_at: int = 0
    """Kill itself with SIGKILL before this step, each time it is begun."""
    deaf_at: int = 0
    """Sleep for a minute in this step, as native code does: without a tick, and without hearing anything."""
    child: bool = False
    """Start a process that would outlive its parent."""
    error: str = ""
    """`failed`, `bug`, or `space`."""
    say: str = ""
    """Printed, to the log."""
    tell_key: bool = False
    """Tell in an event how the environment key ends: the worker has it."""


class ObedientTrainer(Trainer):
    """Trainer that does as its job says, goes on from checkpoints, and makes a model."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def train(self, task: Task) -> Generator[Happening, None, None]:
        folder = self._bench.folder(task.job)
        play = _play(task.job.order.body)
        with (folder.path / "pids").open("a") as pids:
            pids.write(f"{os.getpid()}\n")
        sys.stdout.write(f"{play.say}\n")
        if play.child:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            (folder.path / "child").write_text(str(child.pid))
        if play.tell_key:
            yield Note(type="key", message=self._bench.keys(task.job).primary.reveal()[-4:])
        if task.training is not None:
            self._bench.data(task.training).read_bytes()
        done = max((int(path.name) for path in folder.checkpoints.glob("*") if path.name.isdigit()), default=0)
        for step in range(done + 1, play.steps + 1):
            until = time.monotonic() + play.pause
            while time.monotonic() < until:
                time.sleep(0.02)
                yield Tick()
            if step == play.die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == play.deaf_at:
                time.sleep(60)
            yield Step(step=step, total=play.steps, points={"train.loss": 1 / step})
            with whole(folder.checkpoints / str(step)) as place:
                (place / "state").write_text(str(step))
        if play.error == "failed":
            raise TrainingFailed("the loss is not a number")
        if play.error == "bug":
            raise KeyError(os.environ.get("ENVIRONMENT_API_KEY", "a bug"))
        if play.error == "space":
            raise OSError(28, "No space left on device")
        with whole(folder.model) as place:
            (place / "config.json").write_text("{}")


def _play(body: bytes) -> Play:
    request: Any = msgspec.json.decode(body)
    config = request.get("data", request.get("metadata", {})).get("config", {})
    return msgspec.convert(config.get("play", {}), Play)


if __name__ == "__main__":
    sys.exit(worker.main(trainer=ObedientTrainer, beat=0.1))
