"""The weights: those that are trained, those that sample, and those that stay as they were."""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from synth_train.adapters.local.background import Stop
from synth_train.adapters.local.models import TINY, Hardware, Loaded, Method, Shelf, adapt, load, lora_config
from synth_train.adapters.local.rl.gspo import Batch, Sequences, batch_of, objective, token_log_probs
from synth_train.adapters.local.rl.sampler import Answer, Ask, sample, seed_of
from synth_train.adapters.local.rl.settings import Settings

_WEIGHTS = "weights.safetensors"
_SAMPLER = "sampler.safetensors"
_OPTIMISER = "optimiser.pt"

BETAS = (0.9, 0.99)
"""Of AdamW. Rewards change what is right to do faster than data does."""


class Update:
    """What one iteration's update did, as means over what it saw."""

    def __init__(self) -> None:
        self.loss = self.kl = self.clipped = self.grad_norm = 0.0
        self.rows = self.steps = self.tokens = 0

    def points(self) -> dict[str, float]:
        """As metrics. Nothing was clipped, and nothing moved, when there was nothing to learn."""
        rows, steps = max(self.rows, 1), max(self.steps, 1)
        return {
            "train.loss": self.loss / steps,
            "train.kl": self.kl / rows,
            "train.clip_share": self.clipped / rows,
            "train.grad_norm": self.grad_norm / steps,
        }


