"""The steps themselves: TRL's trainer, with our checkpoints and our points."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from peft import PeftModel
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from synth_train.adapters.local.checkpoints import Checkpoint, Checkpoints
from synth_train.adapters.local.models import Hardware, Loaded
from synth_train.adapters.local.sft.best import BestWeights
from synth_train.adapters.local.sft.settings import Settings
from synth_train.adapters.local.sft.tokens import Prepared
from synth_train.domain.model.hosting import TrainingFailed

CHECKPOINT_AFTER = 60.0
"""Seconds of work after which a checkpoint is due, unless the request says after how many steps."""

CHECKPOINT_SHARE = 20
"""At most one part in so many of the time goes into checkpoints."""

LOOKS = 10
"""How often the held-out rows are looked at in a run, unless the request says."""

_VALUES = {
    "loss": "train.loss",
    "learning_rate": "train.learning_rate",
    "grad_norm": "train.grad_norm",
    "mean_token_accuracy": "train.accuracy",
    "entropy": "train.entropy",
}
_LOOKED = {"eval_loss": "val.loss", "eval_mean_token_accuracy": "val.accuracy"}


@dataclass(frozen=True, kw_only=True)
class Ready:
    """All that is to be had before the first step."""

    settings: Settings
    hardware: Hardware
    loaded: Loaded
    model: PreTrainedModel | PeftModel
    """What is trained: the loaded model, or that with an adapter."""
    training: Prepared
    held_out: Prepared | None
    """None when nobody looks at held-out rows."""

    @property
    def per_epoch(self) -> int:
        """Steps of one pass over the rows; the last may have fewer rows than the others."""
        batch = self.settings.batch
        return math.ceil(math.ceil(self.training.used / batch.at_once) / batch.times)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.settings.steps or self.settings.epochs * self.per_epoch

    @property
    def looks_every(self) -> int:
        """Steps from one look at the held-out rows to the next; 0 for none."""
        if self.held_out is None:
            return 0
        if self.settings.evaluation.strategy == "epoch":
            return self.per_epoch
        return self.settings.evaluation.every or max(1, self.steps // LOOKS)


class Listener(Protocol):
    """Somebody who is told what the loop does. What it raises ends the loop."""

    def step(self, step: int, points: Mapping[str, float]) -> None:
        """A step is done, with all its points."""
        ...

    def looked(self, step: int, values: Mapping[str, float]) -> None:
        """The held-out rows were looked at, after a step."""
        ...

    def go_on(self) -> None:
        """Asked between two batches."""
        ...


class Loop:
    """The steps of one run."""

    def __init__(self, ready: Ready, checkpoints: Checkpoints, best: BestWeights | None, listener: Listener) -> None:
        """
        Args:
            best: where the weights of the best look are kept, if they are.
        """
        self._ready = ready
        self._checkpoints = checkpoints
        self._callback = _Callback(ready, best, listener)

    @property
    def step(self) -> int:
        """The step that was done last; 0 before the first."""
        return self._callback.step

    @property
    def last(self) -> Mapping[str, float]:
        """The points of that step."""
        return self._callback.points

    def run(self, checkpoint: Checkpoint | None, output: Path) -> None:
        """All steps, or those after a checkpoint.

        Args:
            output: a folder that TRL may have for itself.

        Raises:
            TrainingFailed: TRL does not train such a model, or the loss is no number any more.
        """
        try:
            trainer = _Trainer(self._ready, self._arguments(output), self._callback, self._checkpoints)
        except ValueError as error:  # such as an adapter on the output layer
            raise TrainingFailed(f"TRL does not train it like this: {error}") from error
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(_inside(checkpoint)))

    def _arguments(self, output: Path) -> SFTConfig:
        settings, hardware = self._ready.settings, self._ready.hardware
        on_gpu = hardware.device.type == "cuda"
        arguments = SFTConfig(
            output_dir=str(output),
            per_device_train_batch_size=settings.batch.at_once,
            per_device_eval_batch_size=settings.batch.at_once,
            gradient_accumulation_steps=settings.batch.times,
            num_train_epochs=settings.epochs,
            max_steps=settings.steps or -1,
            learning_rate=settings.learning_rate,
            warmup_steps=math.ceil(settings.warmup_ratio * self._ready.steps),
            weight_decay=settings.weight_decay,
            seed=settings.seed,
            data_seed=settings.seed,
            use_cpu=hardware.device.type == "cpu",
            bf16=hardware.dtype is torch.bfloat16,
            fp16=hardware.dtype is torch.float16,
            activation_checkpointing=settings.recompute,
            max_length=None,  # rows were cut when they were read
            logging_steps=1,
            logging_nan_inf_filter=False,  # it hides a loss that is no number
            eval_strategy="no",  # `_Callback` says when
            save_strategy="no",  # likewise
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=on_gpu,
        )
        if on_gpu and arguments.n_gpu > 1:
            arguments._n_gpu = 1  # else each batch would be spread over all GPUs, which TRL refuses
        return arguments


class _Trainer(SFTTrainer):
    """TRL's trainer, quiet, with complete checkpoints."""

    def __init__(self, ready: Ready, arguments: SFTConfig, callback: _Callback, checkpoints: Checkpoints) -> None:
        super().__init__(
            model=ready.model,
            args=arguments,
            train_dataset=ready.training.dataset,
            eval_dataset=ready.held_out.dataset if ready.held_out else None,
            processing_class=ready.loaded.tokenizer,
            callbacks=[callback],
        )
        self.remove_callback(PrinterCallback)
        self._callback = callback
        self._checkpoints = checkpoints
        self._aside: Path | None = None

    def _send_telemetry(self) -> None:
        """Nobody is told that somebody trains."""

    def create_model_card(self, *_: object, **__: object) -> None:
        """`provenance.json` says it."""

    def _get_output_dir(self, trial: object) -> str:
        return str(self._aside) if self._aside else super()._get_output_dir(trial)

    def _save_checkpoint(self, model: object, trial: object) -> None:
        began = time.perf_counter()
        with self._checkpoints.writing(self.state.global_step) as self._aside:
            super()._save_checkpoint(model, trial)  # type: ignore[no-untyped-call]
        self._aside = None
        self._callback.saved(time.perf_counter() - began)


