"""One SFT job, from its request to its model."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets  # type: ignore[import-untyped]
import torch
from peft import PeftModel
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from synth_train.adapters.local import models
from synth_train.adapters.local.background import Say, Stop
from synth_train.adapters.local.models import Hardware, Loaded, Method, Shelf
from synth_train.adapters.local.sft.chats import Chat
from synth_train.adapters.local.sft.failures import worded
from synth_train.adapters.local.sft.keeping import BestWeights, Checkpoint, Checkpoints
from synth_train.adapters.local.sft.saying import Speaker
from synth_train.adapters.local.sft.settings import LONGEST, Settings, resolve
from synth_train.adapters.local.sft.tokens import Prepared, Reader, prepare
from synth_train.adapters.local.tensorboard import TensorBoard
from synth_train.adapters.local.trainers import Bench
from synth_train.domain.model.hosting import Note, Step, StoredFile, Task, TrainingFailed

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
Model = PreTrainedModel | PeftModel

_LOOKED = {"eval_loss": "val.loss", "eval_mean_token_accuracy": "val.accuracy"}


class Training:
    """One job. `run` does all of it, in the thread that calls it."""

    def __init__(self, task: Task, bench: Bench, shelf: Shelf, say: Say, stop: Stop) -> None:
        self._job = task.job
        self._training, self._validation = task.training, task.validation
        self._bench = bench
        self._shelf = shelf
        self._say = say
        self._stop = stop
        self._folder = bench.folder(task.job)
        self._rows = self._folder.path / "rows"
        self._checkpoints = Checkpoints(self._folder.checkpoints)

    def run(self) -> None:
        """Train, and save the model.

        Raises:
            TrainingFailed: it cannot be done.
            Stopped: it was asked to stop.
        """
        if self._job.claims > 1 and self._folder.model.is_dir():
            self._note("resumed", "The model was saved before the worker died; nothing is left to do.")
            return
        models.quiet()
        datasets.disable_progress_bars()
        resolved = resolve(self._job.order)
        settings = resolved.settings
        for warning in resolved.warnings:
            self._warn(warning)
        hardware = self._hardware(settings)
        loaded = models.load(self._shelf.find(settings.model), hardware, settings.method)
        reader = Reader(loaded)
        for warning in reader.warnings:
            self._warn(warning)
        assert self._training is not None  # an SFT order has one
        longest = self._longest(settings, reader)
        training = self._prepare(self._training, reader, longest, "training")
        held_out = None
        if self._validation is not None and settings.evaluation.strategy != "no":
            held_out = self._prepare(self._validation, reader, longest, "validation")
        self._train(settings, resolved.table, hardware, loaded, reader, training, held_out)

    def _train(
        self,
        settings: Settings,
        table: Mapping[str, object],
        hardware: Hardware,
        loaded: Loaded,
        reader: Reader,
        training: Prepared,
        held_out: Prepared | None,
    ) -> None:
        checkpoint = self._checkpoints.newest if self._job.claims > 1 else None
        model = self._adapted(loaded, settings)
        steps = self._steps(settings, training)
        self._tell_settings(settings, hardware, model, training, steps)
        speaker = Speaker(loaded.tokenizer, hardware, self._stop.check)
        shown = (held_out or training).examples
        if checkpoint is None:
            self._checkpoints.remove()  # of a job that was ordered under this id before its folder was tampered with
            self._samples(speaker, model, reader, shown, "before")
        else:
            self._note("resumed", f"Going on after step {checkpoint.step}, from its checkpoint.", step=checkpoint.step)
        best = None
        if held_out is not None and settings.evaluation.keep_best:
            best = BestWeights(self._folder.path / "best.safetensors", _better(settings))
            if checkpoint is not None:
                best.take_up(checkpoint.step)
        arguments = self._arguments(settings, hardware, steps)
        with TensorBoard(self._folder, after=checkpoint.step if checkpoint else 0) as board:
            reporter = _Reporter(self, settings, steps, _per_epoch(settings, training), held_out, best, board)
            with worded(settings, reporter, self._folder.path):
                trainer = self._trainer(model, arguments, training, held_out, loaded, reporter)
                trainer.train(resume_from_checkpoint=str(_inside(checkpoint)) if checkpoint else None)
        last = reporter.last
        if best is not None and best.best is not None:
            with worded(settings, reporter, self._folder.path):
                best.put_back(model)
            what = f"The weights of step {best.best.step} are kept, whose {settings.evaluation.metric} was the best"
            self._note("best", f"{what}: {best.best.value:.4f}.", step=best.best.step, value=best.best.value)
        self._note("training.finish", f"Trained {steps} steps; the last loss was {last['train.loss']:.4f}.", **last)
        self._samples(speaker, model, reader, shown, "after")
        self._stop.check()
        models.save(
            model,
            loaded,
            self._folder.model,
            self._provenance(settings, table, hardware, loaded, training, held_out, steps, last, best),
            merge=settings.merge,
        )
        self._clean(best)

    # ---- before it begins

    def _hardware(self, settings: Settings) -> Hardware:
        hardware = models.choose_hardware(settings.device, settings.dtype, settings.threads)
        for warning in hardware.warnings:
            self._warn(warning)
        if settings.dtype is not None:
            return hardware
        if settings.bf16 is False and not settings.fp16:
            return models.choose_hardware(settings.device, "float32")
        asked = "fp16" if settings.fp16 else "bf16" if settings.bf16 else None
        if asked is None or hardware.device.type == "cuda":
            return models.choose_hardware(settings.device, asked) if asked else hardware
        path = f"hyperparameters.parallelism.{asked}"
        self._warn(f"{path}: this machine trains on its {hardware.device.type}, in float32 (local.dtype decides)")
        return hardware

    def _longest(self, settings: Settings, reader: Reader) -> int:
        context = reader.context or settings.longest or LONGEST
        if settings.longest is not None and settings.longest > context:
            self._warn(
                f"hyperparameters.sequence_length: {settings.model} reads {context} tokens, so that is the limit"
            )
        return min(settings.longest or LONGEST, context)

    def _prepare(self, file: StoredFile, reader: Reader, longest: int, role: str) -> Prepared:
        with worded(None, None, self._folder.path), self._bench.data(file).open("rb") as lines:
            prepared = prepare(lines, reader, longest, self._rows / f"{role}.arrow", self._stop.check)
        for reason, (count, line) in prepared.unfit.items():
            self._warn(f"{count} of {prepared.rows} {role} rows left out: {reason}; the first is line {line}")
        if prepared.cut:
            what = f"{prepared.cut} of {prepared.rows} {role} rows have more than {longest} tokens and were cut there"
            where = f"the longest has {prepared.longest}, line {prepared.longest_line}"
            self._warn(f"{what}; {where} (hyperparameters.sequence_length)")
        if not prepared.used:
            reasons = "; ".join(f"{count} × {reason}" for reason, (count, _) in prepared.unfit.items())
            raise TrainingFailed(
                f"no row of {file.filename} can be trained on: {reasons or 'it has no rows'}"
                + ("; see hyperparameters.sequence_length" if f"first {longest} tokens" in reasons else "")
            )
        self._note(
            f"data.{role}",
            f"{prepared.used} {role} rows, {prepared.tokens} tokens, {prepared.learnt} of them learnt.",
            rows=prepared.used,
            rows_left_out=prepared.rows - prepared.used,
            rows_cut=prepared.cut,
            tokens=prepared.tokens,
            tokens_learnt=prepared.learnt,
        )
        return prepared

    def _adapted(self, loaded: Loaded, settings: Settings) -> Model:
        if settings.method is Method.FULL:
            return loaded.model
        return models.adapt(loaded, models.lora_config(settings.lora), seed=settings.seed)

    def _steps(self, settings: Settings, training: Prepared) -> int:
        return settings.steps or settings.epochs * _per_epoch(settings, training)

    def _tell_settings(
        self, settings: Settings, hardware: Hardware, model: Model, training: Prepared, steps: int
    ) -> None:
        trained, whole = (
            sum(weight.numel() for weight in model.parameters() if weight.requires_grad or not trained)
            for trained in (True, False)
        )
        batch = settings.batch
        dtype = str(hardware.dtype).removeprefix("torch.")
        at_once = f" ({batch.at_once} at once)" if batch.times > 1 else ""
        self._note(
            "settings",
            f"Training {trained:,} of {whole:,} parameters of {settings.model} ({settings.method.value}) on "
            f"{hardware.device}, {dtype}: {steps} steps of {batch.rows} rows{at_once}, "
            f"learning rate {settings.learning_rate:g}.",
            method=settings.method.value,
            parameters=whole,
            parameters_trained=trained,
            device=str(hardware.device),
            dtype=dtype,
            seed=settings.seed,
            rows=training.used,
            total_steps=steps,
            rows_per_step=batch.rows,
            rows_at_once=batch.at_once,
            learning_rate=settings.learning_rate,
            warmup_ratio=settings.warmup_ratio,
            weight_decay=settings.weight_decay,
        )

    def _arguments(self, settings: Settings, hardware: Hardware, steps: int) -> SFTConfig:
        on_gpu = hardware.device.type == "cuda"
        arguments = SFTConfig(
            output_dir=str(self._folder.checkpoints),
            per_device_train_batch_size=settings.batch.at_once,
            per_device_eval_batch_size=settings.batch.at_once,
            gradient_accumulation_steps=settings.batch.times,
            num_train_epochs=settings.epochs,
            max_steps=settings.steps or -1,
            learning_rate=settings.learning_rate,
            warmup_steps=math.ceil(settings.warmup_ratio * steps),
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
            eval_strategy="no",  # `_Reporter` says when
            save_strategy="no",  # likewise
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=on_gpu,
        )
        if on_gpu and arguments.n_gpu > 1:
            arguments._n_gpu = 1  # else it would spread each batch over all GPUs, which TRL refuses
        return arguments

    def _trainer(
        self,
        model: Model,
        arguments: SFTConfig,
        training: Prepared,
        held_out: Prepared | None,
        loaded: Loaded,
        reporter: _Reporter,
    ) -> _Sft:
        try:
            return _Sft(model, arguments, training.dataset, held_out, loaded, reporter, self._checkpoints)
        except ValueError as error:  # such as an adapter on the output layer
            raise TrainingFailed(f"TRL does not train it like this: {error}") from error

    # ---- what is told

    def step(self, step: int, total: int, points: Mapping[str, float]) -> None:
        """Tell that a step is done."""
        self._say(Step(step=step, total=total, points=points))
        self._stop.check()

    def looked(self, step: int, values: Mapping[str, float]) -> None:
        """Tell what the held-out rows have shown."""
        text = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
        self._note("validation.summary", f"After step {step}: {text}.", step=step, **values)

    def go_on(self) -> None:
        """Raise `Stopped` if the job is to stop."""
        self._stop.check()

    def _note(self, type: str, message: str, **data: object) -> None:
        self._say(Note(type=type, message=message, data=data))
        self._stop.check()

    def _warn(self, message: str) -> None:
        self._say(Note(type="warning", message=message, level="warning"))

    def _samples(self, speaker: Speaker, model: Model, reader: Reader, chats: list[Chat], when: str) -> None:
        for chat in chats:
            asked, wanted = (_said(chat.messages[index]) for index in (chat.last_answer - 1, chat.last_answer))
            with worded(None, None, self._folder.path):
                said = speaker.answer(model, reader.prompt(chat))
            data = {"when": when, "asked": asked, "wanted": wanted, "said": said}
            self._note("sample", f"{when.capitalize()}: {_short(asked)} → {_short(said)}", **data)

    # ---- after it has ended

    def _provenance(
        self,
        settings: Settings,
        table: Mapping[str, object],
        hardware: Hardware,
        loaded: Loaded,
        training: Prepared,
        held_out: Prepared | None,
        steps: int,
        last: Mapping[str, float],
        best: BestWeights | None,
    ) -> dict[str, object]:
        files = ((self._training, training), (self._validation if held_out else None, held_out))
        told = [
            {
                "file": file.id,
                "filename": file.filename,
                "sha256": file.blob.sha256,
                "bytes": file.blob.size,
                "rows": rows.rows,
                "rows_used": rows.used,
                "tokens": rows.tokens,
                "tokens_learnt": rows.learnt,
            }
            for file, rows in files
            if file is not None and rows is not None
        ]
        return models.provenance(
            loaded.source,
            hardware,
            settings.method,
            config=table,
            seed=settings.seed,
            job=self._job.id,
            training_data=told[0],
            validation_data=told[1] if len(told) > 1 else None,
            steps=steps,
            rows_per_step=settings.batch.rows,
            learning_rate=settings.learning_rate,
            metrics=last,
            best_step=best.best.step if best and best.best else None,
            claims=self._job.claims,
        )

    def _clean(self, best: BestWeights | None) -> None:
        self._checkpoints.remove()
        shutil.rmtree(self._rows, ignore_errors=True)
        if best is not None:
            best.remove()


class _Sft(SFTTrainer):
    """TRL's trainer, quiet, with complete checkpoints."""

    def __init__(
        self,
        model: Model,
        arguments: SFTConfig,
        rows: datasets.Dataset,
        held_out: Prepared | None,
        loaded: Loaded,
        reporter: _Reporter,
        checkpoints: Checkpoints,
    ) -> None:
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=held_out.dataset if held_out else None,
            processing_class=loaded.tokenizer,
            callbacks=[reporter],
        )
        self.remove_callback(PrinterCallback)
        self._reporter = reporter
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
        self._reporter.saved(time.perf_counter() - began)


