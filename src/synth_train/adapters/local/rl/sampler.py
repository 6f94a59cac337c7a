"""Sampling from the policy: many requests at once, each with chance of its own."""

from __future__ import annotations

import hashlib
import inspect
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated

import torch
from msgspec import Meta
from peft import PeftModel
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerBase

from synth_train.adapters.local.models import Hardware
from synth_train.adapters.local.rl.gspo import log_probs_of


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are chosen."""

    temperature: Annotated[float, Meta(ge=0)] = 1.0
    """0 takes the likeliest token."""
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0)] = 0
    """0 for all."""
    repetition_penalty: Annotated[float, Meta(gt=0)] = 1.0
    max_tokens: Annotated[int, Meta(ge=1)] = 512
    stop: tuple[str, ...] = ()
    """Texts that end an answer; they are in its tokens, and not in its text."""

    @property
    def scale(self) -> float:
        """What logits are divided by before their log-probabilities are taken, here and in training."""
        return self.temperature or 1.0


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request."""

    prompt: Sequence[int]
    sampling: Sampling
    seed: int
    """Decides what is drawn, whatever else is sampled at the same time."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was sampled."""

    tokens: tuple[int, ...]
    """The token that ends it included."""
    log_probs: tuple[float, ...]
    """One per token, under the whole distribution at `Sampling.scale`: before top-p, top-k and the penalty."""
    text: str
    """Without the token or the text that ends it."""
    finish: str
    """`stop` or `length`."""


def seed_of(*parts: object) -> int:
    """A seed that depends on all of its parts and on nothing else."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass
class _Row:
    """One request while it is answered."""

    ask: Ask
    chance: Tensor
    """A number in [0, 1) for each token, on the CPU."""
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: str = ""
    text: str | None = None


def sample(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    ends: frozenset[int],
    hardware: Hardware,
    asks: Sequence[Ask],
    *,
    stopping: Callable[[], bool] = lambda: False,
) -> list[Answer]:
    """Answer all of `asks`, in their order, with one pass over the prompts and one per token after it.

    What a row gets does not depend on the others, but for the last digits of floating point numbers.

    Args:
        ends: tokens that end an answer.
        stopping: asked at every token; once it says so, what is there is the answer.
    """
    rows = live = [_Row(ask, _chances(ask)) for ask in asks]
    # The rollouts of a group ask the same: each prompt is read once, and what was read goes to all who asked it.
    numbers: dict[tuple[int, ...], int] = {}
    wanted = [numbers.setdefault(tuple(ask.prompt), len(numbers)) for ask in asks]
    with torch.no_grad(), hardware.autocast():
        reading = _Reading(model, hardware.device)
        logits = reading.prompts([*numbers], int(tokenizer.pad_token_id or 0))[wanted]
        reading.keep(wanted)
        while True:
            drawn = _draw(logits, live)
            cut = stopping()
            for row in live:
                _look(row, tokenizer, ends, cut)
            kept = [index for index, row in enumerate(live) if not row.finish]
            if not kept:
                return [_answer(row, tokenizer) for row in rows]
            if len(kept) < len(live):
                live = [live[index] for index in kept]
                drawn = drawn[kept]
                reading.keep(kept)
            logits = reading.tokens(drawn)


class _Reading:
    """Texts that a model is reading, one a row: each token once."""

    def __init__(self, model: torch.nn.Module, device: torch.device) -> None:
        self._model, self._device = model, device
        self._cache = DynamicCache(config=model.config)  # type: ignore[arg-type]
        self._options = {_cache_argument(model): self._cache}

    def prompts(self, prompts: list[tuple[int, ...]], pad: int) -> Tensor:
        """Read the first part of each; gives the logits after it, (rows, vocabulary)."""
        width = max(map(len, prompts))
        ids = [[pad] * (width - len(prompt)) + [*prompt] for prompt in prompts]
        there = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        self._there = torch.tensor(there, device=self._device)
        positions = (self._there.cumsum(-1) - 1).clamp(min=0)
        self._last = positions[:, -1:]
        return self._read(torch.tensor(ids, device=self._device), positions)

    def tokens(self, tokens: Tensor) -> Tensor:
        """Read one more of each."""
        self._there = torch.cat([self._there, self._there.new_ones(len(tokens), 1)], dim=-1)
        self._last = self._last + 1
        return self._read(tokens.unsqueeze(-1), self._last)

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows, in this order; one may come several times."""
        index = torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._there, self._last = self._there[index], self._last[index]

    def _read(self, ids: Tensor, positions: Tensor) -> Tensor:
        logits: Tensor = self._model(
            input_ids=ids,
            attention_mask=self._there,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **self._options,
        ).logits
        return logits[:, -1]


