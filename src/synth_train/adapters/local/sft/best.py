"""The best weights of a run so far."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from msgspec import Struct
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from synth_train.adapters.local.home import sync_folder


class Best(Struct, frozen=True):
    """Of which look the kept weights are."""

    step: int
    value: float


class BestWeights:
    """The weights, of those that are trained, at the best look at the held-out rows."""

    def __init__(self, file: Path, *, greater_is_better: bool) -> None:
        self._file = file
        self._sign = 1.0 if greater_is_better else -1.0
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
        if self.best is not None and self._sign * value <= self._sign * self.best.value:
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

    def put_back(self, model: nn.Module) -> Best:
        """Give the model the weights of the best look, of which there was one."""
        assert self.best is not None
        with safe_open(self._file, framework="pt") as kept, torch.no_grad():
            for name, weight in _trained(model):
                weight.copy_(kept.get_tensor(name))
        return self.best

    def remove(self) -> None:
        """Forget them."""
        self._file.unlink(missing_ok=True)


def _trained(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)