def _inside(checkpoint: Checkpoint) -> Path:
    """Where `_Trainer` has put it."""
    return checkpoint.path / f"{PREFIX_CHECKPOINT_DIR}-{checkpoint.step}"


class _Callback(TrainerCallback):
    """Tells what TRL's trainer does, and says when it looks at the held-out rows and when it saves."""

    def __init__(self, ready: Ready, best: BestWeights | None, listener: Listener) -> None:
        self._settings = ready.settings
        self._steps = ready.steps
        self._every = ready.looks_every
        self._best = best
        self._listener = listener
        self._began = self._saved_at = time.perf_counter()
        self._save_took = self._step_took = 0.0
        self._tokens = 0.0
        self.step = 0
        self.points: dict[str, float] = {}

    def saved(self, took: float) -> None:
        """A checkpoint was written, which took so many seconds."""
        self._save_took = took
        self._saved_at = time.perf_counter()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.step = state.global_step
        self._saved_at = time.perf_counter()

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._began = time.perf_counter()

    def on_substep_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._listener.go_on()

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._listener.go_on()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        now = time.perf_counter()
        self._step_took = now - self._began
        self.step = state.global_step
        over = self.step == self._steps
        control.should_evaluate = self._every > 0 and (over or self.step % self._every == 0)
        if self._settings.checkpoint_steps is not None:
            due = self.step % self._settings.checkpoint_steps == 0
        else:
            due = now - self._saved_at >= max(CHECKPOINT_AFTER, CHECKPOINT_SHARE * self._save_took)
        control.should_save = due and not over  # the model itself comes next

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        if not logs or "loss" not in logs:  # after a look, or at the end
            return
        if not math.isfinite(logs["loss"]):
            raise TrainingFailed(
                f"the loss is no number any more ({logs['loss']}) at step {self.step}: the learning rate "
                f"{self._settings.learning_rate:g} is too high for these rows, or float16 too narrow; lower "
                "hyperparameters.learning_rate, or let it rise over more steps (warmup_ratio)"
            )
        tokens, self._tokens = logs["num_tokens"] - self._tokens, logs["num_tokens"]
        self.points = _finite({ours: logs[theirs] for theirs, ours in _VALUES.items() if theirs in logs})
        self.points["train.tokens_per_second"] = tokens / self._step_took
        if not control.should_evaluate:  # all points of a step are told together
            self._listener.step(self.step, self.points)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **given: Any,
    ) -> None:
        values = {ours: (metrics or {})[theirs] for theirs, ours in _LOOKED.items()}
        if self._best is not None:
            self._best.look(self.step, values[self._settings.evaluation.metric], given["model"])
        self.points |= _finite(values)
        self._listener.step(self.step, self.points)
        self._listener.looked(self.step, values)


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    """Those that JSON has a number for. The first gradients in float16 are often none."""
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}
