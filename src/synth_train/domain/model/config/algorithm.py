"""Which kind of job a table describes, and the four algorithms there are (wire-contract §6.1, §6.2).

Case and surrounding blanks do not count in any of these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from synth_train.domain.model.config.findings import Finding
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import quoted

KEYS = ("type", "method", "variety")


class Triple(Struct, frozen=True):
    """An algorithm that exists."""

    kind: Kind
    type: str
    method: str
    variety: str

    def as_table(self) -> dict[str, str]:
        """As it would stand in `[algorithm]`."""
        return {key: getattr(self, key) for key in KEYS}

    def __str__(self) -> str:
        return ", ".join(f'{key} = "{value}"' for key, value in self.as_table().items())


GSPO = Triple(Kind.RL, "online", "policy_gradient", "gspo")
FFT = Triple(Kind.SFT, "offline", "supervised_finetune", "fft")
LORA = Triple(Kind.SFT, "offline", "sft", "lora")
TRIPLES = (GSPO, FFT, Triple(Kind.SFT, "offline", "sft", "fft"), LORA)

_REMEDIES = {
    "grpo": 'GRPO is not offered; write variety = "gspo", its successor',
    "ppo": 'PPO is not offered; write variety = "gspo"',
    "qlora": 'write variety = "lora", and use_qlora = true in [training]',
}

_MARKS = (
    ("method", ("policy_gradient", "ppo", "reinforce"), Kind.RL),
    ("type", ("online",), Kind.RL),
    ("variety", ("gspo", "grpo", "ppo"), Kind.RL),
    ("method", ("supervised_finetune", "sft"), Kind.SFT),
    ("type", ("offline",), Kind.SFT),
    ("variety", ("fft",), Kind.SFT),
)
_ONLY_OF = {
    (key, word): kind for key, words, kind in (*_MARKS, ("variety", ("lora", "qlora"), Kind.SFT)) for word in words
}
"""The words that only one kind has."""


def kind_of(table: Mapping[str, Any]) -> Kind | None:
    """The kind that a table gives away, None when it gives none away. The first mark found decides."""
    if (word := _word(table, "type")) in ("rl", "sft"):
        return Kind(word)
    for key, words, kind in _MARKS:
        if _word(table, "algorithm", key) in words:
            return kind
    if _word(table, "job_type") == "rl":
        return Kind.RL
    services = table.get("services")
    if isinstance(services, dict) and ("task_url" in services or "environment" in services):
        return Kind.RL
    if _word(table, "training", "mode").startswith("sft"):
        return Kind.SFT
    if _word(table, "hyperparameters", "train_kind") in ("sft", "fft"):
        return Kind.SFT
    return None


def default_for(kind: Kind, table: Mapping[str, Any]) -> Triple:
    """The algorithm of a config that names none; for SFT it is LoRA when the config asks for adapters elsewhere."""
    if kind is Kind.RL:
        return GSPO
    training = table.get("training")
    quantised = isinstance(training, dict) and training.get("use_qlora") is True
    return LORA if quantised or "lora" in table or _word(table, "training", "mode") in ("lora", "qlora") else FFT


def wrong_with(table: Mapping[str, Any], kind: Kind) -> Finding | None:
    """What is wrong with the `[algorithm]` of a table that has one whose values are all text."""
    given = {key: _word(table, "algorithm", key) for key in KEYS}
    missing = [key for key in KEYS if not given[key]]
    best, fitting = _nearest(given, TRIPLES)
    if not best:
        if fitting[0].kind is kind:
            return None
        return Finding(
            ("algorithm",),
            f"this is an algorithm of {_name(fitting[0].kind)} in {_config(kind)}; {_expected(kind)};"
            f' or make it {_config(fitting[0].kind)}: type = "{fitting[0].kind.value}" at the top, or --type',
        )
    if contradiction := _contradiction(given):
        return Finding(("algorithm",), contradiction)
    best, fitting = _nearest(given, tuple(triple for triple in TRIPLES if triple.kind is kind))
    if missing:
        return Finding(("algorithm",), f"{' and '.join(missing)} missing; {_expected(kind)}")
    wrong = {key for triple in fitting for key in KEYS if given[key] != getattr(triple, key)}
    if len(wrong) > 1:
        return Finding(("algorithm",), f"there is no such algorithm; {_expected(kind)}")
    (key,) = wrong
    allowed = " or ".join(dict.fromkeys(f'"{getattr(triple, key)}"' for triple in fitting))
    remedy = _REMEDIES.get(given[key], f"write {key} = {allowed}")
    return Finding(("algorithm", key), f"{quoted(given[key])} is not trained by {_name(kind)} jobs; {remedy}")


def _contradiction(given: Mapping[str, str]) -> str:
    """That some words are of RL and others of SFT, and what to write for either; empty when they are not."""
    sides = {kind: [key for key in KEYS if _ONLY_OF.get((key, given[key])) is kind] for kind in Kind}
    if not all(sides.values()):
        return ""
    facts = ", but ".join(f"{_settings(given, keys)} {_of(kind, keys)}" for kind, keys in sides.items())
    ways = []
    for kind in Kind:
        _, (nearest, *_) = _nearest(given, tuple(triple for triple in TRIPLES if triple.kind is kind))
        meant = nearest.as_table()
        ways.append(f"for {_name(kind)} write {_settings(meant, [key for key in KEYS if meant[key] != given[key]])}")
    return f"{facts}; {', '.join(ways)}"


def _settings(table: Mapping[str, str], keys: list[str]) -> str:
    return " and ".join(f'{key} = "{table[key]}"' for key in keys)


def _of(kind: Kind, keys: list[str]) -> str:
    return f"{'is' if len(keys) == 1 else 'are'} of {_name(kind)}"


def _nearest(given: Mapping[str, str], triples: tuple[Triple, ...]) -> tuple[int, list[Triple]]:
    """The triples that differ from `given` in the fewest keys, and in how many."""
    counts = [(sum(given[key] != getattr(triple, key) for key in KEYS), triple) for triple in triples]
    fewest = min(count for count, _ in counts)
    return fewest, [triple for count, triple in counts if count == fewest]


def _expected(kind: Kind) -> str:
    return "write " + ", or ".join(str(triple) for triple in TRIPLES if triple.kind is kind)


def _name(kind: Kind) -> str:
    return kind.value.upper()


def _config(kind: Kind) -> str:
    return f"an {_name(kind)} config"


def _word(table: Mapping[str, Any], *path: str) -> str:
    """The text at `path`, plain; empty when there is none."""
    value: Any = table
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value.strip().lower() if isinstance(value, str) else ""
