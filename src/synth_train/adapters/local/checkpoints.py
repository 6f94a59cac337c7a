"""Checkpoints of a job: complete, or not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from synth_train.adapters.local.home import whole

_NAME = "step-"


class Checkpoint(Struct, frozen=True):
    """A complete one."""

    step: int
    path: Path


class Checkpoints:
    """The checkpoints of one run, of which the newest is kept.

    One is filled under another name and gets its own when it is on the disk whole: what has the name is complete,
    whatever happened meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def newest(self) -> Checkpoint | None:
        """The one to go on from."""
        return max(self._all(), key=lambda checkpoint: checkpoint.step, default=None)

    @contextmanager
    def writing(self, step: int) -> Iterator[Path]:
        """A folder to fill, which becomes the newest checkpoint when the block ends, and nothing when it raises."""
        self._folder.mkdir(parents=True, exist_ok=True)
        before = self._all()
        with whole(self._folder / f"{_NAME}{step}") as aside:
            yield aside
        for checkpoint in before:
            if checkpoint.step != step:
                shutil.rmtree(checkpoint.path)

    def remove(self) -> None:
        """Forget all: they are of no use to a job that is over, and larger than its model."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _all(self) -> list[Checkpoint]:
        if not self._folder.is_dir():
            return []
        return [
            Checkpoint(int(path.name.removeprefix(_NAME)), path)
            for path in self._folder.iterdir()
            if path.name.startswith(_NAME) and path.name.removeprefix(_NAME).isdigit()
        ]