class Policy:
    """A model that is sampled and trained.

    When weights are synced after every iteration, sampler and trainer are one model, used in turn. Else the sampler
    has its own copy of the weights that are trained; frozen ones are shared.
    """

    def __init__(self, settings: Settings, shelf: Shelf, hardware: Hardware) -> None:
        """Load the model.

        Raises:
            TrainingFailed: it cannot be had.
        """
        self._settings, self._hardware = settings, hardware
        self._in_use = threading.Lock()
        self.loaded: Loaded = load(shelf.find(settings.model), hardware, settings.method)
        full = settings.method is Method.FULL
        self._reference = _frozen(copy.deepcopy(self.loaded.model)) if settings.reference and full else None
        self.model: PreTrainedModel | PeftModel = (
            self.loaded.model if full else adapt(self.loaded, lora_config(settings.lora), seed=settings.seed)
        )
        self._sampler: nn.Module = self.model
        if settings.sync_every > 1:
            shared = {id(weight): weight for weight in self.model.parameters() if not weight.requires_grad}
            self._sampler = copy.deepcopy(self.model, shared)
            self._sampler.eval()
        self._trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self._optimiser = torch.optim.AdamW(self._trained, lr=settings.learning_rate, betas=BETAS, weight_decay=0.0)
        self.context = min(settings.context or longest_text(self.loaded), longest_text(self.loaded))
        self.warnings = tuple(_warnings(settings, self.loaded))
        """What does not go well together with this model."""
        self._pad = int(self.loaded.tokenizer.pad_token_id or 0)
        self._ends = ends_of(self.loaded)

    def answer(self, asks: Sequence[Ask], stop: Stop) -> list[Answer]:
        """Sample, with the weights as they were last synced."""
        with self._in_use:
            self._sampler.eval()
            return sample(
                self._sampler,
                self.loaded.tokenizer,
                self._ends,
                self._hardware,
                asks,
                stopping=lambda: stop.asked,
            )

    def learn(self, rollouts: Sequence[Sequence[Sequences]], iteration: int, stop: Stop) -> Update:
        """One update: a pass over the rollouts of an iteration, in minibatches, with an optimiser step for each.

        What happens depends on the seed and the iteration only, so that it is the same after a restart.
        """
        update = Update()
        with self._in_use:  # an answer to a rollout that was given up may still be on its way
            torch.manual_seed(seed_of(self._settings.seed, "update", iteration))
            self.model.train()
            for minibatch in _shares(torch.randperm(len(rollouts)).tolist(), self._settings.minibatches):
                self._step([rollouts[index] for index in minibatch], update, stop)
        return update

    def sync(self) -> None:
        """Let the sampler have the weights that are trained."""
        if self._sampler is not self.model:
            with torch.no_grad():
                for theirs, ours in zip(_trainable(self._sampler, self.model), self._trained, strict=True):
                    theirs.copy_(ours)

    def save(self, folder: Path) -> None:
        """All that is needed to go on."""
        save_file(self._named(self.model), folder / _WEIGHTS)
        if self._sampler is not self.model:
            save_file(self._named(self._sampler), folder / _SAMPLER)
        torch.save(self._optimiser.state_dict(), folder / _OPTIMISER)

    def restore(self, folder: Path) -> None:
        """Go on from what was saved."""
        self._put(self.model, folder / _WEIGHTS)
        if self._sampler is not self.model:
            self._put(self._sampler, folder / _SAMPLER)
        self._optimiser.load_state_dict(torch.load(folder / _OPTIMISER, weights_only=True))

    def _step(self, rollouts: Sequence[Sequence[Sequences]], update: Update, stop: Stop) -> None:
        """One optimiser step. What has no advantage has no gradient either, unless there is a reference."""
        weighted = [
            dataclasses.replace(one, weight=1.0 / (len(rollouts) * len(turns)))
            for turns in rollouts
            for one in turns
            if one.advantage or self._settings.reference
        ]
        if not weighted:
            return
        self._optimiser.zero_grad()
        for chunk in self._chunks(weighted):
            stop.check()
            batch = self._batch(chunk)
            with self._hardware.autocast():
                new = token_log_probs(self.model, batch)
            outcome = objective(
                new, batch, self._settings.clip, reference=self._referred(batch), kl_weight=self._settings.kl_weight
            )
            outcome.loss.backward()  # type: ignore[no-untyped-call]
            update.loss += outcome.loss.item()
            update.kl += outcome.kl.item()
            update.clipped += outcome.clipped.item()
            update.rows += len(chunk)
            update.tokens += sum(one.length for one in chunk)
        update.grad_norm += float(torch.nn.utils.clip_grad_norm_(self._trained, self._settings.max_grad_norm))
        update.steps += 1
        self._optimiser.step()

    def _chunks(self, sequences: list[Sequences]) -> Iterator[list[Sequences]]:
        """What goes through the model together: sequences of about the same length, within `max_batch_tokens`."""
        ordered = sorted(sequences, key=lambda one: (one.length, one.prompt, one.completion), reverse=True)
        most = -(-len(ordered) // self._settings.accumulation)
        while ordered:
            rows = min(most, max(1, self._settings.max_batch_tokens // ordered[0].length))
            yield ordered[:rows]
            del ordered[:rows]

    def _batch(self, sequences: Sequence[Sequences]) -> Batch:
        return batch_of(sequences, pad=self._pad, device=self._hardware.device)

    def _referred(self, batch: Batch) -> Tensor | None:
        if not self._settings.reference:
            return None
        with torch.no_grad(), self._hardware.autocast():
            if self._reference is not None:
                return token_log_probs(self._reference, batch)
            assert isinstance(self.model, PeftModel)
            with _without_adapter(self.model):
                return token_log_probs(self.model, batch)

    def _named(self, model: nn.Module) -> dict[str, Tensor]:
        names = {name for name, weight in self.model.named_parameters() if weight.requires_grad}
        return {name: weight.detach().contiguous() for name, weight in model.named_parameters() if name in names}

    def _put(self, model: nn.Module, file: Path) -> None:
        kept = load_file(file, device=str(self._hardware.device))
        with torch.no_grad():
            for name, weight in self._named(model).items():
                weight.copy_(kept[name])


def _frozen(model: PreTrainedModel) -> PreTrainedModel:
    model.requires_grad_(False)
    model.train(False)
    return model


@contextmanager
def _without_adapter(model: PeftModel) -> Iterator[None]:
    model.eval()
    with model.disable_adapter():
        yield
    model.train()


def _trainable(model: nn.Module, like: nn.Module) -> Iterator[nn.Parameter]:
    for weight, twin in zip(model.parameters(), like.parameters(), strict=True):
        if twin.requires_grad:
            yield weight


def _shares(items: list[int], count: int) -> Iterator[list[int]]:
    """`items` in `count` parts of nearly the same size; fewer when there are fewer items."""
    count = min(count, len(items))
    for index in range(count):
        yield items[index * len(items) // count : (index + 1) * len(items) // count]


def _warnings(settings: Settings, loaded: Loaded) -> Iterator[str]:
    if loaded.source.name == TINY and settings.method is not Method.FULL:
        yield f"an adapter on the random weights of {TINY} does not learn: model.trainer_mode should be full here"
    if settings.context is not None and settings.context > longest_text(loaded):
        yield f"vllm.max_model_len is {settings.context}, but {loaded.source.name} reads {longest_text(loaded)} tokens"


def longest_text(loaded: Loaded) -> int:
    """The longest text that a model reads, in tokens."""
    return int(getattr(loaded.model.config, "max_position_embeddings", None) or loaded.tokenizer.model_max_length)


def ends_of(loaded: Loaded) -> frozenset[int]:
    """The tokens that end an answer."""
    told: int | list[int] | None = loaded.model.generation_config.eos_token_id
    ids = told if isinstance(told, list) else [told]
    return frozenset(int(one) for one in (*ids, loaded.tokenizer.eos_token_id) if one is not None)
