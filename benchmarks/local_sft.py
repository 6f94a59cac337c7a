"""SFT by the embedded backend beside a bare TRL script that takes the same steps.

    python benchmarks/local_sft.py [--rows 200] [--epochs 4] [--rounds 5]

Needs the extra [local]. Both train `tiny` on the same rows, with the same batches, rate and seed, on one thread, in
turn; the bare script is what TRL's documentation shows, with `assistant_only_loss`. `job` is everything from the rows
to the saved model, `steps` the training loop alone. What counts is the best round of each: the rest is what else the
machine was doing. CPU seconds are of all threads. Losses are compared too: the same steps give the same curve.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import torch
from datasets import Dataset, disable_progress_bars  # type: ignore[import-untyped]
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.models import tiny_model, tiny_tokenizer
from synth_train.adapters.local.sft import SftTrainer
from synth_train.adapters.local.trainers import Bench
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.hosting import FileStatus, Job, Note, Order, Owner, Step, StoredFile, Task
from synth_train.domain.model.jobs import FileId, JobId, Kind

BATCH = 8
RATE = 3e-3
SEED = 1


class Times:
    """Wall and CPU seconds, from the last `start`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    @property
    def passed(self) -> tuple[float, float]:
        return time.perf_counter() - self._began[0], time.process_time() - self._began[1]


class Result:
    """What one run took, and its losses."""

    def __init__(self) -> None:
        self.job = self.steps = (0.0, 0.0)
        self.losses: list[float] = []


def rows(count: int) -> list[dict[str, Any]]:
    names = ("Ada", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Hal", "Ivy", "Jon")
    return [
        {
            "messages": [
                {"role": "user", "content": f"What does {names[index % 10]} like, {index}?"},
                {"role": "assistant", "content": f"{names[index % 10]} likes number {index // 10 % 10}."},
            ]
        }
        for index in range(count)
    ]


def ours(data: list[dict[str, Any]], epochs: int, folder: Path) -> Result:
    """A job, as a worker trains it."""
    home = LocalHome(folder)
    home.make()
    blobs = DiskBlobStore(home.blobs, SystemEntropy())
    bench = Bench(home, blobs, KeyRing({}, DotenvEnv({}).read))
    file = StoredFile(
        id=FileId("file_1"),
        owner=Owner("0" * 32),
        filename="chats.jsonl",
        purpose="fine-tune",
        blob=blobs.put([b"\n".join(json.dumps(row).encode() for row in data)]),
        status=FileStatus.READY,
        created_at=0.0,
    )
    body = {
        "model": "tiny",
        "hyperparameters": {"n_epochs": epochs, "batch_size": BATCH, "learning_rate": RATE},
        "metadata": {"config": {"local": {"seed": SEED, "threads": 1, "samples": 0}}},
    }
    order = Order(
        kind=Kind.SFT, model="tiny", training_type="sft_offline", training_file=file.id, body=json.dumps(body).encode()
    )
    job = Job(id=JobId("job_1"), owner=file.owner, order=order, created_at=0.0, updated_at=0.0, claims=1)
    bench.folder(job).make()
    result, whole, steps = Result(), Times(), Times()
    for happening in SftTrainer(bench).train(Task(job=job, training=file)):
        if isinstance(happening, Note) and happening.type == "settings":
            steps.start()
        if isinstance(happening, Step):
            result.losses.append(happening.points["train.loss"])
            result.steps = steps.passed
    result.job = whole.passed
    return result


class Watch(TrainerCallback):
    """Times the bare script's loop, from its making like ours."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.times = Times()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.result.steps = self.times.passed

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs:
            self.result.losses.append(logs["loss"])


def bare(logging_steps: int) -> Callable[[list[dict[str, Any]], int, Path], Result]:
    """The script, which logs every so many steps."""

    def run(data: list[dict[str, Any]], epochs: int, folder: Path) -> Result:
        result = Result()
        whole, watch = Times(), Watch(result)
        tokenizer = tiny_tokenizer()
        trainer = SFTTrainer(
            model=tiny_model(),
            args=SFTConfig(
                output_dir=str(folder / "out"),
                assistant_only_loss=True,
                per_device_train_batch_size=BATCH,
                num_train_epochs=epochs,
                learning_rate=RATE,
                seed=SEED,
                data_seed=SEED,
                logging_steps=logging_steps,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                bf16=False,
                activation_checkpointing=False,
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(data),
            processing_class=tokenizer,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        watch.times.start()
        trainer.train()
        trainer.save_model(str(folder / "model"))
        result.job = whole.passed
        return result

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description="Local SFT beside a bare TRL script.")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bars()
    data = rows(args.rows)
    runs = {"bare TRL": bare(10), "bare TRL, each step logged": bare(1), "synth-ai": ours}
    results: dict[str, list[Result]] = {name: [] for name in runs}
    for count in range(args.rounds + 1):
        for name, run in runs.items():
            with tempfile.TemporaryDirectory() as folder:
                result = run(data, args.epochs, Path(folder))
            if count:  # the first round warms up
                results[name].append(result)
    steps = len(results["synth-ai"][0].losses)
    apart = max(abs(a - b) for a, b in zip(*(results[name][0].losses for name in list(runs)[1:]), strict=True))
    print(f"{args.rows} rows, {steps} steps of {BATCH}, tiny, one thread, best of {args.rounds}\n")
    kinds = (f"{name:>9} {'ratio':>6}" for name in ("steps, s", "CPU s", "job, s", "CPU s"))
    print(f"{'':28} {' '.join(kinds)}")
    first = _best(results["bare TRL"])
    for name, found in results.items():
        best = _best(found)
        cells = [
            f"{value:>{width}.2f} {value / base:>6.2f}"
            for value, base, width in zip(best, first, (9, 9, 9, 9), strict=True)
        ]
        print(f"{name:28} {' '.join(cells)}")
    print(f"\nlargest difference of a loss between the last two: {apart:.1e}")


def _best(found: list[Result]) -> tuple[float, ...]:
    columns = zip(*((*result.steps, *result.job) for result in found), strict=True)
    return tuple(min(column) for column in columns)


if __name__ == "__main__":
    main()
