"""What goes wrong in torch and on the disk, as the job's reason."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError

from synth_train.adapters.local.home import no_space
from synth_train.adapters.local.models import Method
from synth_train.adapters.local.sft.settings import Settings
from synth_train.domain.model.hosting import TrainingFailed


class Progress(Protocol):
    """How far a run has come."""

    @property
    def step(self) -> int:
        """The step that was done last."""
        ...


@contextmanager
def worded(settings: Settings | None, progress: Progress | None, folder: Path) -> Iterator[None]:
    """Turn what a user can do something about into words; let the rest, which is a bug, out as it is.

    Args:
        settings: of the run, once it has begun.
        folder: where the job keeps what it makes.

    Raises:
        TrainingFailed: the memory or the disk does not suffice, or the job's folder cannot be used.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _out_of_memory(settings, progress) from error
    except RuntimeError as error:
        text = str(error)
        if "not enough memory" in text or "can't allocate memory" in text or "out of memory" in text:
            raise _out_of_memory(settings, progress) from error
        if _is_full(folder):  # torch says "file write failed" for it
            raise _no_space(folder) from error
        raise
    except SafetensorError as error:
        raise _no_space(folder) if "No space left" in str(error) else _unwritable(folder, str(error)) from error
    except OSError as error:
        if no_space(error):
            raise _no_space(folder) from error
        if error.errno is None:
            raise
        raise _unwritable(folder, error.strerror or str(error)) from error


_SPARE = 16 * 2**20
"""Bytes. A disk with less than this counts as full when something could not be written."""


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _SPARE
    except OSError:
        return False


def _no_space(folder: Path) -> TrainingFailed:
    return TrainingFailed(f"there is no space left on the disk of {folder}; free some and run the command again")


def _unwritable(folder: Path, what: str) -> TrainingFailed:
    return TrainingFailed(f"what the job keeps in {folder} cannot be written or read: {what}")


def _out_of_memory(settings: Settings | None, progress: Progress | None) -> TrainingFailed:
    if settings is None or progress is None:
        return TrainingFailed("the memory does not suffice for this model; take a smaller one")
    rows = settings.batch.at_once
    remedies = ["a smaller hyperparameters.sequence_length"]
    if rows > 1:
        remedies.insert(0, "a smaller hyperparameters.per_device_batch (gradient_accumulation_steps makes up for it)")
    if not settings.recompute:
        remedies.append("parallelism.activation_checkpointing = true")
    if settings.method is Method.FULL:
        remedies.append('training.mode = "lora"')
    at = f"step {progress.step + 1}"
    return TrainingFailed(f"the memory did not suffice at {at}, with {rows} rows at once; try {', '.join(remedies)}")
