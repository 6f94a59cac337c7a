"""The models that a hosted backend trains (wire-contract §6.5), and who may train which."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.nearness import slips
from synth_train.domain.model.settings import Variables


class Model(Struct, frozen=True):
    """A base model. All of them can be fine-tuned with SFT."""

    id: str
    """In its canonical spelling."""
    rl: bool = True
    """Whether RL can train it too."""
    experimental: bool = False
    """Whether it is refused unless experimental models are allowed."""
    thinking: bool = False
    """Whether it writes its thoughts between thinking tags."""

    def trains(self, kind: Kind) -> bool:
        """Whether jobs of this kind can train it."""
        return kind is Kind.SFT or self.rl


def _family() -> tuple[Model, ...]:
    def qwen3(
        name: str, *endings: str, rl: bool = True, experimental: bool = False, thinking: bool = False
    ) -> Iterable[Model]:
        for ending in endings or ("",):
            yield Model(f"Qwen/Qwen3-{name}{ending}", rl, experimental, thinking)

    both = ("", "-FP8")
    return (
        *qwen3("", "0.6B", "1.7B", "4B", "8B", "14B", "30B-A3B"),
        *qwen3("32B", rl=False),
        *qwen3("4B-2507"),
        *qwen3("4B-Instruct-2507", *both),
        *qwen3("30B-A3B-Instruct-2507", *both),
        *qwen3("235B-A22B-Instruct-2507", *both, rl=False, experimental=True),
        *qwen3("4B-Thinking-2507", *both, experimental=True, thinking=True),
        *qwen3("30B-A3B-Thinking-2507", *both, experimental=True, thinking=True),
        *qwen3("235B-A22B-Thinking-2507", *both, rl=False, experimental=True, thinking=True),
        *qwen3("Coder-30B-A3B-Instruct", *both),
        *qwen3("Coder-480B-A35B-Instruct", *both, rl=False, experimental=True),
        *qwen3("VL-", "2B-Instruct", "4B-Instruct", "8B-Instruct"),
        *qwen3("VL-", "2B-Thinking", "4B-Thinking", "8B-Thinking", thinking=True),
        *qwen3("VL-", "30B-A3B-Instruct", "32B-Instruct", "235B-A22B-Instruct", rl=False),
        *qwen3("VL-", "30B-A3B-Thinking", "32B-Thinking", "235B-A22B-Thinking", rl=False, thinking=True),
    )


MODELS = _family()
_BY_ID = {model.id.casefold(): model for model in MODELS}


def find(name: str) -> Model | None:
    """The catalogue model of this id, in any case; None for everything else."""
    return _BY_ID.get(name.strip().casefold())


def base_of(name: str) -> Model | None:
    """The catalogue model behind a name: itself, or the base of a fine-tuned id; None when there is none.

    A fine-tuned id is colon separated, and a segment after the first is a catalogue id (wire-contract §2.4).
    """
    found = find(name)
    if found is not None:
        return found
    return next((model for part in name.split(":")[1:] if (model := find(part)) is not None), None)


def near(name: str, *, at_most: int = 3) -> tuple[str, ...]:
    """Catalogue ids that a misspelt or shortened name may mean; none when it resembles nothing."""
    wanted = _last_part(name.strip())
    begun = sorted(
        (model.id for model in MODELS if wanted and _last_part(model.id).startswith(wanted)),
        key=lambda name: _last_part(name) != wanted,
    )
    if begun:
        return tuple(begun[: 1 if _last_part(begun[0]) == wanted else at_most])
    counts = [(slips(wanted, _last_part(model.id)), model.id) for model in MODELS]
    fewest = min(count for count, _ in counts)
    if fewest > max(1, len(wanted) // 4):
        return ()
    return tuple(name for count, name in counts if count == fewest)[:at_most]


def _last_part(id: str) -> str:
    """Without the organisation, which is what is left out most often."""
    return id.casefold().rpartition("/")[2]


class Gate(Struct, frozen=True):
    """Who may train experimental models."""

    open: bool = False
    """Whether they are allowed."""
    also: frozenset[str] = frozenset()
    """Ids that are experimental besides those the catalogue marks, casefolded."""

    @classmethod
    def of(cls, allowed: bool | None, variables: Variables) -> Gate:
        """The gate as an option and the variables set it; the option, given either way, beats `SDK_EXPERIMENTAL`."""
        return cls(
            open=variables.experimental if allowed is None else allowed,
            also=frozenset(map(str.casefold, variables.experimental_models)),
        )

    def covers(self, model: Model) -> bool:
        """Whether `model` counts as experimental."""
        return model.experimental or model.id.casefold() in self.also
