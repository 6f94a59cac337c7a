"""The other side of a speaker, without a model: the last message says what it does.

Run as a program, as the real one is. A model named `unknown`, `unusable` or `dying` ends as such a one would; one named
`slow` is loaded when the file `go` is in the folder. In the folder it leaves `pids`, a line for each time it was begun.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import msgspec
from msgspec import Raw

from synth_train.adapters.local import speaking
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.speaking import Question, Said, Voice
from synth_train.domain.model.hosting import TrainingFailed


class Puppet(Voice):
    """Waits for the file that it is told to wait for, dies, breaks, or says how many others it is answering."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, question: Question) -> Said:
        told = msgspec.json.decode(question.body)["messages"][-1]["content"]
        if told == "die":
            os._exit(9)
        if told == "break":
            raise RuntimeError(told)
        if told == "refuse":
            return Said(id=question.id, status=400, code="unsupported", message="not that")
        if told.startswith("wait for "):
            (self._folder / f"{told.rpartition(' ')[2]}.asked").touch()
            appears(self._folder / told.rpartition(" ")[2])
        sys.stdout.write("libraries print\n")  # to the log, never in between
        return Said(id=question.id, body=Raw(msgspec.json.encode({"said": told, "thread": threading.active_count()})))


def appears(path: Path) -> None:
    """Returns when there is such a file."""
    while not path.exists():
        time.sleep(0.01)


def loaded(home: LocalHome, model: str) -> Voice:
    """In place of loading."""
    with (home.path / "pids").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if model == "unusable":
        raise TrainingFailed("it has no chat template")
    if model == "broken":
        raise RuntimeError("loading")
    if model == "dying":
        os._exit(9)
    if model == "slow":
        appears(home.path / "go")
    return Puppet(home.path)


if __name__ == "__main__":
    speaking._loaded = loaded
    sys.exit(speaking.main())
