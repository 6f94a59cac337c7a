"""One SFT job, from its request to its model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import datasets  # type: ignore[import-untyped]
import torch

from synth_train.adapters.local import models
from synth_train.adapters.local.background import Say, Stop
from synth_train.adapters.local.checkpoints import Checkpoints
from synth_train.adapters.local.models import Hardware, Method, Shelf
from synth_train.adapters.local.sft.best import BestWeights
from synth_train.adapters.local.sft.chats import Chat, Unfit
from synth_train.adapters.local.sft.failures import worded
from synth_train.adapters.local.sft.loop import Loop, Ready
from synth_train.adapters.local.sft.saying import Speaker
from synth_train.adapters.local.sft.settings import LONGEST, Resolved, Settings, resolve
from synth_train.adapters.local.sft.tokens import Prepared, Reader, prepare
from synth_train.adapters.local.tensorboard import TensorBoard
from synth_train.adapters.local.trainers import Bench
from synth_train.domain.model.hosting import Note, Step, StoredFile, Task, TrainingFailed


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
        self._checkpoint = self._checkpoints.newest if task.job.claims > 1 else None
        """What a worker that died has left."""

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
        for warning in resolved.warnings:
            self._warn(warning)
        try:
            with worded(None, None, self._folder.path):
                reader, ready = self._get_ready(resolved.settings)
            self._train(resolved, reader, ready)
        finally:
            shutil.rmtree(self._rows, ignore_errors=True)

    # ---- before the first step

    def _get_ready(self, settings: Settings) -> tuple[Reader, Ready]:
        hardware = self._hardware(settings)
        loaded = models.load(self._shelf.find(settings.model), hardware, settings.method)
        reader = Reader(loaded)
        for warning in reader.warnings:
            self._warn(warning)
        longest = self._longest(settings, reader)
        assert self._training is not None  # every SFT job has one
        training = self._prepare(self._training, reader, longest, "training", settings.samples)
        held_out = None
        if self._validation is not None and settings.evaluation.strategy != "no":
            held_out = self._prepare(self._validation, reader, longest, "validation", settings.samples)
        model = (
            loaded.model
            if settings.method is Method.FULL
            else models.adapt(loaded, models.lora_config(settings.lora), seed=settings.seed)
        )
        return reader, Ready(
            settings=settings, hardware=hardware, loaded=loaded, model=model, training=training, held_out=held_out
        )

    def _hardware(self, settings: Settings) -> Hardware:
        hardware = models.choose_hardware(settings.device, settings.dtype, settings.threads)
        for warning in hardware.warnings:
            self._warn(warning)
        if hardware.device.type == "cuda":
            if hardware.device.index:
                what = "the first GPU is used; CUDA_VISIBLE_DEVICES says which one that is"
                self._warn(f"local.device: {what}")
                hardware = replace(hardware, device=torch.device("cuda"))
            if settings.dtype is None and settings.precision is not None:
                chosen = models.choose_hardware(str(hardware.device), settings.precision)
                for warning in chosen.warnings:
                    self._warn(warning)
                return chosen
        elif settings.dtype is None and settings.precision not in (None, "float32"):
            path = f"hyperparameters.parallelism.{'bf16' if settings.precision == 'bfloat16' else 'fp16'}"
            self._warn(f"{path}: this machine trains on its {hardware.device.type}, in float32 (local.dtype decides)")
        return hardware

    def _longest(self, settings: Settings, reader: Reader) -> int:
        context = reader.context or settings.longest or LONGEST
        if settings.longest is not None and settings.longest > context:
            what = f"{settings.model} reads {context} tokens, so that is the limit"
            self._warn(f"hyperparameters.sequence_length: {what}")
        return min(settings.longest or LONGEST, context)

    def _prepare(self, file: StoredFile, reader: Reader, longest: int, role: str, examples: int) -> Prepared:
        with self._bench.data(file).open("rb") as lines:
            place = self._rows / f"{role}.arrow"
            prepared = prepare(lines, reader, longest, place, examples=examples, go_on=self._stop.check)
        if not prepared.used:
            reasons = "; ".join(f"{count} × {reason}" for reason, (count, _) in prepared.unfit.items())
            remedy = "; see hyperparameters.sequence_length" if f"first {longest} tokens" in reasons else ""
            raise TrainingFailed(f"no row of {file.filename} can be trained on: {reasons or 'it has none'}{remedy}")
        for reason, (count, line) in prepared.unfit.items():
            self._warn(f"{count} of {prepared.rows} {role} rows left out: {reason}; the first is line {line}")
        if prepared.cut:
            what = f"{prepared.cut} of {prepared.rows} {role} rows have more than {longest} tokens and were cut there"
            where = f"the longest has {prepared.longest}, line {prepared.longest_line}"
            self._warn(f"{what}; {where} (hyperparameters.sequence_length)")
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

    # ---- the run

    def _train(self, resolved: Resolved, reader: Reader, ready: Ready) -> None:
        settings, held_out = ready.settings, ready.held_out
        self._tell_settings(ready)
        checkpoint = self._checkpoint
        shown = (held_out or ready.training).examples
        if checkpoint is None:
            self._samples(reader, ready, shown, "before")
        else:
            self._note("resumed", f"Going on after step {checkpoint.step}, from its checkpoint.", step=checkpoint.step)
        after = checkpoint.step if checkpoint else 0
        best = None
        if held_out is not None and settings.evaluation.keep_best:
            greater = settings.evaluation.greater_is_better
            best = BestWeights(self._folder.path / "best.safetensors", greater_is_better=greater)
            best.take_up(after)
        with TensorBoard(self._folder, after=after) as board:
            loop = Loop(ready, self._checkpoints, best, _Listener(self, ready.steps, board))
            with worded(settings, loop, self._folder.path):
                loop.run(checkpoint, self._folder.checkpoints)
                if best is not None:
                    self._put_best_back(best, ready)
        loss = loop.last["train.loss"]
        self._note("training.finish", f"Trained {ready.steps} steps; the last loss was {loss:.4f}.", **loop.last)
        self._samples(reader, ready, shown, "after")
        told = self._provenance(resolved, ready, loop.last, best)
        models.save(ready.model, ready.loaded, self._folder.model, told, merge=settings.merge)
        self._checkpoints.remove()
        if best is not None:
            best.remove()

    def _put_best_back(self, best: BestWeights, ready: Ready) -> None:
        found = best.put_back(ready.model)
        what = f"The weights of step {found.step} are kept, whose {ready.settings.evaluation.metric} was the best"
        self._note("best", f"{what}: {found.value:.4f}.", step=found.step, value=found.value)

    # ---- what is told

    def step(self, step: int, total: int, points: Mapping[str, float]) -> None:
        """Tell that a step is done."""
        message = f"Step {step} of {total}: loss {points['train.loss']:.4f}."
        self._say(Step(step=step, total=total, points=points, message=message))
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
        if self._checkpoint is None:  # else it was said by the worker that died
            self._say(Note(type="warning", message=message, level="warning"))

    def _tell_settings(self, ready: Ready) -> None:
        settings, hardware = ready.settings, ready.hardware
        weights = list(ready.model.parameters())
        whole = sum(weight.numel() for weight in weights)
        trained = sum(weight.numel() for weight in weights if weight.requires_grad)
        batch = settings.batch
        dtype = str(hardware.dtype).removeprefix("torch.")
        at_once = f" ({batch.at_once} at once)" if batch.times > 1 else ""
        self._note(
            "settings",
            f"Training {trained:,} of {whole:,} parameters of {settings.model} ({settings.method.value}) on "
            f"{hardware.device}, {dtype}: {ready.steps} steps of {batch.rows} rows{at_once}, "
            f"learning rate {settings.learning_rate:g}.",
            method=settings.method.value,
            parameters=whole,
            parameters_trained=trained,
            device=str(hardware.device),
            dtype=dtype,
            seed=settings.seed,
            rows=ready.training.used,
            total_steps=ready.steps,
            rows_per_step=batch.rows,
            rows_at_once=batch.at_once,
            learning_rate=settings.learning_rate,
            warmup_ratio=settings.warmup_ratio,
            weight_decay=settings.weight_decay,
        )

    def _samples(self, reader: Reader, ready: Ready, chats: list[Chat], when: str) -> None:
        speaker = Speaker(ready.loaded.tokenizer, ready.hardware, self._stop.check)
        for chat in chats:
            asked, wanted = (_text(chat.messages[index]) for index in (chat.last_answer - 1, chat.last_answer))
            try:
                prompt = reader.prompt(chat)
            except Unfit:  # a template may take a chat only when it is whole
                continue
            with worded(None, None, self._folder.path):
                said = speaker.answer(ready.model, prompt)
            data = {"when": when, "asked": asked, "wanted": wanted, "said": said}
            self._note("sample", f"{when.capitalize()}: {_short(asked)} → {_short(said)}", **data)

    def _provenance(
        self, resolved: Resolved, ready: Ready, last: Mapping[str, float], best: BestWeights | None
    ) -> dict[str, object]:
        return models.provenance(
            ready.loaded.source,
            ready.hardware,
            ready.settings.method,
            config=resolved.table,
            seed=ready.settings.seed,
            job=self._job.id,
            claims=self._job.claims,
            training_data=_data(self._training, ready.training),
            validation_data=_data(self._validation, ready.held_out),
            steps=ready.steps,
            rows_per_step=ready.settings.batch.rows,
            learning_rate=ready.settings.learning_rate,
            metrics=last,
            best_step=best.best.step if best and best.best else None,
        )


class _Listener:
    """Tells a job's steps, and draws them."""

    def __init__(self, training: Training, total: int, board: TensorBoard) -> None:
        self._training = training
        self._total = total
        self._board = board
        self.looked = training.looked
        self.go_on = training.go_on

    def step(self, step: int, points: Mapping[str, float]) -> None:
        self._board.add(step, points)
        self._training.step(step, self._total, points)


def _data(file: StoredFile | None, rows: Prepared | None) -> dict[str, object] | None:
    """A file, and what of it was used."""
    if file is None or rows is None:
        return None
    return {
        "file": file.id,
        "filename": file.filename,
        "sha256": file.blob.sha256,
        "bytes": file.blob.size,
        "rows": rows.rows,
        "rows_used": rows.used,
        "tokens": rows.tokens,
        "tokens_learnt": rows.learnt,
    }


def _text(message: Mapping[str, Any]) -> str:
    """What a message says, calls of tools included."""
    functions = [call["function"] for call in message.get("tool_calls", ())]
    calls = [f"{call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})" for call in functions]
    return "\n".join(filter(None, (message["content"], *calls)))


def _short(text: str, longest: int = 80) -> str:
    line = " ".join(text.split())
    return f'"{line if len(line) <= longest else line[: longest - 1] + "…"}"'
