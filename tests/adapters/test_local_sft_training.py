"""SFT on this machine: real training of `tiny`, with one thread and fixed seeds."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer

from support.sft_jobs import Workshop, chats
from support.training_runs import Run
from synth_train.domain.model.hosting import Step, Task, TrainingFailed
from synth_train.domain.model.jobs import JobId

# peft asks transformers for what transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

LORA = {"training": {"mode": "lora"}, "lora": {"r": 4, "dropout": 0.1}}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that has learnt something, for the tests that look at what one leaves."""
    workshop = Workshop(tmp_path_factory.mktemp("learnt"))
    return workshop.train(
        workshop.task(
            chats(200),
            config={"local": {"samples": 3}},
            n_epochs=4,
            batch_size=8,
            learning_rate=3e-3,
            warmup_ratio=0.05,
            weight_decay=0.01,
        )
    )


def local(**more: object) -> dict[str, Any]:
    return {"local": more}


def test_the_loss_falls_below_a_quarter_of_its_start(learnt: Run) -> None:
    losses = list(learnt.losses.values())
    assert len(losses) == 100
    assert sum(losses[-5:]) / 5 < 0.25 * losses[0]


def test_each_step_tells_its_loss_rate_gradient_and_speed_from_step_1_on(learnt: Run) -> None:
    assert [step.step for step in learnt.steps] == list(range(1, 101))
    assert {step.total for step in learnt.steps} == {100}
    for step in learnt.steps:
        assert {"train.loss", "train.learning_rate", "train.grad_norm", "train.tokens_per_second"} <= step.points.keys()
        assert all(math.isfinite(value) for value in step.points.values())
        assert step.points["train.tokens_per_second"] > 0


def test_the_rate_rises_over_the_warm_up_and_then_falls(learnt: Run) -> None:
    rates = [step.points["train.learning_rate"] for step in learnt.steps]
    assert max(rates) == pytest.approx(3e-3)
    assert rates.index(max(rates)) == 5
    assert rates[:6] == sorted(rates[:6])
    assert rates[5:] == sorted(rates[5:], reverse=True)


def test_what_the_model_says_is_shown_before_and_after(learnt: Run) -> None:
    samples = [note.data for note in learnt.notes("sample")]
    assert [sample["when"] for sample in samples] == ["before"] * 3 + ["after"] * 3
    assert [sample["asked"] for sample in samples[:3]] == [sample["asked"] for sample in samples[3:]]
    assert "likes" not in str(samples[0]["said"])
    assert all(" likes " in str(sample["said"]) for sample in samples[3:])


