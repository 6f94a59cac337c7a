"""What of a run outlives its process: checkpoints to go on from, and the best weights so far."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from msgspec import Struct
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from synth_train.adapters.local.home import sync_folder, whole

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


class Best(Struct, frozen=True):
    """Of which look the kept weights are."""

    step: int
    value: float


class BestWeights:
    """The weights, of those that are trained, at the best look at the held-out rows."""

    def __init__(self, file: Path, better: Callable[[float, float], bool]) -> None:
        """
        Args:
            better: whether the first value is better than the second.
        """
        self._file = file
        self._better = better
        self.best: Best | None = None

    def take_up(self, step: int) -> None:
        """Go on after `step`. What was kept later than that will come again."""
        if self._file.exists():
            with safe_open(self._file, framework="pt") as kept:
                told = kept.metadata()
            best = Best(int(told["step"]), float(told["value"]))
            self.best = best if best.step <= step else None

    def look(self, step: int, value: float, model: nn.Module) -> None:
        """Keep the weights if this is the best look so far."""
        if self.best is not None and not self._better(value, self.best.value):
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        aside = self._file.with_name(f"{self._file.name}.new")
        weights = {name: weight.detach().contiguous() for name, weight in _trained(model)}
        save_file(weights, aside, metadata={"step": str(step), "value": repr(value)})
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(self._file)
        sync_folder(self._file.parent)
        self.best = Best(step, value)

    def put_back(self, model: nn.Module) -> None:
        """Give the model the weights of the best look."""
        with safe_open(self._file, framework="pt") as kept, torch.no_grad():
            for name, weight in _trained(model):
                weight.copy_(kept.get_tensor(name))

    def remove(self) -> None:
        """Forget them."""
        self._file.unlink(missing_ok=True)


def _trained(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)
