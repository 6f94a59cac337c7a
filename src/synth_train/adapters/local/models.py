"""Models on this machine: where they are found, and how they are loaded, adapted and saved (design §5).

Imports torch, so it is for workers only. What cannot be done comes out as `TrainingFailed`, in words for the job's
reason.
"""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from msgspec import UnsetType
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import SafetensorError
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
)
from transformers.utils import logging as transformers_logging

from synth_train.adapters.local.home import MODELS, LocalHome, whole
from synth_train.adapters.user_paths import expanded
from synth_train.domain.model.config.tables import Lora
from synth_train.domain.model.hosting import TrainingFailed
from synth_train.version import installed_version

TINY = "tiny"
"""A Qwen3 of about a million random parameters that reads and writes bytes: for demos and tests."""

TINY_CONTEXT = 4096
"""The longest text that `tiny` reads, in tokens."""

_HUB_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""What is asked of the hub. No pickles: they are programs."""

_DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}
_THREADS = torch.get_num_threads()
"""What torch takes when nobody says a number: one for each core, or what `OMP_NUM_THREADS` says."""

# Their own methods have no types.
_causal_lm: Any = AutoModelForCausalLM
_fast_tokenizer: Any = PreTrainedTokenizerFast
_logging: Any = transformers_logging

_PACKAGES = ("synth-train", "torch", "transformers", "trl", "peft", "accelerate")


class Method(str, Enum):
    """Which weights are trained."""

    FULL = "full"
    """All of them, kept in float32; products run in `Hardware.dtype`."""
    LORA = "lora"
    """An adapter in float32; the base is frozen, in `Hardware.dtype`."""
    QLORA = "qlora"
    """An adapter; the base is frozen, in 4 bits. Needs bitsandbytes and a CUDA device."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What a job computes on."""

    device: torch.device
    dtype: torch.dtype
    """What matrix products run in; weights that are trained are float32 whatever it is."""
    warnings: tuple[str, ...] = ()
    """What was asked for and is not here."""

    @property
    def mixed(self) -> bool:
        """Whether products run in another type than float32, so that they need autocast."""
        return self.dtype is not torch.float32

    def autocast(self) -> torch.autocast:
        """The context in which a model is run."""
        return torch.autocast(self.device.type, dtype=self.dtype, enabled=self.mixed)


def choose_hardware(device: str | None = None, dtype: str | None = None, threads: int | None = None) -> Hardware:
    """The device and the type to compute with; also sets the number of CPU threads of this process.

    Args:
        device: `cuda`, `cuda:1`, `mps` or `cpu`; None for the best there is. One that is not here is a warning, and
            the best there is comes instead.
        dtype: `float32`, `bfloat16` or `float16` (`fp32`, `bf16`, `fp16`); None for bfloat16 on CUDA devices that
            have it, else float32.
        threads: for work on the CPU; None for what torch takes, less one: threads that wait for one whose core is taken
            by a neighbour (the task app, the sampler's clients) make all of it many times slower (design §5).

    Raises:
        TrainingFailed: no such name.
    """
    lacks = []
    found = torch.device("cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu")
    if device is not None:
        wanted = _device(device)
        if _is_here(wanted):
            found = wanted
        else:
            lacks.append(f"local.device is {device!r}, which this machine does not have: training on {found.type}")
    if dtype is not None and dtype not in _DTYPES:
        raise TrainingFailed(f"local.dtype is {dtype!r}: there are {', '.join(_DTYPES)}")
    has_bf16 = found.type == "cuda" and torch.cuda.is_bf16_supported()
    chosen = torch.bfloat16 if has_bf16 else torch.float32
    if dtype is not None:
        chosen = _DTYPES[dtype]
        if chosen is torch.bfloat16 and found.type == "cuda" and not has_bf16:
            lacks.append(f"local.dtype is {dtype!r}, which this GPU does not have: computing in float32")
            chosen = torch.float32
    torch.set_num_threads(threads or max(1, _THREADS - 1))
    return Hardware(device=found, dtype=chosen, warnings=tuple(lacks))


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cuda", "mps", "cpu"):
        raise TrainingFailed(f"local.device is {name!r}: there are cuda, mps and cpu")
    return device


