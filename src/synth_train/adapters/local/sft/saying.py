"""What the model answers: for people, who want to see that it has learnt something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from peft import PeftModel
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase, StoppingCriteria
from transformers.generation.stopping_criteria import StoppingCriteriaList

from synth_train.adapters.local.models import Hardware

LONGEST_ANSWER = 64
"""Tokens."""

LONGEST_WAIT = 5.0
"""Seconds for one answer. A large model on a CPU is shown for what it is: it did not get farther."""


class Speaker:
    """Lets a model answer, always in the same way: the likeliest token, one after the other."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, hardware: Hardware, go_on: Callable[[], None]) -> None:
        self._tokenizer = tokenizer
        self._hardware = hardware
        self._go_on = go_on

    def answer(self, model: PreTrainedModel | PeftModel, prompt: list[int]) -> str:
        """What the model says after a prompt."""
        ids = torch.tensor([prompt], device=self._hardware.device)
        ends = model.generation_config.eos_token_id
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            max_new_tokens=LONGEST_ANSWER,
            max_time=LONGEST_WAIT,
            eos_token_id=ends if ends is not None else self._tokenizer.eos_token_id,
            pad_token_id=self._tokenizer.pad_token_id,
        )
        was_training = model.training
        model.train(False)
        try:
            with torch.no_grad(), self._hardware.autocast():
                made = model.generate(  # type: ignore[operator]
                    ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=config,
                    stopping_criteria=StoppingCriteriaList([_Asking(self._go_on)]),
                )
        finally:
            model.train(was_training)
        return cast(str, self._tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True)).strip()


class _Asking(StoppingCriteria):
    """Asks after every token whether to go on; what it raises ends the answer."""

    def __init__(self, go_on: Callable[[], None]) -> None:
        self._go_on = go_on

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        self._go_on()
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
