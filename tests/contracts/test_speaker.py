"""Speaker: the in-memory one, and a process with a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from synth_train.adapters.in_memory.speaker import ScriptedSpeaker
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.speaker import ChildSpeaker
from synth_train.adapters.local.subprocess_executor import inherited
from synth_train.domain.model.hosting import Refusal
from synth_train.ports.speaker import Speaker

HELLO = [{"role": "user", "content": "Hello there"}]
NEEDS_TORCH = pytest.mark.skipif(find_spec("trl") is None, reason="the extra [local] is not installed")


@pytest.fixture(scope="module", params=["in-memory", pytest.param("process", marks=NEEDS_TORCH)])
def speaker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaker]:
    if request.param == "in-memory":
        yield ScriptedSpeaker()
        return
    folder: Path = tmp_path_factory.mktemp("speaker")
    environ = inherited(dict(os.environ) | {"HF_HUB_OFFLINE": "1"})
    with_a_model = ChildSpeaker(LocalHome(folder), environ, loading=300)
    yield with_a_model
    with_a_model.close()


def ask(speaker: Speaker, model: str = "tiny", **body: object) -> Any:
    request = msgspec.json.encode({"model": model, "messages": HELLO, "max_tokens": 4, **body})
    return msgspec.json.decode(speaker.complete(model, request))


def test_it_says_something_within_the_limit(speaker: Speaker) -> None:
    reply = ask(speaker)
    [choice] = reply["choices"]
    assert (reply["object"], reply["model"]) == ("chat.completion", "tiny")
    assert (choice["index"], choice["message"]["role"]) == (0, "assistant")
    assert isinstance(choice["message"]["content"], str)
    assert choice["finish_reason"] in ("stop", "length")
    usage = reply["usage"]
    assert 1 <= usage["completion_tokens"] <= 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert reply["id"] != ask(speaker)["id"]


def test_the_likeliest_answer_and_the_one_of_a_seed_are_always_the_same(speaker: Speaker) -> None:
    hows: list[dict[str, Any]] = [{"temperature": 0}, {"temperature": 1, "seed": 7}]
    for how in hows:
        one, two = (ask(speaker, max_tokens=16, **how)["choices"][0]["message"] for _ in range(2))
        assert one == two


def test_content_that_is_no_text_is_refused(speaker: Speaker) -> None:
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://image"}}]}]
    with pytest.raises(Refusal) as refusal:
        ask(speaker, messages=image)
    assert (refusal.value.status, refusal.value.code) == (400, "unsupported")


def test_a_model_that_is_nowhere_is_named_and_the_others_still_answer(speaker: Speaker) -> None:
    with pytest.raises(Refusal, match="nowhere/at-all") as refusal:
        ask(speaker, "nowhere/at-all")
    assert (refusal.value.status, refusal.value.code) == (404, "unknown_model")
    assert ask(speaker)["choices"]


def test_it_answers_again_after_it_was_closed(speaker: Speaker) -> None:
    speaker.close()
    assert ask(speaker)["choices"]