def _cache_argument(model: torch.nn.Module) -> str:
    """What a model calls its cache: transformers gave it a shorter name in 5.x."""
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    return "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"


def _chances(ask: Ask) -> Tensor:
    generator = torch.Generator().manual_seed(ask.seed)
    return torch.rand(ask.sampling.max_tokens, generator=generator, dtype=torch.float64)


def _draw(logits: Tensor, rows: list[_Row]) -> Tensor:
    """The next token of each row; written down in the rows too."""
    logits = logits.float()
    device = logits.device
    scale = torch.tensor([[row.ask.sampling.scale] for row in rows], device=device)
    chance = torch.stack([row.chance[len(row.tokens)] for row in rows]).to(device, torch.float32)
    scores = _restricted(logits, rows) / scale
    cumulated = scores.softmax(-1).cumsum(-1)
    # The last number is 1 but for rounding. Scaled by it, no chance falls behind the last token that may come.
    tokens = (cumulated <= (chance * cumulated[:, -1]).unsqueeze(-1)).sum(-1).clamp(max=logits.shape[-1] - 1)
    greedy = torch.tensor([row.ask.sampling.temperature == 0 for row in rows], device=device)
    tokens = torch.where(greedy, scores.argmax(-1), tokens)
    log_probs = log_probs_of(logits.unsqueeze(1), tokens.unsqueeze(1), scale).squeeze(1)
    for row, token, log_prob in zip(rows, tokens.tolist(), log_probs.tolist(), strict=True):
        row.tokens.append(token)
        row.log_probs.append(log_prob)
    return tokens


def _restricted(logits: Tensor, rows: list[_Row]) -> Tensor:
    """Logits after the repetition penalty, with those of tokens that may not come at minus infinity."""
    samplings = [row.ask.sampling for row in rows]
    if any(sampling.repetition_penalty != 1.0 for sampling in samplings):
        logits = logits.clone()
        for at, row in enumerate(rows):
            seen = torch.tensor(sorted({*row.ask.prompt, *row.tokens}), device=logits.device)
            values = logits[at, seen]
            penalty = row.ask.sampling.repetition_penalty
            logits[at, seen] = torch.where(values > 0, values / penalty, values * penalty)
    if all(sampling.top_p >= 1.0 and not sampling.top_k for sampling in samplings):
        return logits
    size = logits.shape[-1]
    ordered, order = logits.sort(-1, descending=True)
    scale = torch.tensor([[sampling.scale] for sampling in samplings], device=logits.device)
    most = torch.tensor([[sampling.top_k or size] for sampling in samplings], device=logits.device)
    share = torch.tensor([[sampling.top_p] for sampling in samplings], device=logits.device)
    probabilities = (ordered / scale).softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    out = (before >= share) | (torch.arange(size, device=logits.device) >= most)
    out[:, 0] = False
    return logits.masked_fill(torch.zeros_like(out).scatter(-1, order, out), float("-inf"))


