"""The GSPO objective against numbers worked out by hand, and against TRL's."""

from __future__ import annotations

import dataclasses
import importlib
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import torch
from torch import Tensor
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from synth_train.adapters.local.models import TINY, Method, Source, choose_hardware, load, tiny_model, tiny_tokenizer
from synth_train.adapters.local.rl.gspo import (
    Batch,
    Clip,
    Sequences,
    advantages,
    batch_of,
    objective,
    token_log_probs,
)

datasets: Any = importlib.import_module("datasets")  # has no types

CPU = torch.device("cpu")
CLIP = Clip(low=0.1, high=0.2)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


def rows(*lengths: int) -> Batch:
    """Sequences whose old log-probabilities are -1 throughout, with advantage 1 and equal weights."""
    return batch_of(
        [
            Sequences(
                prompt=[1],
                completion=[2] * length,
                old=[-1.0] * length,
                temperature=1.0,
                advantage=1.0,
                weight=1 / len(lengths),
            )
            for length in lengths
        ],
        pad=0,
        device=CPU,
    )


def moved(batch: Batch, *by: float) -> Tensor:
    """New log-probabilities: the old ones, each row moved by so much per token."""
    return (batch.old + torch.tensor(by).unsqueeze(-1)).requires_grad_()


def test_advantages_are_distances_from_the_mean_in_sample_deviations() -> None:
    # mean 1.5, deviation sqrt((2.25 + .25 + .25 + 2.25) / 3)
    assert advantages([0.0, 1.0, 2.0, 3.0]) == pytest.approx([-1.161895, -0.387298, 0.387298, 1.161895], abs=1e-6)


@pytest.mark.parametrize("rewards", [[0.5, 0.5, 0.5], [0.1 + 0.2, 0.3], [7.0]])
def test_a_group_of_equal_rewards_teaches_nothing(rewards: list[float]) -> None:
    assert advantages(rewards) == [0.0] * len(rewards)


def test_the_ratio_is_that_of_the_whole_sequence_however_long_it_is() -> None:
    batch = rows(2, 5)
    outcome = objective(moved(batch, 0.05, 0.05), batch, CLIP)
    assert outcome.loss.item() == pytest.approx(-math.exp(0.05))


def test_what_is_not_in_the_completion_does_not_count() -> None:
    batch = rows(1, 3)
    new = torch.tensor([[-0.95, 123.0, -77.0], [-0.95, -0.95, -0.95]])
    assert objective(new, batch, CLIP).loss.item() == pytest.approx(-math.exp(0.05), rel=1e-5)


def test_the_gradient_of_a_token_is_its_share_of_the_sequence() -> None:
    batch = rows(2, 4)
    new = moved(batch, 0.1, 0.0)
    objective(new, batch, CLIP).loss.backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    # weight 1/2, times the ratio, over the tokens of the row
    assert new.grad[0, :2].tolist() == pytest.approx([-0.5 * math.exp(0.1) / 2] * 2)
    assert new.grad[1].tolist() == pytest.approx([-0.5 / 4] * 4)


@pytest.mark.parametrize(
    ("by", "advantage", "loss", "clipped"),
    [
        (0.30, 1.0, -1.2, True),  # risen too far: nothing more to gain
        (-0.30, 1.0, -math.exp(-0.3), False),  # fallen though it is good: brought back
        (-0.30, -1.0, 0.9, True),  # fallen too far: nothing more to gain
        (0.30, -1.0, math.exp(0.3), False),  # risen though it is bad: brought back
        (0.10, 1.0, -math.exp(0.1), False),
    ],
)
def test_a_ratio_stops_to_count_only_where_that_would_reward_going_on(
    by: float, advantage: float, loss: float, clipped: bool
) -> None:
    batch = batch_of(
        [Sequences(prompt=[1], completion=[2, 2], old=[-1.0, -1.0], temperature=1.0, advantage=advantage)],
        pad=0,
        device=CPU,
    )
    new = moved(batch, by)
    outcome = objective(new, batch, CLIP)
    outcome.loss.backward()  # type: ignore[no-untyped-call]
    assert outcome.loss.item() == pytest.approx(loss, rel=1e-5)
    assert bool(outcome.clipped.item()) is clipped
    assert new.grad is not None
    assert bool((new.grad == 0).all()) is clipped


def test_without_a_reference_the_divergence_is_from_the_policy_that_sampled_and_costs_nothing() -> None:
    batch = rows(2)
    outcome = objective(moved(batch, 0.1), batch, CLIP)
    assert outcome.kl.item() == pytest.approx(math.exp(0.1) - 0.1 - 1, rel=1e-4)
    assert outcome.loss.item() == pytest.approx(-math.exp(0.1))


