"""Models on this machine: found, loaded, adapted, saved and loaded again."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.chat_template_utils import is_chat_template_prefix_preserving, supports_tool_calling

from synth_train.adapters.local import models
from synth_train.adapters.local.models import (
    TINY,
    Hardware,
    Loaded,
    Method,
    Shelf,
    Source,
    adapt,
    choose_hardware,
    load,
    lora_config,
    provenance,
    save,
    tiny_model,
    tiny_tokenizer,
    training_template,
)
from synth_train.domain.model.config.tables import Lora
from synth_train.domain.model.hosting import TrainingFailed

# peft asks transformers for what transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

CPU = Hardware(device=torch.device("cpu"), dtype=torch.float32)
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Grüße 👋"},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "Bye"},
]
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hub is not asked: what is not in the (empty) cache cannot be had."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def tiny(method: Method = Method.FULL) -> Loaded:
    return load(Source(name=TINY, folder=None), CPU, method)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(input_ids=torch.arange(20).unsqueeze(0)).logits
    return found


def touch_adapter(model: PeftModel) -> None:
    """An adapter begins as nothing; make it something."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.02)


def folder_of(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


# tiny


def test_tiny_has_about_a_million_weights_and_they_are_always_the_same() -> None:
    one, other = tiny_model(), tiny_model()
    assert 0.9e6 < sum(weight.numel() for weight in one.parameters()) < 1.1e6
    assert torch.equal(logits(one), logits(other))


def test_making_tiny_leaves_other_chance_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    tiny_model()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("text", ["plain", "Grüße 👋 \n\t<b>", "<tool_call>{}</tool_call>", "\x00\xff"])
def test_tiny_reads_and_writes_every_text(text: str) -> None:
    tokenizer = tiny_tokenizer()
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_the_chat_template_of_tiny_marks_what_the_assistant_says() -> None:
    tokenizer = tiny_tokenizer()
    chat: list[Any] = [
        *CHAT,
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]},
        {"role": "tool", "content": "3"},
        {"role": "assistant", "content": "3."},
    ]
    read: Any = tokenizer.apply_chat_template(chat, tools=[TOOL], return_dict=True, return_assistant_tokens_mask=True)
    marked = [token for token, mark in zip(read["input_ids"], read["assistant_masks"], strict=True) if mark]
    assert tokenizer.decode(marked) == (
        'Hi.<|im_end|><tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>3.<|im_end|>'
    )


def test_the_chat_template_of_tiny_is_one_that_trl_trains_with() -> None:
    loaded = tiny()
    assert supports_tool_calling(loaded.tokenizer)
    assert is_chat_template_prefix_preserving(loaded.tokenizer)
    assert training_template(loaded) == loaded.tokenizer.chat_template


# Hardware


def test_a_cpu_computes_in_float32_unless_told_otherwise() -> None:
    assert choose_hardware("cpu") == CPU
    half = choose_hardware("cpu", "bf16")
    assert half.dtype is torch.bfloat16
    assert half.mixed


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="this machine has one")
@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps"])
def test_a_device_that_is_not_here_is_a_warning_that_names_it(device: str) -> None:
    hardware = choose_hardware(device)
    assert hardware.device.type == "cpu"
    assert hardware.warnings == (f"local.device is {device!r}, which this machine does not have: training on cpu",)


@pytest.mark.parametrize("device", ["gpu", "tpu", "meta", ""])
def test_what_is_no_device_is_refused(device: str) -> None:
    with pytest.raises(TrainingFailed, match=r"local\.device .* there are cuda, mps and cpu"):
        choose_hardware(device)


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(TrainingFailed, match=r"local\.dtype is 'int4': there are float32"):
        choose_hardware("cpu", "int4")


def test_the_number_of_threads_is_as_set_and_else_leaves_a_core_to_others() -> None:
    before = torch.get_num_threads()
    try:
        choose_hardware("cpu", threads=3)
        assert torch.get_num_threads() == 3
        for _ in range(2):
            choose_hardware("cpu")
            assert torch.get_num_threads() == max(1, models._THREADS - 1)
    finally:
        torch.set_num_threads(before)


# Finding


def test_models_are_found_on_the_shelf_first_then_by_their_path(tmp_path: Path) -> None:
    shelf = Shelf(
        folder=tmp_path / "shelf", fine_tuned=lambda name: tmp_path / "mine" if name == "ft:a:job_1" else None
    )
    for place in ("shelf/org/name", "other", "mine"):
        (tmp_path / place).mkdir(parents=True)
    assert shelf.find("org/name").folder == tmp_path / "shelf/org/name"
    assert shelf.find(str(tmp_path / "other")).folder == tmp_path / "other"
    assert shelf.find("ft:a:job_1").folder == tmp_path / "mine"
    assert shelf.find(TINY).folder is None