def _look(row: _Row, tokenizer: PreTrainedTokenizerBase, ends: frozenset[int], cut: bool) -> None:
    """Whether a row has come to its end."""
    sampling = row.ask.sampling
    if row.tokens[-1] in ends:
        row.finish = "stop"
    elif sampling.stop and (text := _before_stop(row, tokenizer)) is not None:
        row.finish, row.text = "stop", text
    elif cut or len(row.tokens) >= sampling.max_tokens:
        row.finish = "length"


def _before_stop(row: _Row, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The text before the first stop text, once there is one. Only the end is looked at until then."""
    stops = row.ask.sampling.stop
    longest = max(map(len, stops))
    # A token is at least a byte, and a character at most four.
    end = tokenizer.decode(row.tokens[-(4 * longest + 8) :])
    if not any(stop in end for stop in stops):
        return None
    text = _text(tokenizer, row.tokens)
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(found)] if found else None


def _answer(row: _Row, tokenizer: PreTrainedTokenizerBase) -> Answer:
    text = row.text if row.text is not None else _text(tokenizer, row.tokens)
    return Answer(tokens=tuple(row.tokens), log_probs=tuple(row.log_probs), text=text, finish=row.finish)


def _text(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> str:
    return str(tokenizer.decode(tokens, skip_special_tokens=True))


class SamplerStopped(Exception):
    """Nothing is sampled any more."""


class Sampler:
    """Gathers requests that come at about the same time into one batch.

    A batch is begun when there are as many requests as rollouts under way, when it is full, when none has come for
    `window` seconds, and in any case when the first of them has waited ten times as long.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Ask]], list[Answer]],
        *,
        under_way: Callable[[], int],
        window: float = 0.02,
        largest: int = 64,
    ) -> None:
        self._answer, self._under_way, self._window, self._largest = answer, under_way, window, largest
        self._changed = threading.Condition()
        self._waiting: list[tuple[Ask, Future[Answer]]] = []
        self._stopped = False
        self.busy = 0.0
        """Seconds spent on sampling so far."""
        self.tokens = 0
        """Tokens sampled so far."""
        self.failure: Exception | None = None
        """What went wrong first, if something did."""
        self._thread = threading.Thread(target=self._run, name="synth-train sampler", daemon=True)
        self._thread.start()

    def ask(self, ask: Ask) -> Answer:
        """Have an answer sampled; returns when it is there. For any thread.

        Raises:
            SamplerStopped: it was stopped first.
        """
        future: Future[Answer] = Future()
        with self._changed:
            if self._stopped:
                raise SamplerStopped
            self._waiting.append((ask, future))
            self._changed.notify()
        return future.result()

    def stop(self) -> None:
        """Answer nothing any more; who waits gets `SamplerStopped`."""
        with self._changed:
            self._stopped = True
            for _, future in self._waiting:
                future.set_exception(SamplerStopped())
            self._waiting.clear()
            self._changed.notify()
        self._thread.join(5.0)

    @property
    def waiting(self) -> int:
        """How many requests wait for the next batch."""
        return len(self._waiting)

    def _run(self) -> None:
        while batch := self._gather():
            began = time.monotonic()
            try:
                answers = self._answer([ask for ask, _ in batch])
            except Exception as error:  # noqa: BLE001 - it is raised again where the answers are waited for
                self.failure = self.failure or error
                for _, future in batch:
                    future.set_exception(error)
                continue
            self.busy += time.monotonic() - began
            self.tokens += sum(len(answer.tokens) for answer in answers)
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)

    def _gather(self) -> list[tuple[Ask, Future[Answer]]]:
        """The next batch; empty when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            until = time.monotonic() + 10 * self._window
            while not self._enough() and time.monotonic() < until and self._changed.wait(self._window):
                pass
            batch = self._waiting[: self._largest]
            del self._waiting[: self._largest]
            return batch

    def _enough(self) -> bool:
        return self._stopped or len(self._waiting) >= min(self._largest, self._under_way())
