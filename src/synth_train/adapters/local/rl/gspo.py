"""Group sequence policy optimisation: advantages within a group, and a clipped ratio of whole sequences.

The objective is that of Zheng et al., "Group Sequence Policy Optimization" (2025), and equals TRL's `GRPOTrainer` with
`importance_sampling_level="sequence"` and `loss_type="grpo"`; tests hold it to both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_SAME = 1e-8
"""Rewards that spread less than this are the same."""


def advantages(rewards: Sequence[float]) -> list[float]:
    """How much better each rollout of a group was than its group: reward minus mean, over the sample deviation.

    All 0 when the rewards do not differ: there is nothing to learn from such a group.
    """
    mean = math.fsum(rewards) / len(rewards)
    apart = [reward - mean for reward in rewards]
    deviation = math.sqrt(math.fsum(value * value for value in apart) / (len(rewards) - 1)) if len(rewards) > 1 else 0.0
    return [value / deviation for value in apart] if deviation > _SAME else [0.0] * len(rewards)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sequences side by side, one a row: prompts padded at the left, completions at the right."""

    ids: Tensor
    """Token ids, (rows, prompt + completion)."""
    attention: Tensor
    """1 where there is a token, the same shape."""
    mask: Tensor
    """1.0 where a completion has a token, (rows, completion)."""
    old: Tensor
    """Log-probabilities of the completions' tokens under the policy that sampled them, (rows, completion)."""
    temperature: Tensor
    """What the logits are divided by, (rows, 1)."""
    advantage: Tensor
    """Of the rollout that the row belongs to, (rows,)."""
    weight: Tensor
    """Share of the row in the loss, (rows,); those of one optimiser step add up to at most 1."""


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """One completion and what is known of it, before it is put into a `Batch`."""

    prompt: Sequence[int]
    completion: Sequence[int]
    old: Sequence[float]
    temperature: float
    advantage: float
    weight: float = 1.0

    @property
    def length(self) -> int:
        """Tokens in all."""
        return len(self.prompt) + len(self.completion)


def batch_of(sequences: Sequence[Sequences], *, pad: int, device: torch.device) -> Batch:
    """Sequences as tensors on a device."""
    before = max(len(one.prompt) for one in sequences)
    after = max(len(one.completion) for one in sequences)

    def rows(lists: list[list[float]], dtype: torch.dtype) -> Tensor:
        return torch.tensor(lists, dtype=dtype).to(device)

    def spread(prompt: list[float], completion: Sequence[float], filler: float) -> list[float]:
        return [filler] * (before - len(prompt)) + prompt + [*completion] + [filler] * (after - len(completion))

    return Batch(
        ids=rows([spread([*one.prompt], one.completion, pad) for one in sequences], torch.long),
        attention=rows(
            [spread([1.0] * len(one.prompt), [1.0] * len(one.completion), 0.0) for one in sequences], torch.long
        ),
        mask=rows(
            [[1.0] * len(one.completion) + [0.0] * (after - len(one.completion)) for one in sequences], torch.float
        ),
        old=rows([[*one.old] + [0.0] * (after - len(one.old)) for one in sequences], torch.float),
        temperature=rows([[one.temperature] for one in sequences], torch.float),
        advantage=torch.tensor([one.advantage for one in sequences], dtype=torch.float).to(device),
        weight=torch.tensor([one.weight for one in sequences], dtype=torch.float).to(device),
    )


def token_log_probs(model: torch.nn.Module, batch: Batch) -> Tensor:
    """Log-probability of each token of the completions, (rows, completion); anything where there is none."""
    length = batch.mask.shape[1]
    positions = (batch.attention.cumsum(-1) - 1).clamp(min=0)
    logits = model(
        input_ids=batch.ids,
        attention_mask=batch.attention,
        position_ids=positions,
        logits_to_keep=length + 1,
        use_cache=False,
    ).logits[:, :-1]
    return log_probs_of(logits, batch.ids[:, -length:], batch.temperature)


def log_probs_of(logits: Tensor, ids: Tensor, temperature: Tensor) -> Tensor:
    """Log-probabilities of `ids` under `logits / temperature`, in float32. Sampler and trainer share this."""
    scaled = logits.float() / temperature.unsqueeze(-1)
    return scaled.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - scaled.logsumexp(-1)


@dataclass(frozen=True, kw_only=True)
class Clip:
    """How far the ratio of a sequence may move from 1 before it stops to count."""

    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The loss of a batch, and what to tell of it."""

    loss: Tensor
    """Sum over the rows of weight times loss, to be minimised."""
    clipped: Tensor
    """Rows whose ratio was beyond the clip on the side where it counts."""
    kl: Tensor
    """Sum over the rows of their mean estimate, per token, of the divergence from the reference; from the policy that
    sampled when there is none."""


def objective(
    new: Tensor, batch: Batch, clip: Clip, *, reference: Tensor | None = None, kl_weight: float = 0.0
) -> Outcome:
    """The GSPO loss of a batch.

    The ratio of a sequence is exp of the mean, over its tokens, of new minus old log-probability.

    Args:
        new: log-probabilities under the policy that is trained, with gradient.
        reference: those under the frozen model that it is held close to.
        kl_weight: how much the divergence from `reference` adds to the loss.
    """
    lengths = batch.mask.sum(-1).clamp(min=1.0)

    def mean(values: Tensor) -> Tensor:
        return (values * batch.mask).sum(-1) / lengths

    ratio = torch.exp(mean(new - batch.old))
    gain = torch.min(ratio * batch.advantage, ratio.clamp(1 - clip.low, 1 + clip.high) * batch.advantage)
    loss = -gain
    beyond = torch.where(batch.advantage > 0, ratio > 1 + clip.high, (ratio < 1 - clip.low) & (batch.advantage < 0))
    if reference is None:
        apart = mean(_k3(new - batch.old)).detach()
    else:
        apart = mean(_k3(reference - new))
        loss = loss + kl_weight * apart
    return Outcome(loss=(loss * batch.weight).sum(), clipped=beyond.sum(), kl=apart.detach().sum())


def _k3(log_ratio: Tensor) -> Tensor:
    """Schulman's estimate of a divergence from one sample: never negative, and right on average."""
    return torch.exp(log_ratio) - log_ratio - 1
