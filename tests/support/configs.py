"""Small configs, and plans made of them, without a disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synth_train.adapters.in_memory.configs import InMemoryConfigs
from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.domain.model.plan import Plan
from synth_train.domain.usecases.plan import Choices, PlanConfig

RL = """\
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"

[services]
task_url = "https://task.example"

[model]
base = "Qwen/Qwen3-1.7B"
"""

SFT = """\
[algorithm]
type = "offline"
method = "sft"
variety = "fft"

[job]
model = "Qwen/Qwen3-4B"
data = "rows.jsonl"

[hyperparameters]
n_epochs = 1
learning_rate = 5e-6
"""

FILES = {"/repo/rows.jsonl": b"rows", "/repo/held_out.jsonl": b"held out"}


def planned(
    text: str,
    *,
    at: str = "train.toml",
    sets: tuple[str, ...] = (),
    files: dict[str, bytes] | None = None,
    locked: tuple[str, ...] = (),
    **choices: Any,
) -> Plan:
    """The plan of a config that stands in `/repo`, which is the working directory; `sets` are `--set` options,
    `locked` are files that may not be read."""
    configs = InMemoryConfigs({at: text})
    overrides = tuple(configs.override(one) for one in sets)
    datasets = InMemoryDatasets(FILES if files is None else files)
    for name in locked:
        datasets.lock(name)
    plan_config = PlanConfig(datasets=datasets)
    return plan_config(configs.read(Path(at)), Choices(overrides=overrides, **choices))
