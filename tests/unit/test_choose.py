"""Choosing a config when none was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.configs import RL, SFT
from synth_train.adapters.in_memory.configs import InMemoryConfigs
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.stdin_prompt import NobodyToAsk
from synth_train.domain.model.errors import AnswerNeeded, UsageError
from synth_train.domain.model.jobs import Kind
from synth_train.domain.usecases.choose import ChooseConfig

FILES: dict[str, str | bytes] = {"configs/rl.toml": RL, "configs/sft.toml": SFT, "z.toml": SFT}


def test_all_training_configs_are_offered_by_depth_and_path() -> None:
    prompt = ScriptedPrompt(("Which config", "2"))
    chosen = ChooseConfig(configs=InMemoryConfigs(FILES), prompt=prompt)()
    assert prompt.asked == ["Which config? | z.toml (sft) | configs/rl.toml (rl) | configs/sft.toml (sft)"]
    assert chosen == Path("configs/rl.toml")


def test_only_configs_of_the_kind_asked_for_are_offered() -> None:
    prompt = ScriptedPrompt(("Which config", "1"))
    ChooseConfig(configs=InMemoryConfigs(FILES), prompt=prompt)(Kind.RL)
    assert prompt.asked == ["Which config? | configs/rl.toml (rl)"]


def test_the_last_choice_comes_first_is_marked_and_is_taken_on_an_empty_answer() -> None:
    configs = InMemoryConfigs(FILES)
    ChooseConfig(configs=configs, prompt=ScriptedPrompt(("Which config", "3")))()
    prompt = ScriptedPrompt(("Which config", ""))
    assert ChooseConfig(configs=configs, prompt=prompt)() == Path("configs/sft.toml")
    assert prompt.asked == ["Which config? | configs/sft.toml (sft, used last) | z.toml (sft) | configs/rl.toml (rl)"]


def test_configs_of_no_known_kind_are_not_offered() -> None:
    files = {**FILES, "a.toml": '[training]\nmode = "lora"\n', "b.toml": 'type = "rl"\n[evaluation]\n', "c.toml": "=="}
    prompt = ScriptedPrompt(("Which config", "1"))
    assert ChooseConfig(configs=InMemoryConfigs(files), prompt=prompt)() == Path("z.toml")


def test_zero_aborts_and_is_not_remembered() -> None:
    configs = InMemoryConfigs(FILES)
    with pytest.raises(UsageError, match="no config was chosen") as caught:
        ChooseConfig(configs=configs, prompt=ScriptedPrompt(("Which config", "0")))()
    assert "--config" in caught.value.hint
    assert configs.chosen is None


@pytest.mark.parametrize(("kind", "what"), [(None, "training configs"), (Kind.RL, "RL configs")])
def test_nothing_to_choose_from_names_the_directory_and_the_option(kind: Kind | None, what: str) -> None:
    with pytest.raises(UsageError, match=rf"^there are no {what} in /repo$") as caught:
        ChooseConfig(configs=InMemoryConfigs({"z.toml": SFT} if kind else {}), prompt=ScriptedPrompt())(kind)
    assert "--config" in caught.value.hint


def test_where_nobody_can_pick_the_configs_are_named_with_the_option_that_picks() -> None:
    with pytest.raises(AnswerNeeded) as caught:
        ChooseConfig(configs=InMemoryConfigs(FILES), prompt=NobodyToAsk())()
    assert str(caught.value) == (
        "no config was named, and nobody is here to pick one; "
        "there are z.toml (sft), configs/rl.toml (rl), configs/sft.toml (sft)"
    )
    assert caught.value.hint == "Name one with --config FILE, such as --config z.toml."


def test_of_many_configs_some_are_named_and_the_rest_is_counted() -> None:
    files: dict[str, str | bytes] = {f"{number:02}.toml": SFT for number in range(12)}
    with pytest.raises(AnswerNeeded, match=r"there are 00\.toml .*, 09\.toml \(sft\) and 2 more$"):
        ChooseConfig(configs=InMemoryConfigs(files), prompt=NobodyToAsk())()


def test_one_config_is_not_taken_unasked_but_named() -> None:
    with pytest.raises(AnswerNeeded, match=r"there is z\.toml \(sft\)$"):
        ChooseConfig(configs=InMemoryConfigs({"z.toml": SFT}), prompt=NobodyToAsk())()


def test_somebody_who_goes_away_is_told_the_option() -> None:
    with pytest.raises(AnswerNeeded) as caught:
        ChooseConfig(configs=InMemoryConfigs(FILES), prompt=ScriptedPrompt(("Which config", None)))()
    assert caught.value.hint == "--config FILE"
