"""What a trainer on this machine works with, and which trainer a job gets.

A trainer is a `ports.hosting.Trainer`, made with a `Bench`:

    class SftTrainer(Trainer):
        def __init__(self, bench: Bench) -> None: ...
        def train(self, task: Task) -> Generator[Happening, None, None]: ...

It yields `Step` for the points of a step, `Note` for anything else worth an event (its type without the kind of the
job: `validation.summary`), and `Tick` every few seconds when there is nothing to tell. It raises `TrainingFailed` with
words for the job's reason. The generator is closed when the job is to stop: it has `CANCEL_GRACE` seconds for that,
then its process is ended. Checkpoints and the model are filled with `home.whole`. When `task.job.claims` is above 1 it
goes on from the last checkpoint. What it prints goes to the job's `log.txt`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import JobFolder, LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.domain.model.hosting import Happening, Job, StoredFile, Task, TrainingFailed
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.ports.hosting import Trainer

CANCEL_GRACE = 5.0
"""Seconds that a trainer has to come back when its job is to stop."""

_TRAINERS = {
    Kind.SFT: ("synth_train.adapters.local.sft", "SftTrainer"),
    Kind.RL: ("synth_train.adapters.local.rl", "RlTrainer"),
}


@dataclass(frozen=True)
class Bench:
    """What a trainer has at hand."""

    home: LocalHome
    blobs: DiskBlobStore
    key_ring: KeyRing

    def folder(self, job: Job) -> JobFolder:
        """The folder of a job, which is there when its trainer begins."""
        return self.home.job(job.id)

    def data(self, file: StoredFile) -> Path:
        """Where an uploaded file lies; read only.

        Raises:
            TrainingFailed: it is gone.
        """
        path = self.blobs.path(file.blob)
        if not path.is_file():
            raise TrainingFailed(f"the uploaded {file.filename} is gone ({path}); run the command again to upload it")
        return path

    def keys(self, job: Job) -> TaskAppKeys:
        """The environment keys of an RL job.

        Raises:
            TrainingFailed: they are not to be had.
        """
        keys = self.key_ring.of(job)
        if keys is None:
            raise TrainingFailed("its environment key is not to be had")
        return keys


class TrainerByKind(Trainer):
    """The trainer of each job, imported, with torch and its family, when the first job of its kind comes."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def train(self, task: Task) -> Generator[Happening, None, None]:
        module, name = _TRAINERS[task.job.order.kind]
        trainer = cast("Trainer", getattr(import_module(module), name)(self._bench))
        yield from trainer.train(task)