def _is_here(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
    return device.type == "cpu" or _has_mps()


def _has_mps() -> bool:
    return torch.backends.mps.is_available()


# Finding


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a model is."""

    name: str
    """As it was asked for."""
    folder: Path | None
    """None for `tiny`, which is made and not read."""
    revision: str | None = None
    """The commit, for one from the hub."""
    gguf: str | None = None
    """The name of the file in `folder`, for weights that llama.cpp wrote."""


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """The places where models are looked for, in this order: `tiny`; ids of models that this backend made;
    `folder`; a path; the hub and its cache."""

    folder: Path | None = None
    """What `SYNTH_LOCAL_MODELS` names: `org/name` is looked for in it."""
    fine_tuned: Callable[[str], Path | None] = field(default=lambda _: None)
    """The folder of a model that this backend made, by its id (`ft:Qwen/Qwen3-0.6B:job_1`)."""

    def find(self, name: str) -> Source:
        """Find a model; one that only the hub has is downloaded.

        Raises:
            TrainingFailed: it is nowhere. The text names every place.
        """
        if name == TINY:
            return Source(name=name, folder=None)
        made = self.fine_tuned(name)
        shelved = expanded(self.folder) / name if self.folder else None
        for place in (made, shelved, expanded(name)):
            if place is not None and place.is_dir():
                return Source(name=name, folder=place, gguf=_gguf_in(place))
        if ":" in name:
            raise TrainingFailed(f"the model {name} was not made by this backend, or its folder is gone")
        folder = self._from_hub(name)
        return Source(name=name, folder=folder, revision=folder.name)

    def _from_hub(self, name: str) -> Path:
        shelf = f"not in {self.folder} (SYNTH_LOCAL_MODELS)" if self.folder else "SYNTH_LOCAL_MODELS is not set"
        try:
            return Path(snapshot_download(name, allow_patterns=list(_HUB_FILES)))
        except HFValidationError:
            raise TrainingFailed(
                f"there is no model {name}: it is no folder here, {shelf}, and it is no Hugging Face id (org/name)"
            ) from None
        except RepositoryNotFoundError:
            raise TrainingFailed(
                f"there is no model {name}: it is no folder here, {shelf}, and Hugging Face has none of this name, or "
                "only for those who are logged in (huggingface-cli login)"
            ) from None
        except (OSError, HfHubHTTPError) as error:  # LocalEntryNotFoundError is an OSError
            raise TrainingFailed(
                f"the model {name} cannot be had: it is no folder here, {shelf}, not in the Hugging Face cache, and "
                f"the hub does not give it ({type(error).__name__}). Go online once, or put its folder into "
                "SYNTH_LOCAL_MODELS"
            ) from error


def shelf_of(home: LocalHome) -> Shelf:
    """Where a worker looks for models: what the jobs in `home` have made, and the folder that the variable names."""
    folder = os.environ.get(MODELS)
    return Shelf(folder=Path(folder) if folder else None, fine_tuned=home.model_of)


def _gguf_in(folder: Path) -> str | None:
    """The one GGUF file of a folder that has no weights of the usual kind."""
    if (folder / "config.json").exists() or (folder / "adapter_config.json").exists():
        return None
    files = sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise TrainingFailed(f"{folder} has several GGUF files: which one is meant is not clear; leave one there")
    return files[0].name if files else None


# Loading


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model, ready to be trained or adapted, and its tokenizer."""

    source: Source
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    method: Method


def load(source: Source, hardware: Hardware, method: Method) -> Loaded:
    """Load a model onto a device. A folder that holds an adapter gives its base with the adapter merged into it.

    The tokenizer has a chat template and a padding token.

    Raises:
        TrainingFailed: it cannot be loaded, has no chat template, or the method cannot be had here.
    """
    if method is Method.QLORA:
        _check_qlora(hardware)
    with _worded(source):
        if source.folder is None:
            model, tokenizer = tiny_model(), tiny_tokenizer()
        else:
            model, tokenizer = _read(source, source.folder, hardware, method)
    if not tokenizer.chat_template:
        raise TrainingFailed(
            f"the model {source.name} has no chat template, so nobody knows how it is spoken to: use an instruct "
            "model, or put a chat_template.jinja into its folder"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if method is not Method.QLORA:  # which is where it belongs already
        model.to(hardware.device, None if method is Method.FULL else hardware.dtype)  # type: ignore[arg-type]
    model.config.use_cache = True
    return Loaded(source=source, model=model, tokenizer=tokenizer, method=method)


def _read(
    source: Source, folder: Path, hardware: Hardware, method: Method
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    options: dict[str, Any] = {"dtype": torch.float32 if method is Method.FULL else hardware.dtype}
    if method is Method.QLORA:
        import transformers

        options["device_map"] = {"": hardware.device}
        quantization: Any = transformers.BitsAndBytesConfig
        options["quantization_config"] = quantization(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=hardware.dtype,
        )
    if source.gguf is not None:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=source.gguf)
        read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=source.gguf, dtype=options["dtype"])
        return _without_quantization(read), tokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    adapter = folder / "adapter_config.json"
    if not adapter.exists():
        return AutoModelForCausalLM.from_pretrained(folder, **options), tokenizer
    base: Path | str = folder / BASE
    if not (folder / BASE).is_dir():
        base = str(json.loads(adapter.read_text(encoding="utf-8"))["base_model_name_or_path"])
    model = AutoModelForCausalLM.from_pretrained(base, dtype=options["dtype"])
    merged = cast(PreTrainedModel, PeftModel.from_pretrained(model, folder).merge_and_unload())
    return merged.requires_grad_(True), tokenizer  # peft has frozen them


def _without_quantization(model: PreTrainedModel) -> PreTrainedModel:
    """The same model, as if its weights had never been in GGUF: transformers does not save one that was."""
    config = type(model.config)(
        **{name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    )
    config.name_or_path = ""  # it is nowhere in this form, and peft asks the hub for what has a name
    plain: PreTrainedModel = _causal_lm.from_config(config, dtype=model.dtype)
    plain.load_state_dict(model.state_dict())
    return plain


def _check_qlora(hardware: Hardware) -> None:
    lacks = []
    if hardware.device.type != "cuda":
        lacks.append(f"a CUDA device (this is {hardware.device.type})")
    if installed_version("bitsandbytes") is None:
        lacks.append("the package bitsandbytes")
    if lacks:
        raise TrainingFailed(f"QLoRA needs {' and '.join(lacks)}: train with LoRA instead, or where there is one")


@contextmanager
def _worded(source: Source) -> Iterator[None]:
    """What can go wrong when a model is read, as the job's reason."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise TrainingFailed(f"the model {source.name} does not fit on this GPU") from None
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f" from {source.folder}" if source.folder else ""
        raise TrainingFailed(f"the model {source.name} cannot be loaded{where}: {first}") from error


# Adapters


ALL_LAYERS = "all-linear"
"""Stands in `lora.target_modules` for every linear layer but the last."""


def lora_config(lora: Lora | UnsetType) -> LoraConfig:
    """`[lora]` as peft wants it: rank 16, scale twice the rank, no dropout, every linear layer, unless it says else."""
    given = lora if isinstance(lora, Lora) else Lora()
    rank = _or(given.r, 16)
    layers = _or(given.target_modules, ALL_LAYERS)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=cast(int, _or(given.alpha, 2.0 * rank)),  # peft takes any number
        lora_dropout=_or(given.dropout, 0.0),
        # peft knows the word only when it stands alone; the configs of the public library have it in a list.
        target_modules=ALL_LAYERS if ALL_LAYERS in layers else layers,
    )


def adapt(loaded: Loaded, lora: LoraConfig, *, seed: int) -> PeftModel:
    """The model with a fresh adapter, the same one for the same seed.

    Raises:
        TrainingFailed: `lora.target_modules` names no layer of this model.
    """
    with _seeded(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            adapted = get_peft_model(loaded.model, lora)
        except ValueError as error:
            what = str(error).rstrip(".")
            raise TrainingFailed(f"no adapter fits {loaded.source.name}: {what}; see lora.target_modules") from None
    return cast(PeftModel, adapted)


def _or(value: Any, default: Any) -> Any:
    return default if isinstance(value, UnsetType) else value


# Saving

BASE = "base"
"""Beside an adapter: the model that it belongs to, where no one else has that."""
ADAPTER = "adapter"
"""Beside a merged model: the adapter that was merged into it."""
PROVENANCE = "provenance.json"


def save(
    model: PreTrainedModel | PeftModel, loaded: Loaded, folder: Path, provenance: Mapping[str, object], *, merge: bool
) -> None:
    """Save what was trained as a folder that `transformers` loads, whole or not at all.

    A full model is saved as such. An adapter is saved as one, with the path or id of its base, and a README that tells
    how to load it elsewhere; a base that peft does not load from there (`tiny`, one in GGUF, another adapter on its own
    base) is saved with it, in `base/`. With `merge` the folder holds the merged model, and the adapter is in
    `adapter/`. Nothing is trained after it: `model` is taken apart.

    Raises:
        TrainingFailed: it cannot be written.
    """
    with _written(folder), whole(folder) as aside:
        if isinstance(model, PeftModel):
            at = aside / ADAPTER if merge else aside
            brings_base = not _is_plain(loaded.source)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it looks for the base's config where there may be none
                model.save_pretrained(str(at))
            named = _name_base(at / "adapter_config.json", loaded.source, folder / at.relative_to(aside), brings_base)
            # peft has put a form there that nobody has filled in.
            (at / "README.md").write_text(_how_to_load(loaded.source, named, brings_base), encoding="utf-8")
            merged = model
            if brings_base:
                base = cast(PreTrainedModel, model.unload())
                base.save_pretrained(at / BASE)
                loaded.tokenizer.save_pretrained(at / BASE)
                if merge:
                    merged = PeftModel.from_pretrained(base, str(at))
            if merge:
                cast(PreTrainedModel, merged.merge_and_unload()).save_pretrained(aside)
        else:
            model.save_pretrained(aside)
        loaded.tokenizer.save_pretrained(aside)
        (aside / PROVENANCE).write_text(json.dumps(provenance, indent=2, sort_keys=True) + "\n", encoding="utf-8")


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """What the disk says, as the job's reason."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        what = (isinstance(error, OSError) and error.strerror) or str(error)
        raise TrainingFailed(f"the model cannot be saved in {folder}: {what}") from error


def _is_plain(source: Source) -> bool:
    """Whether transformers loads the model from where it is, as it is."""
    return source.folder is not None and source.gguf is None and not (source.folder / "adapter_config.json").exists()


def _name_base(file: Path, source: Source, adapter: Path, brings_base: bool) -> str:
    """Say in an adapter's config, which will be in the folder `adapter`, where its base is. Returns what it says."""
    base = adapter.absolute() / BASE if brings_base or source.folder is None else source.folder.absolute()
    config = json.loads(file.read_text(encoding="utf-8"))
    from_hub = source.revision is not None and not brings_base
    config["base_model_name_or_path"] = source.name if from_hub else str(base)
    config["revision"] = source.revision if from_hub else None
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return cast(str, config["base_model_name_or_path"])


def _how_to_load(source: Source, named: str, brings_base: bool) -> str:
    """The README of an adapter. A config can name a base by its id or by a path of one machine, never by its place
    beside the adapter: so for an adapter that was moved somebody has to say where its base is."""
    if brings_base:
        where, base = f"`{BASE}/`, in this folder", f'f"{{folder}}/{BASE}"'
    else:
        where, base = f"`{named}`", f'"{named}"'
    moved = "" if named == source.name else _MOVED.format(named=named)
    return _README.format(name=source.name, where=where, base=base, moved=moved)


_README = """\
# An adapter for {name}

Its base is {where}. `provenance.json` says what it was made of.

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # this one
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained({base}), folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
```
{moved}
A job with `merge = true` in `[local]` makes a model that needs no base.
"""

_MOVED = """
`AutoModelForCausalLM.from_pretrained(folder)` does as well, as long as the base is at `{named}`, which is what
`adapter_config.json` says. Elsewhere load it as above, with the place where the base is by then.
"""


def provenance(
    source: Source, hardware: Hardware, method: Method, *, config: object, seed: int, **more: object
) -> dict[str, object]:
    """What a model was made of: enough to make it again.

    Args:
        config: the resolved config, as it was ordered.
        more: such as the job, the ids and hashes of its files, the last values of its metrics.
    """
    return {
        "base": {
            "name": source.name,
            "folder": str(source.folder) if source.folder else None,
            "revision": source.revision,
        },
        "method": method.value,
        "seed": seed,
        "config": config,
        "device": str(hardware.device),
        "dtype": str(hardware.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "platform": platform.platform()}
        | {name: installed_version(name) for name in _PACKAGES},
        **more,
    }


# `tiny`

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

_TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- (messages[0].content or '') + '\\n\\n' }}
    {%- endif %}
    {{- 'Tools:' }}
    {%- for tool in tools %}
        {{- '\\n' }}{{- tool | tojson }}
    {%- endfor %}
    {{- '\\nCall one like this:\\n<tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content or '' %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
            {{- content }}
            {%- for call in message.tool_calls or [] %}
                {%- set function = call.function or call %}
                {%- if content or not loop.first %}{{- '\\n' }}{%- endif %}
                {{- '<tool_call>\\n{"name": "' + function.name + '", "arguments": ' }}
                {{- function.arguments if function.arguments is string else function.arguments | tojson }}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
            {{- '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """A token for every byte, and those that a chat needs."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in _SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in _TAGS])
    made: PreTrainedTokenizerBase = _fast_tokenizer(
        tokenizer_object=tokenizer,
        chat_template=_TEMPLATE,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=TINY_CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    return made


def tiny_model() -> PreTrainedModel:
    """The same random weights every time."""
    tokenizer = tiny_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=TINY_CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=cast(int, tokenizer.eos_token_id),
        pad_token_id=cast(int, tokenizer.pad_token_id),
    )
    with _seeded(0):
        made: PreTrainedModel = _causal_lm.from_config(config, dtype=torch.float32)
    return made


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Chance that begins at a seed; afterwards it goes on where it was."""
    devices: Sequence[int] = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


# Chats


def training_template(loaded: Loaded) -> str:
    """The chat template with `{% generation %}` around what the assistant says, without which nobody could tell what
    to train on.

    Raises:
        TrainingFailed: it has no such marks, and how to add them to this one is not known.
    """
    from trl.chat_template_utils import get_training_chat_template

    try:
        patched = get_training_chat_template(loaded.tokenizer)
    except ValueError:
        raise TrainingFailed(
            f"the chat template of {loaded.source.name} does not mark what the assistant says, and is none of those "
            "that can be marked here: put {% generation %} and {% endgeneration %} around it in the "
            "chat_template.jinja of a copy of the model, and name that folder as the model"
        ) from None
    return patched or cast(str, loaded.tokenizer.chat_template)


def quiet() -> None:
    """Keep transformers from printing progress bars and advice: a worker's output is its log."""
    _logging.set_verbosity_error()
    _logging.disable_progress_bar()
