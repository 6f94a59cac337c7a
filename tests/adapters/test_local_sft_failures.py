"""What goes wrong with an SFT job on this machine, and what the job says of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import torch
from safetensors import SafetensorError

from support.sft_jobs import Row, Workshop, chat, chats
from synth_train.adapters.local.models import Method
from synth_train.adapters.local.sft import failures, loop
from synth_train.adapters.local.sft.failures import worded
from synth_train.adapters.local.sft.settings import Batch, Settings
from synth_train.domain.model.hosting import Step, TrainingFailed

SETTINGS = Settings(model="tiny", method=Method.FULL, batch=Batch(at_once=8), learning_rate=1e-3)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.delenv("SYNTH_LOCAL_MODELS", raising=False)
    return Workshop(tmp_path)


class At:
    """A run that has come so far."""

    def __init__(self, step: int) -> None:
        self.step = step


def failure(workshop: Workshop, *given: Any, **more: Any) -> str:
    with pytest.raises(TrainingFailed) as failed:
        workshop.train(workshop.task(*given, **more))
    return str(failed.value)


def test_a_file_without_a_fit_row_is_told_with_the_reasons(workshop: Workshop) -> None:
    rows = [b"oops", *(chat("Hi.", "Hello!", weights={1: 0}) for _ in range(3))]
    text = failure(workshop, rows)
    assert text.startswith("no row of chats.jsonl can be trained on: 3 × every answer has weight 0; 1 × no chat")


def test_rows_that_are_all_too_long_point_to_the_sequence_length(workshop: Workshop) -> None:
    text = failure(workshop, [chat("x" * 200, "Hello!")], sequence_length=100)
    assert "1 × no answer within the first 100 tokens; see hyperparameters.sequence_length" in text


def test_rows_that_are_cut_or_left_out_are_warned_of_and_the_rest_is_trained_on(workshop: Workshop) -> None:
    rows: list[Row | bytes] = [*chats(6), chat("Hi.", "x" * 200), b"oops", b"oops"]
    run = workshop.train(workshop.task(rows, sequence_length=100, batch_size=4))
    assert run.warnings == [
        "2 of 9 training rows left out: no chat (`synth-ai data check` tells what is wrong); the first is line 8",
        "1 of 9 training rows have more than 100 tokens and were cut there; the longest has "
        f"{run_longest()}, line 7 (hyperparameters.sequence_length)",
    ]
    assert len(run.steps) == 2
    assert run.notes("data.training")[0].data["rows"] == 7


def run_longest() -> int:
    """Tokens of the long row above: its bytes, two turns with three tokens and two role names around them."""
    return len("user\nHi.\n" + "assistant\n" + "x" * 200 + "\n") + 4


def test_a_model_that_nobody_has_is_told_with_every_place(workshop: Workshop) -> None:
    text = failure(workshop, chats(2), model="no such model")
    assert "no such model" in text
    assert "SYNTH_LOCAL_MODELS" in text


def test_qlora_without_its_gpu_is_refused(workshop: Workshop) -> None:
    text = failure(workshop, chats(2), config={"training": {"use_qlora": True}})
    assert text.startswith("QLoRA needs a CUDA device")


def test_values_that_make_no_sense_are_refused_before_anything_is_loaded(workshop: Workshop) -> None:
    assert (
        failure(workshop, chats(2), weight_decay="much") == "hyperparameters.weight_decay: expected a number, got text"
    )


def test_an_adapter_on_the_output_layer_is_refused_in_words(workshop: Workshop) -> None:
    text = failure(workshop, chats(2), config={"lora": {"target_modules": ["lm_head"]}})
    assert "lm_head" in text


def test_what_this_machine_lacks_is_a_warning_and_the_job_trains(workshop: Workshop) -> None:
    config = {"local": {"device": "cuda:7"}}
    run = workshop.train(workshop.task(chats(4), config=config, sequence_length=9999, parallelism={"bf16": True}))
    warned = "\n".join(run.warnings)
    assert "local.device is 'cuda:7'" in warned
    assert "hyperparameters.parallelism.bf16: this machine trains on its cpu, in float32" in warned
    assert "hyperparameters.sequence_length: tiny reads 4096 tokens, so that is the limit" in warned
    assert run.folder.model.is_dir()


def test_a_full_disk_is_told_as_that(workshop: Workshop) -> None:
    task = workshop.task(chats(600))
    rows = workshop.folder(task.job).path / "rows"
    rows.mkdir()
    (rows / "training.arrow").symlink_to("/dev/full")
    with pytest.raises(TrainingFailed, match=r"no space left on the disk of .*job_1; free some"):
        workshop.train(task)


def test_a_job_whose_folder_is_removed_by_hand_trains_on_and_has_its_model(workshop: Workshop) -> None:
    config = {"local": {"checkpoint_steps": 2}, "training": {"validation": {"enabled": True}}}
    task = workshop.task(chats(32), chats(4), config=config, batch_size=4, eval_steps=5)
    folder = workshop.folder(task.job)
    steps = []
    for happening in workshop.begin(task):
        if isinstance(happening, Step):
            steps.append(happening.step)
            if happening.step == 1:
                shutil.rmtree(folder.path)
    assert steps == list(range(1, 9))
    assert (folder.model / "model.safetensors").is_file()


def test_a_worker_that_died_after_the_model_was_saved_leaves_nothing_to_do(workshop: Workshop) -> None:
    workshop.train(workshop.task(chats(4)))
    again = workshop.train(workshop.task(chats(4), claims=2))
    assert [note.type for note in again.notes("resumed")] == ["resumed"]
    assert again.steps == []


def test_a_worker_that_died_before_its_first_checkpoint_begins_again(workshop: Workshop) -> None:
    first = workshop.train(workshop.task(chats(16), batch_size=4, n_epochs=10), until_step=2)
    again = workshop.train(workshop.task(chats(16), batch_size=4, n_epochs=10, claims=2), until_step=2)
    assert list(again.losses) == [1, 2]
    assert again.losses == pytest.approx(first.losses, abs=1e-6)


def test_a_checkpoint_that_was_not_finished_is_not_gone_on_from(workshop: Workshop) -> None:
    config = {"local": {"checkpoint_steps": 2}}
    workshop.train(workshop.task(chats(24), config=config, batch_size=4, n_epochs=3), until_step=5)
    checkpoints = workshop.home.path / "jobs" / "job_1" / "checkpoints"
    [kept] = [int(path.name.removeprefix("step-")) for path in checkpoints.iterdir()]
    assert 4 <= kept < 18  # the trainer may be a little ahead of who listens
    (checkpoints / "step-18.new").mkdir()
    again = workshop.train(workshop.task(chats(24), config=config, batch_size=4, n_epochs=3, claims=2))
    assert list(again.losses) == list(range(kept + 1, 19))


def test_what_the_worker_that_died_has_warned_of_is_not_said_again(workshop: Workshop) -> None:
    given: dict[str, Any] = {"config": {"local": {"checkpoint_steps": 2}}, "batch_size": 4, "sequence_length": 9999}
    first = workshop.train(workshop.task(chats(16), **given), until_step=3)
    again = workshop.train(workshop.task(chats(16), claims=2, **given))
    assert len(first.warnings) == 1
    assert again.warnings == []


def test_checkpoints_come_with_time_when_no_steps_are_given(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_AFTER", 0.0)
    monkeypatch.setattr(loop, "CHECKPOINT_SHARE", 0)
    workshop.train(workshop.task(chats(24), batch_size=4, n_epochs=3), until_step=3)
    checkpoints = workshop.home.path / "jobs" / "job_1" / "checkpoints"
    assert any(path.name.removeprefix("step-").isdigit() for path in checkpoints.iterdir())


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_is_told_with_what_to_try(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed) as failed, worded(SETTINGS, At(3), tmp_path):
        raise error
    text = str(failed.value)
    assert text.startswith("the memory did not suffice at step 4, with 8 rows at once")
    for remedy in ("per_device_batch", "sequence_length", "activation_checkpointing", 'training.mode = "lora"'):
        assert remedy in text


def test_what_is_done_already_is_not_among_the_remedies(tmp_path: Path) -> None:
    settings = Settings(model="tiny", method=Method.LORA, batch=Batch(at_once=1), recompute=True, learning_rate=1e-3)
    with pytest.raises(TrainingFailed) as failed, worded(settings, At(0), tmp_path):
        raise MemoryError
    assert str(failed.value).endswith("try a smaller hyperparameters.sequence_length")
    with pytest.raises(TrainingFailed, match="take a smaller one"), worded(None, None, tmp_path):
        raise MemoryError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("[enforce fail at inline_container.cc] . PytorchStreamWriter failed writing file"),
            "no space left",
        ),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "no space left"),
        (SafetensorError("I/O error: Is a directory"), "cannot be written or read: I/O error: Is a directory"),
    ],
)
def test_what_torch_and_safetensors_say_of_a_disk_is_put_in_words(
    error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "_SPARE", 2**62)  # as if the disk were full
    with pytest.raises(TrainingFailed, match=words), worded(SETTINGS, At(3), tmp_path):
        raise error


def test_a_bug_stays_a_bug(tmp_path: Path) -> None:
    for bug in (RuntimeError("shape mismatch"), KeyError("x"), OSError("no errno")):
        with pytest.raises(type(bug)), worded(SETTINGS, At(1), tmp_path):
            raise bug


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(TrainingFailed, match="cannot be written or read: Permission denied"),
        worded(None, None, tmp_path),
    ):
        raise PermissionError(13, "Permission denied")


def test_bf16_and_float32_jobs_follow_each_other_in_one_process(workshop: Workshop) -> None:
    def task(job: str, dtype: str) -> Any:
        return workshop.task(chats(4), job=job, config={"local": {"dtype": dtype}})

    runs = [
        workshop.train(task(f"job_{index}", dtype)) for index, dtype in enumerate(("float32", "bfloat16", "float32"))
    ]
    assert runs[0].losses == runs[2].losses != runs[1].losses
    assert json.loads((runs[1].folder.model / "provenance.json").read_text())["dtype"] == "bfloat16"


def test_activations_that_are_computed_again_change_no_loss(workshop: Workshop) -> None:
    kept = workshop.train(workshop.task(chats(16), batch_size=4))
    again = workshop.train(
        workshop.task(chats(16), job="job_2", batch_size=4, parallelism={"activation_checkpointing": True})
    )
    assert again.losses == pytest.approx(kept.losses, abs=1e-5)