def _inside(checkpoint: Checkpoint) -> Path:
    """Where `_Sft` has put it."""
    return checkpoint.path / f"{PREFIX_CHECKPOINT_DIR}-{checkpoint.step}"


class _Reporter(TrainerCallback):
    """Tells what TRL's trainer does, says when it looks at the held-out rows and when it saves, and makes it stop."""

    def __init__(
        self,
        training: Training,
        settings: Settings,
        steps: int,
        per_epoch: int,
        held_out: Prepared | None,
        best: BestWeights | None,
        board: TensorBoard,
    ) -> None:
        self._training = training
        self._settings = settings
        self._steps = steps
        self._every = _looks_every(settings, steps, per_epoch) if held_out else 0
        self._best = best
        self._board = board
        self._points: dict[str, float] = {}
        self._began = self._saved_at = time.perf_counter()
        self._save_took = self._step_took = 0.0
        self._tokens = 0.0
        self.step = 0
        """The step that is done; 0 before the first."""
        self.last: dict[str, float] = {}
        """The points of that step."""

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
        self._training.go_on()

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._training.go_on()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        now = time.perf_counter()
        self._step_took = now - self._began
        self.step = state.global_step
        over = self.step == self._steps
        control.should_evaluate = bool(self._every) and (self.step % self._every == 0 or over)
        if self._settings.checkpoint_steps is not None:
            control.should_save = self.step % self._settings.checkpoint_steps == 0
        else:
            due = max(CHECKPOINT_AFTER, CHECKPOINT_SHARE * self._save_took)
            control.should_save = not over and now - self._saved_at >= due

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
        self._points = {
            ours: float(logs[theirs]) for theirs, ours in _VALUES.items() if math.isfinite(logs.get(theirs, math.nan))
        }
        self._points["train.tokens_per_second"] = tokens / self._step_took
        if not control.should_evaluate:
            self._tell()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **given: Any,
    ) -> None:
        values = {ours: float((metrics or {})[theirs]) for theirs, ours in _LOOKED.items()}
        self._points |= {name: value for name, value in values.items() if math.isfinite(value)}
        if self._best is not None:
            self._best.look(self.step, values[self._settings.evaluation.metric], given["model"])
        self._tell()
        self._training.looked(self.step, values)

    def _tell(self) -> None:
        self.last = self._points
        self._board.add(self.step, self._points)
        self._training.step(self.step, self._steps, self._points)


def _per_epoch(settings: Settings, training: Prepared) -> int:
    """Steps of one pass over the rows; the last may have fewer rows than the others."""
    return math.ceil(math.ceil(training.used / settings.batch.at_once) / settings.batch.times)


def _looks_every(settings: Settings, steps: int, per_epoch: int) -> int:
    if settings.evaluation.strategy == "epoch":
        return per_epoch
    return settings.evaluation.every or max(1, steps // LOOKS)


def _better(settings: Settings) -> Any:
    greater = settings.evaluation.greater_is_better
    return (lambda new, old: new > old) if greater else (lambda new, old: new < old)


def _said(message: Mapping[str, Any]) -> str:
    """What a message says, calls of tools included."""
    functions = [call["function"] for call in message.get("tool_calls", ())]
    calls = [f"{call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})" for call in functions]
    return "\n".join(filter(None, (message["content"], *calls)))


def _short(text: str, longest: int = 80) -> str:
    line = " ".join(text.split())
    return f'"{line if len(line) <= longest else line[: longest - 1] + "…"}"'