def test_with_a_reference_the_divergence_from_it_adds_to_the_loss() -> None:
    batch = rows(2)
    new = moved(batch, 0.0)
    reference = (batch.old + torch.tensor([[0.2, -0.2]])).detach()
    outcome = objective(new, batch, CLIP, reference=reference, kl_weight=0.5)
    apart = ((math.exp(0.2) - 0.2 - 1) + (math.exp(-0.2) + 0.2 - 1)) / 2
    assert outcome.kl.item() == pytest.approx(apart, rel=1e-4)
    assert outcome.loss.item() == pytest.approx(-1 + 0.5 * apart, rel=1e-5)
    outcome.loss.backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    # of -ratio: -1/2 each; of the divergence, through new: 0.5 * (1 - exp(ref - new)) / 2
    expected = [-0.5 + 0.25 * (1 - math.exp(0.2)), -0.5 + 0.25 * (1 - math.exp(-0.2))]
    assert new.grad[0].tolist() == pytest.approx(expected, rel=1e-4)


def test_padding_changes_no_log_probability() -> None:
    model = tiny_model()
    one = Sequences(prompt=[5, 6, 7], completion=[8, 9], old=[0.0, 0.0], temperature=1.3, advantage=1.0)
    long = Sequences(
        prompt=list(range(20)), completion=list(range(30, 50)), old=[0.0] * 20, temperature=0.7, advantage=1.0
    )
    with torch.no_grad():
        alone = token_log_probs(model, batch_of([one], pad=256, device=CPU))
        beside = token_log_probs(model, batch_of([one, long], pad=256, device=CPU))
    assert beside[0, :2].tolist() == pytest.approx(alone[0].tolist(), abs=1e-5)


def no_reward(completions: list[str], **_: Any) -> list[float | None]:
    return [None for _ in completions]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_loss_and_gradient_are_those_of_trl(tmp_path: Path, beta: float) -> None:
    hardware = choose_hardware("cpu", "float32", 1)
    ours = load(Source(name=TINY, folder=None), hardware, Method.FULL).model
    theirs = load(Source(name=TINY, folder=None), hardware, Method.FULL).model
    chance = torch.Generator().manual_seed(3)

    def tokens(count: int) -> list[int]:
        return [int(token) for token in torch.randint(0, 256, (count,), generator=chance)]

    made = [
        Sequences(
            prompt=tokens(before),
            completion=tokens(after),
            old=[0.0] * after,
            temperature=1.0,
            advantage=advantage,
            weight=0.25,
        )
        for before, after, advantage in ((7, 5, 1.2), (3, 9, -0.7), (10, 2, 0.4), (6, 9, -0.9))
    ]
    batch = batch_of(made, pad=256, device=CPU)
    with torch.no_grad():
        at_first = token_log_probs(ours, batch)
        old = at_first + torch.linspace(-0.4, 0.3, 4).unsqueeze(-1)  # so that rows are clipped on either side
        reference = at_first + 0.2 * torch.randn(at_first.shape, generator=chance)
    batch = dataclasses.replace(batch, old=old)
    outcome = objective(
        token_log_probs(ours, batch), batch, CLIP, reference=reference if beta else None, kl_weight=beta
    )
    outcome.loss.backward()  # type: ignore[no-untyped-call]

    trainer: Any = GRPOTrainer(
        model=theirs,
        processing_class=tiny_tokenizer(),
        reward_funcs=no_reward,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a"] * 4}),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            importance_sampling_level="sequence",
            loss_type="grpo",
            use_bias_correction_kl=False,
            epsilon=CLIP.low,
            epsilon_high=CLIP.high,
            temperature=1.0,
            num_generations=4,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=1,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            report_to=[],
        ),
    )
    width = batch.mask.shape[1]
    trainer.current_gradient_accumulation_steps = 1
    trainer.beta = beta  # given to the config, it would have TRL look for a reference on the hub
    loss = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": batch.ids[:, :-width],
            "prompt_mask": batch.attention[:, :-width],
            "completion_ids": batch.ids[:, -width:],
            "completion_mask": batch.mask.long(),
            "advantages": batch.advantage,
            "old_per_token_logps": old,
            "ref_per_token_logps": reference,
        },
    )
    loss.backward()

    assert outcome.clipped.item() > 0
    assert outcome.loss.item() == pytest.approx(loss.item(), abs=1e-5)
    for (name, mine), (_, other) in zip(ours.named_parameters(), trainer.model.named_parameters(), strict=True):
        assert mine.grad is not None
        assert torch.allclose(mine.grad, other.grad, atol=1e-5), name
