"""The data files of a plan, every row of them checked."""

from __future__ import annotations

from pathlib import Path

from synth_train.domain.model.dataset import Part
from synth_train.domain.model.plan import Plan
from synth_train.ports.datasets import DatasetPort
from synth_train.ports.progress import ProgressPort


def check_rows(plan: Plan, datasets: DatasetPort, progress: ProgressPort) -> tuple[Part | None, Part | None]:
    """The stretches to upload of the training and of the validation set; None for what the plan does not have.

    Raises:
        InvalidDataset: a file cannot be read, or has rows that cannot be trained on.
    """
    if plan.dataset is None:
        return None, None
    # Loaded here, because an RL job has no rows, and the rules take their time to load.
    from synth_train.domain.usecases.check_dataset import CheckDataset

    check = CheckDataset(datasets=datasets, progress=progress)
    training = check(plan.dataset, examples=plan.examples, shown=_shown(plan, plan.dataset)).part
    validation = check(plan.validation, shown=_shown(plan, plan.validation)).part if plan.validation else None
    return training, validation


def _shown(plan: Plan, path: Path) -> str:
    """The path as somebody would type it who has typed the config's: short, and right from the working directory."""
    beside = plan.path.parent
    return str(Path(plan.config).parent / path.relative_to(beside)) if path.is_relative_to(beside) else str(path)