def test_transformers_loads_the_model_and_it_says_what_was_learnt(learnt: Run) -> None:
    model = AutoModelForCausalLM.from_pretrained(learnt.folder.model)
    tokenizer: Any = AutoTokenizer.from_pretrained(learnt.folder.model)
    prompt = tokenizer.apply_chat_template(
        chats(1)[0]["messages"][:1], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**prompt, max_new_tokens=40, do_sample=False)
    said = tokenizer.decode(made[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    assert said == learnt.notes("sample")[3].data["said"]


def test_the_provenance_names_config_data_versions_and_seed(learnt: Run) -> None:
    told = learnt.provenance
    assert told["seed"] == 1
    assert told["config"]["hyperparameters"]["learning_rate"] == 3e-3
    assert told["versions"].keys() >= {"torch", "transformers", "trl", "peft"}
    assert len(told["training_data"]["sha256"]) == 64
    assert (told["training_data"]["rows_used"], told["steps"], told["base"]["name"]) == (200, 100, "tiny")
    assert told["metrics"]["train.loss"] == learnt.losses[100]


def test_only_the_model_and_the_curves_are_left_of_a_job_that_is_done(learnt: Run) -> None:
    left = {path.name for path in learnt.folder.path.iterdir()}
    assert left == {"model", "tensorboard"}


def test_the_curves_can_be_read_by_tensorboard(learnt: Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
        EventAccumulator,
    )

    read = EventAccumulator(str(learnt.folder.path / "tensorboard")).Reload()
    assert {scalar.step: scalar.value for scalar in read.Scalars("train/loss")} == pytest.approx(
        learnt.losses, abs=1e-6
    )


@pytest.mark.parametrize("config", [{}, LORA], ids=["full", "lora"])
def test_a_run_that_goes_on_from_its_checkpoint_has_the_losses_of_an_undisturbed_one(
    workshop: Workshop, config: dict[str, Any]
) -> None:
    def task(**given: Any) -> Task:
        return workshop.task(
            chats(40),
            chats(8),
            config={**config, **local(checkpoint_steps=3)},
            n_epochs=2,
            per_device_batch=4,
            gradient_accumulation_steps=2,
            learning_rate=1e-3,
            evaluation_strategy="steps",
            eval_steps=4,
            **given,
        )

    undisturbed = workshop.train(task(job="job_whole"))
    broken = workshop.train(task(job="job_broken"), until_step=7)
    assert not broken.folder.model.exists()
    [kept] = [int(path.name.removeprefix("step-")) for path in broken.folder.checkpoints.iterdir()]
    assert kept in (6, 9)  # the trainer may be a little ahead of who listens
    resumed = workshop.train(task(job="job_broken", claims=2))
    assert list(resumed.losses) == list(range(kept + 1, 11))
    whole = {step.step: step.points for step in undisturbed.steps}
    for step in (*broken.steps, *resumed.steps):
        for name in ("train.loss", "val.loss", "train.learning_rate", "train.grad_norm"):
            assert step.points.get(name) == pytest.approx(whole[step.step].get(name), abs=1e-6), (step.step, name)
    assert resumed.provenance["best_step"] == undisturbed.provenance["best_step"]


def test_the_same_seed_gives_the_same_curve_and_another_seed_another(workshop: Workshop) -> None:
    def losses(job: str, seed: int) -> dict[int, float]:
        config = {**LORA, "local": {"seed": seed}}
        return workshop.train(workshop.task(chats(24), job=job, config=config, batch_size=4)).losses

    first, second, other = losses("job_1", 5), losses("job_2", 5), losses("job_3", 6)
    assert second == pytest.approx(first, abs=1e-6)
    assert other != pytest.approx(first, abs=1e-3)


def test_an_adapter_is_saved_that_loads_on_its_base(workshop: Workshop) -> None:
    run = workshop.train(workshop.task(chats(16), config=LORA, batch_size=4, learning_rate=1e-2))
    assert (run.folder.model / "adapter_model.safetensors").is_file()
    assert 0 < int(str(run.notes("settings")[0].data["parameters_trained"])) < 100_000
    model = AutoPeftModelForCausalLM.from_pretrained(run.folder.model)
    trained = [weight for name, weight in model.named_parameters() if "lora_B" in name]
    assert trained
    assert all(torch.any(weight != 0) for weight in trained)


def test_an_adapter_is_merged_on_request(workshop: Workshop) -> None:
    config = {"training": {"mode": "lora"}, "local": {"merge": True}}
    run = workshop.train(workshop.task(chats(8), config=config, batch_size=4, learning_rate=1e-2))
    merged = AutoModelForCausalLM.from_pretrained(run.folder.model)
    assert not any("lora" in name for name, _ in merged.named_parameters())
    adapted = AutoPeftModelForCausalLM.from_pretrained(run.folder.model / "adapter")
    ids = torch.arange(20)[None]
    assert torch.allclose(merged(ids).logits, adapted(ids).logits, atol=1e-4)


def test_what_a_job_has_made_is_the_base_of_the_next(workshop: Workshop) -> None:
    first = workshop.train(workshop.task(chats(80), n_epochs=5, batch_size=8, learning_rate=3e-3))
    second = workshop.train(
        workshop.task(chats(80), job="job_2", model="ft:tiny:job_1", batch_size=8, learning_rate=3e-4)
    )
    assert second.losses[1] < 0.3 * first.losses[1]
    assert second.provenance["base"]["name"] == "ft:tiny:job_1"


def test_an_adapter_is_the_base_of_another_and_that_of_a_whole_model(workshop: Workshop) -> None:
    lora = {"training": {"mode": "lora"}}
    first, second, third = (
        workshop.train(
            workshop.task(chats(8), job=job, model=model, config=config, batch_size=8, steps=steps, learning_rate=rate)
        )
        for job, model, config, steps, rate in (
            ("job_1", "tiny", lora, 10, 2e-2),
            ("job_2", "ft:tiny:job_1", lora, 10, 2e-2),
            ("job_3", "ft:tiny:job_2", {}, 1, 1e-9),
        )
    )
    assert first.losses[1] > first.losses[10] + 0.1
    assert second.losses[1] == pytest.approx(first.losses[10], abs=0.1)
    assert third.losses[1] == pytest.approx(second.losses[10], abs=0.1)
    AutoPeftModelForCausalLM.from_pretrained(second.folder.model)


def test_held_out_rows_are_looked_at_after_every_epoch_or_ten_times_in_a_run(workshop: Workshop) -> None:
    def looks(job: str, **hyperparameters: Any) -> list[int]:
        run = workshop.train(workshop.task(chats(20), chats(2), job=job, batch_size=8, **hyperparameters))
        assert run.notes("best") == []
        return [step.step for step in run.steps if "val.loss" in step.points]

    config = {"training": {"validation": {"save_best_model_at_end": False}}}
    assert looks("job_1", n_epochs=3, config=config, evaluation_strategy="epoch") == [3, 6, 9]
    assert looks("job_2", steps=25) == [*range(2, 25, 2), 25]


def test_the_best_weights_are_the_result_when_that_was_asked_for(workshop: Workshop) -> None:
    held_out = chats(10, answer="{name} hates it!")
    run = workshop.train(  # the more it learns that everybody says yes, the less it expects this
        workshop.task(
            chats(30, answer="yes yes yes yes"),
            held_out,
            config={"training": {"validation": {"enabled": True}}},
            n_epochs=8,
            batch_size=10,
            learning_rate=3e-3,
            eval_steps=4,
        )
    )
    looks = {step.step: step.points["val.loss"] for step in run.steps if "val.loss" in step.points}
    best = min(looks, key=looks.__getitem__)
    assert list(looks) == [4, 8, 12, 16, 20, 24]
    assert looks[24] > looks[best] + 0.5
    assert [note.data["step"] for note in run.notes("validation.summary")] == list(looks)
    assert run.provenance["best_step"] == best
    again = workshop.train(
        workshop.task(held_out, job="job_2", model="ft:tiny:job_1", batch_size=10, learning_rate=1e-9)
    )
    assert again.losses[1] == pytest.approx(looks[best], abs=1e-4)


def test_a_job_that_is_stopped_ends_within_seconds_and_leaves_no_model(workshop: Workshop) -> None:
    happenings = workshop.begin(workshop.task(chats(400), n_epochs=50, batch_size=4))
    for happening in happenings:
        if isinstance(happening, Step) and happening.step == 3:
            break
    began = time.monotonic()
    happenings.close()
    assert time.monotonic() - began < 5.0
    assert not [thread for thread in threading.enumerate() if thread.name == "synth-train training"]
    assert not workshop.home.job(JobId("job_1")).model.exists()


def test_a_loss_that_is_no_number_ends_the_job_with_the_way_out(workshop: Workshop) -> None:
    with pytest.raises(TrainingFailed, match=r"loss is no number any more .* lower hyperparameters.learning_rate"):
        workshop.train(workshop.task(chats(40), n_epochs=20, batch_size=8, learning_rate=1e12))
