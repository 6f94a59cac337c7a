"""RL jobs for the trainer of the embedded backend, without hosting around it."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from support.task_apps import KEY
from support.training_runs import Run
from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import JobFolder, LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.rl import RlTrainer
from synth_train.adapters.local.trainers import Bench
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.hosting import Happening, Job, Order, Owner, Task
from synth_train.domain.model.jobs import JobId, Kind
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys

OWNER = Owner("0" * 32)

Config = dict[str, Any]

QUICK: Config = {
    "model": {"trainer_mode": "full"},
    "rollout": {
        "max_concurrent_rollouts": 64,
        "policy_config": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 16},
    },
    "training": {"iterations_per_epoch": 20, "batch_size": 8, "group_size": 8, "learning_rate": 5e-4},
    "local": {"seed": 1, "threads": 1, "device": "cpu"},
}
"""What `tiny` learns with, in seconds."""


def merged(config: Mapping[str, Any], more: Mapping[str, Any]) -> Config:
    """`config` with the values of `more`, table by table."""
    tables = {**config}
    for name, value in more.items():
        tables[name] = merged(tables.get(name, {}), value) if isinstance(value, dict) else value
    return tables


def order(task_url: str, config: Mapping[str, Any], *, model: str = "tiny") -> Order:
    """What is asked for with a config, beside `QUICK`."""
    data = {"model": model, "endpoint_base_url": task_url, "config": merged(QUICK, config)}
    body = json.dumps({"job_type": "rl", "data": data}).encode()
    return Order(kind=Kind.RL, model=model, training_type="rl_online", task_url=task_url, body=body)


class RlWorkshop:
    """A place where RL jobs are trained, in this process."""

    def __init__(self, folder: Path) -> None:
        self.home = LocalHome(folder)
        self.home.make()
        self._key_ring = KeyRing({}, DotenvEnv({}).read)
        self._place = self._key_ring.lend(TaskAppKeys(Secret(KEY)), name="ENVIRONMENT_API_KEY", file=None)
        self._bench = Bench(self.home, DiskBlobStore(self.home.blobs, SystemEntropy()), self._key_ring)

    def task(
        self,
        task_url: str,
        config: Mapping[str, Any] | None = None,
        *,
        job: str = "job_1",
        claims: int = 1,
        model: str = "tiny",
    ) -> Task:
        """A claimed job; `config` comes before `QUICK`."""
        claimed = Job(
            id=JobId(job),
            owner=OWNER,
            order=order(task_url, config or {}, model=model),
            created_at=0.0,
            updated_at=0.0,
            claims=claims,
            key_place=self._place,
        )
        self.folder(claimed).make()
        return Task(job=claimed)

    def folder(self, job: Job) -> JobFolder:
        return self._bench.folder(job)

    def begin(self, task: Task) -> Generator[Happening, None, None]:
        """A job, about to be trained."""
        return RlTrainer(self._bench).train(task)

    def train(self, task: Task, *, until_step: int | None = None) -> Run:
        """What a trainer tells of a job, to its end, or until it is stopped after a step."""
        return Run(self.begin(task), self.folder(task.job), until_step=until_step)