def test_a_fine_tuned_model_that_is_gone_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(TrainingFailed, match="the model ft:tiny:job_9 was not made by this backend, or its folder is"):
        Shelf().find("ft:tiny:job_9")


def test_a_model_that_cannot_be_had_offline_names_every_place(tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed) as failed:
        Shelf(folder=tmp_path).find("Qwen/Qwen3-0.6B")
    said = str(failed.value)
    for place in ("Qwen/Qwen3-0.6B", f"not in {tmp_path} (SYNTH_LOCAL_MODELS)", "Hugging Face cache", "Go online once"):
        assert place in said


@pytest.mark.parametrize("name", ["no such/model/at/all", "a b", "./missing"])
def test_what_can_be_no_model_is_told_so(name: str) -> None:
    with pytest.raises(TrainingFailed, match=r"it is no folder here.*no Hugging Face id"):
        Shelf().find(name)


def test_several_gguf_files_are_a_question_that_is_not_guessed(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(TrainingFailed, match="several GGUF files"):
        Shelf().find(str(tmp_path))
    (tmp_path / "b.gguf").unlink()
    assert Shelf().find(str(tmp_path)).gguf == "a.gguf"


# Loading


def test_a_saved_folder_is_loaded_as_it_was(tmp_path: Path) -> None:
    model = tiny_model()
    loaded = load(Shelf().find(str(folder_of(model, tmp_path / "m"))), CPU, Method.FULL)
    assert torch.equal(logits(loaded.model), logits(model))
    assert all(weight.requires_grad for weight in loaded.model.parameters())


def test_a_model_without_a_chat_template_is_refused_by_name(tmp_path: Path) -> None:
    folder = folder_of(tiny_model(), tmp_path / "m")
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(TrainingFailed, match="has no chat template"):
        load(Shelf().find(str(folder)), CPU, Method.FULL)


def test_a_model_without_a_padding_token_pads_with_its_end(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = None
    tiny_model().save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    assert load(Shelf().find(str(tmp_path / "m")), CPU, Method.FULL).tokenizer.pad_token == "<|im_end|>"


@pytest.mark.parametrize("broken", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_broken_folder_is_named(tmp_path: Path, broken: str) -> None:
    folder = folder_of(tiny_model(), tmp_path / "m")
    (folder / broken).write_bytes(b"{")
    with pytest.raises(TrainingFailed, match=f"cannot be loaded from {folder}"):
        load(Shelf().find(str(folder)), CPU, Method.FULL)


def test_qlora_is_refused_where_it_cannot_be_had() -> None:
    with pytest.raises(TrainingFailed, match=r"QLoRA needs a CUDA device \(this is cpu\)"):
        tiny(Method.QLORA)


# Adapters and saving


def test_an_adapter_is_as_its_table_says() -> None:
    usual: Any = lora_config(Lora())
    assert (usual.r, usual.lora_alpha, usual.lora_dropout, usual.target_modules) == (16, 32.0, 0.0, "all-linear")
    listed: Any = lora_config(Lora(target_modules=["all-linear"]))
    assert listed.target_modules == "all-linear"
    own: Any = lora_config(Lora(r=4, alpha=6.0, dropout=0.1, target_modules=["q_proj"]))
    assert (own.r, own.lora_alpha, own.lora_dropout, own.target_modules) == (4, 6.0, 0.1, {"q_proj"})


def test_the_same_seed_gives_the_same_adapter_and_leaves_the_base_frozen() -> None:
    def first(seed: int) -> torch.Tensor:
        model = adapt(tiny(Method.LORA), lora_config(Lora(r=2)), seed=seed)
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        assert all("lora_" in name for name in trained)
        return next(weight for name, weight in trained.items() if "lora_A" in name).detach()

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_an_adapter_for_layers_that_do_not_exist_is_refused() -> None:
    with pytest.raises(TrainingFailed, match=r"no adapter fits tiny: .*nowhere.*lora\.target_modules"):
        adapt(tiny(Method.LORA), lora_config(Lora(target_modules=["nowhere"])), seed=1)


def about() -> dict[str, object]:
    return provenance(Source(name=TINY, folder=None), CPU, Method.LORA, config={"a": 1}, seed=3, job="job_1")


def test_a_full_model_is_saved_as_a_folder_that_transformers_loads(tmp_path: Path) -> None:
    loaded = tiny()
    save(loaded.model, loaded, tmp_path / "model", about(), merge=False)
    assert torch.equal(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "model")), logits(loaded.model))
    chat = AutoTokenizer.from_pretrained(tmp_path / "model").apply_chat_template(CHAT, tokenize=False)
    assert chat == loaded.tokenizer.apply_chat_template(CHAT, tokenize=False)
    told = json.loads((tmp_path / "model/provenance.json").read_text())
    assert (told["seed"], told["method"], told["config"], told["job"]) == (3, "lora", {"a": 1}, "job_1")
    assert told["versions"]["torch"] == torch.__version__


def test_an_adapter_of_tiny_brings_its_base_along(tmp_path: Path) -> None:
    loaded = tiny(Method.LORA)
    model = adapt(loaded, lora_config(Lora(r=2)), seed=1)
    touch_adapter(model)
    expected = logits(model)
    save(model, loaded, tmp_path / "model", about(), merge=False)
    for kind in (AutoModelForCausalLM, AutoPeftModelForCausalLM):
        assert torch.allclose(logits(kind.from_pretrained(tmp_path / "model")), expected, atol=1e-5)


@pytest.mark.parametrize("own_base", [True, False])
def test_the_readme_of_an_adapter_loads_it_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_base: bool
) -> None:
    source = TINY if own_base else str(folder_of(tiny_model(), tmp_path / "its base"))
    loaded = load(Shelf().find(source), CPU, Method.LORA)
    model = adapt(loaded, lora_config(Lora(r=2)), seed=1)
    touch_adapter(model)
    expected = logits(model)
    save(model, loaded, tmp_path / "model", about(), merge=False)
    (tmp_path / "model").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    (program,) = re.findall(r"^```python\n(.*?)^```", Path("README.md").read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)  # the words of a file that we have just written
    assert torch.allclose(logits(names["model"]), expected, atol=1e-5)
    assert names["tokenizer"].chat_template


