"""SFT jobs for the trainer of the embedded backend, without hosting around it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from support.training_runs import Run
from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import JobFolder, LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.sft import SftTrainer
from synth_train.adapters.local.trainers import Bench
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.hosting import FileStatus, Happening, Job, Order, Owner, StoredFile, Task
from synth_train.domain.model.jobs import FileId, JobId, Kind

OWNER = Owner("0" * 32)

Row = Mapping[str, Any]


def chats(count: int, *, answer: str = "{name} likes {word}.") -> list[Row]:
    """Short chats with something to learn in them: who likes what."""
    names = ("Ada", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Hal", "Ivy", "Jon")
    words = ("red", "blue", "green", "black", "white", "pink", "gold", "grey", "teal", "plum")
    pairs = [(names[index % 10], words[index // 10 % 10]) for index in range(count)]
    return [
        chat(f"What does {name} like, {index}?", answer.format(name=name, word=word))
        for index, (name, word) in enumerate(pairs)
    ]


def chat(*texts: str, weights: Mapping[int, int] | None = None) -> Row:
    """A chat of user and assistant in turns; weights by the index of the message."""
    messages: list[dict[str, Any]] = [
        {"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)
    ]
    for index, weight in (weights or {}).items():
        messages[index]["weight"] = weight
    return {"messages": messages}


class Workshop:
    """A place where SFT jobs are trained, in this process."""

    def __init__(self, folder: Path) -> None:
        self.home = LocalHome(folder)
        self.home.make()
        self._blobs = DiskBlobStore(self.home.blobs, SystemEntropy())
        self._bench = Bench(self.home, self._blobs, KeyRing({}, DotenvEnv({}).read))
        self._count = 0

    def file(self, rows: Iterable[Row | bytes]) -> StoredFile:
        """An uploaded file of these rows."""
        self._count += 1
        lines = b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
        return StoredFile(
            id=FileId(f"file_{self._count}"),
            owner=OWNER,
            filename="chats.jsonl",
            purpose="fine-tune",
            blob=self._blobs.put([lines]),
            status=FileStatus.READY,
            created_at=0.0,
        )

    def task(
        self,
        rows: Iterable[Row | bytes],
        held_out: Iterable[Row | bytes] | None = None,
        *,
        job: str = "job_1",
        claims: int = 1,
        model: str = "tiny",
        config: Mapping[str, Any] | None = None,
        **hyperparameters: Any,
    ) -> Task:
        """A claimed job.

        Args:
            config: tables beside `[hyperparameters]`, as they stand in a TOML. One thread, seed 1 and no samples
                unless its `local` says else.
        """
        training, validation = self.file(rows), None if held_out is None else self.file(held_out)
        config = dict(config or {})
        config["local"] = {"seed": 1, "threads": 1, "samples": 0, **config.get("local", {})}
        order = Order(
            kind=Kind.SFT,
            model=model,
            training_type="sft_offline",
            training_file=training.id,
            validation_file=validation.id if validation else None,
            body=json.dumps(
                {"model": model, "hyperparameters": hyperparameters, "metadata": {"config": config}}
            ).encode(),
        )
        claimed = Job(id=JobId(job), owner=OWNER, order=order, created_at=0.0, updated_at=0.0, claims=claims)
        self.folder(claimed).make()
        return Task(job=claimed, training=training, validation=validation)

    def folder(self, job: Job) -> JobFolder:
        return self._bench.folder(job)

    def begin(self, task: Task) -> Generator[Happening, None, None]:
        """A job, about to be trained."""
        return SftTrainer(self._bench).train(task)

    def train(self, task: Task, *, until_step: int | None = None) -> Run:
        """What a trainer tells of a job, to its end, or until it is stopped after a step."""
        return Run(self.begin(task), self.folder(task.job), until_step=until_step)
