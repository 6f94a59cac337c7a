"""How long the command takes to begin: `--help` and a dry run, as ratios to `python -c "import argparse"`.

    python benchmarks/startup.py [--runs 40]

The commands take turns, so that a busy machine slows all of them alike; the best of all runs counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"

COMMAND = "import sys; from synth_train.__main__ import main; sys.exit(main())"
"""What the installed console script does."""

TARGETS = {"--help": 3.0, "train --help": 3.0, "train --dry-run": 5.0}

SFT_TOML = """\
type = "sft"

[algorithm]
type = "offline"
method = "sft"
variety = "lora"

[job]
model = "Qwen/Qwen3-4B"
data = "train.jsonl"
poll_seconds = 5

[compute]
gpu_type = "H100"
gpu_count = 2
nodes = 1

[data]
validation_path = "train.jsonl"

[data.topology]
container_count = 1
shards = 4

[training]
mode = "lora"
use_qlora = true

[training.validation]
enabled = true
evaluation_strategy = "steps"
eval_steps = 20
save_best_model_at_end = true
metric_for_best_model = "val.loss"
greater_is_better = false

[lora]
r = 16
alpha = 32
dropout = 0.05
target_modules = ["all-linear"]

[hyperparameters]
n_epochs = 2
batch_size = 8
global_batch = 64
per_device_batch = 4
gradient_accumulation_steps = 8
sequence_length = 4096
learning_rate = 5e-6
warmup_ratio = 0.03
weight_decay = 0.01
train_kind = "peft"

[hyperparameters.parallelism]
use_deepspeed = true
deepspeed_stage = 2
bf16 = true
activation_checkpointing = true

[tags]
owner = "benchmarks"
"""

ROW = '{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}\n'


def main() -> None:
    """Measure and print a table; exit 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sft.toml").write_text(SFT_TOML)
        Path(folder, "train.jsonl").write_text(ROW * 20)
        commands = {
            "import argparse": [sys.executable, "-c", "import argparse"],
            "--help": [sys.executable, "-c", COMMAND, "--help"],
            "train --help": [sys.executable, "-c", COMMAND, "train", "--help"],
            "train --dry-run": [sys.executable, "-c", COMMAND, "train", "--config", "sft.toml", "--dry-run"],
        }
        for command in commands.values():
            seconds(command, folder)  # compiles
        best = dict.fromkeys(commands, float("inf"))
        for _ in range(runs):
            for name, command in commands.items():
                best[name] = min(best[name], seconds(command, folder))
    rival = best.pop("import argparse")
    print(f"Python {sys.version.split()[0]}, best of {runs}: `import argparse` takes {rival * 1000:.1f} ms\n")
    print("| command | ms | ratio | target |\n|---|---|---|---|")
    for name, taken in best.items():
        print(f"| `{name}` | {taken * 1000:.1f} | {taken / rival:.2f} | {TARGETS[name]:.0f} |")
    if any(taken / rival > TARGETS[name] for name, taken in best.items()):
        sys.exit("a target is missed")


def seconds(command: list[str], folder: str) -> float:
    """Time of one run, which must succeed."""
    env = {**os.environ, "PYTHONPATH": str(SOURCES), "SYNTH_AI_HOME": folder, "PYTHONPYCACHEPREFIX": f"{folder}/pyc"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