def test_an_adapter_that_was_moved_with_its_base_is_loaded_and_merged(tmp_path: Path) -> None:
    loaded = tiny(Method.LORA)
    model = adapt(loaded, lora_config(Lora(r=2)), seed=1)
    touch_adapter(model)
    expected = logits(model)
    save(model, loaded, tmp_path / "model", about(), merge=False)
    (tmp_path / "model").rename(tmp_path / "moved")
    again = load(Shelf().find(str(tmp_path / "moved")), CPU, Method.FULL)
    assert type(again.model) is type(loaded.model)
    assert torch.allclose(logits(again.model), expected, atol=1e-5)
    assert all(weight.requires_grad for weight in again.model.parameters())


def test_an_adapter_on_an_adapter_keeps_both(tmp_path: Path) -> None:
    loaded = tiny(Method.LORA)
    first = adapt(loaded, lora_config(Lora(r=2)), seed=1)
    touch_adapter(first)
    save(first, loaded, tmp_path / "first", about(), merge=False)
    again = load(Shelf().find(str(tmp_path / "first")), CPU, Method.LORA)
    second = adapt(again, lora_config(Lora(r=3)), seed=2)
    touch_adapter(second)
    expected = logits(second)
    save(second, again, tmp_path / "second", about(), merge=False)
    assert torch.allclose(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "second")), expected, atol=1e-5)


def test_an_adapter_of_a_folder_names_it(tmp_path: Path) -> None:
    base = folder_of(tiny_model(), tmp_path / "base")
    loaded = load(Shelf().find(str(base)), CPU, Method.LORA)
    save(adapt(loaded, lora_config(Lora(r=2)), seed=1), loaded, tmp_path / "model", about(), merge=False)
    assert json.loads((tmp_path / "model/adapter_config.json").read_text())["base_model_name_or_path"] == str(base)


def test_a_merged_model_stands_alone_with_its_adapter_beside_it(tmp_path: Path) -> None:
    loaded = tiny(Method.LORA)
    model = adapt(loaded, lora_config(Lora(r=2)), seed=1)
    touch_adapter(model)
    expected = logits(model)
    save(model, loaded, tmp_path / "model", about(), merge=True)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert not any("lora" in name for name, _ in merged.named_parameters())
    assert torch.allclose(logits(merged), expected, atol=1e-5)
    beside = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "model/adapter")
    assert torch.allclose(logits(beside), expected, atol=1e-5)


def test_saving_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/old").touch()
    loaded = tiny()
    save(loaded.model, loaded, tmp_path / "model", about(), merge=False)
    assert not (tmp_path / "model/old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(os.geteuid() == 0 or os.name != "posix", reason="root may write everywhere")
def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    loaded = tiny()
    with pytest.raises(TrainingFailed, match=r"the model cannot be saved in .*: Permission denied"):
        save(loaded.model, loaded, tmp_path / "closed/model", about(), merge=False)


def test_a_place_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    loaded = tiny()
    with pytest.raises(TrainingFailed, match=r"the model cannot be saved in .*file/model: "):
        save(loaded.model, loaded, tmp_path / "file/model", about(), merge=False)


# Chats


def test_a_template_that_cannot_be_marked_is_refused_by_name() -> None:
    loaded = tiny()
    loaded.tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    with pytest.raises(TrainingFailed, match="the chat template of tiny does not mark what the assistant says"):
        training_template(loaded)
