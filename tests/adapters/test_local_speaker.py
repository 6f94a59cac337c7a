"""The process that answers for a model: begun when it is needed, one at a time, and gone when it is not."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support import fake_speaking
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.speaker import ChildSpeaker
from synth_train.adapters.local.subprocess_executor import inherited
from synth_train.domain.model.hosting import Refusal

PROGRAM = (sys.executable, fake_speaking.__file__)
Made = Callable[..., ChildSpeaker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Made]:
    speakers: list[ChildSpeaker] = []

    def made(**more: Any) -> ChildSpeaker:
        environ = inherited(dict(os.environ))
        speakers.append(ChildSpeaker(LocalHome(tmp_path), environ, **{"program": PROGRAM, **more}))
        return speakers[-1]

    yield made
    for speaker in speakers:
        speaker.close()


def ask(speaker: ChildSpeaker, told: str, model: str = "m") -> Any:
    request = msgspec.json.encode({"messages": [{"role": "user", "content": told}]})
    return msgspec.json.decode(speaker.complete(model, request))


def refused(speaker: ChildSpeaker, told: str = "hello", model: str = "m") -> tuple[int, str]:
    with pytest.raises(Refusal) as refusal:
        ask(speaker, told, model)
    return refusal.value.status, refusal.value.code


def begun(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().splitlines()]


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_process_answers_many_times_and_what_it_prints_goes_to_its_log(make: Made, tmp_path: Path) -> None:
    speaker = make()
    assert [ask(speaker, told)["said"] for told in ("one", "two\nlines")] == ["one", "two\nlines"]
    assert len(begun(tmp_path)) == 1
    assert "libraries print" in (tmp_path / "speaker.log").read_text()


def test_several_are_answered_at_the_same_time_and_no_more_than_may_be(make: Made, tmp_path: Path) -> None:
    speaker = make(at_once=2)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(ask, speaker, f"wait for {name}") for name in "ab"]
        until(lambda: all((tmp_path / f"{name}.asked").exists() for name in "ab"))
        assert refused(speaker) == (429, "too_many")
        (tmp_path / "b").touch()
        assert waiting[1].result(20)["said"] == "wait for b"
        (tmp_path / "a").touch()
        assert waiting[0].result(20)["said"] == "wait for a"
    assert ask(speaker, "again")["said"] == "again"


def test_another_model_waits_until_nobody_asks_the_first_and_then_takes_its_place(make: Made, tmp_path: Path) -> None:
    speaker = make()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, speaker, "wait for a")
        until((tmp_path / "a.asked").exists)
        assert refused(speaker, model="other") == (429, "other_model")
        (tmp_path / "a").touch()
        waiting.result(20)
    assert ask(speaker, "hello", "other")["said"] == "hello"
    first, second = begun(tmp_path)
    assert (lives(first), lives(second)) == (False, True)


def test_who_waits_hears_of_its_death_and_the_next_one_has_another(make: Made, tmp_path: Path) -> None:
    speaker = make()
    assert refused(speaker, "die") == (503, "speaker_ended")
    assert ask(speaker, "hello")["said"] == "hello"
    assert len(begun(tmp_path)) == 2


def test_a_refusal_and_a_bug_leave_it_alive(make: Made, tmp_path: Path) -> None:
    speaker = make()
    assert refused(speaker, "refuse") == (400, "unsupported")
    assert refused(speaker, "break") == (503, "speaker_broke")
    assert ask(speaker, "hello")["said"] == "hello"
    assert len(begun(tmp_path)) == 1
    assert "RuntimeError: break" in (tmp_path / "speaker.log").read_text()


@pytest.mark.parametrize(
    ("model", "no"),
    [
        ("unusable", (422, "unusable_model")),
        ("broken", (503, "speaker_broke")),
        ("dying", (503, "speaker_ended")),
    ],
)
def test_a_model_that_cannot_be_loaded_is_told_each_time(
    make: Made, tmp_path: Path, model: str, no: tuple[int, str]
) -> None:
    speaker = make()
    assert [refused(speaker, model=model) for _ in range(2)] == [no, no]
    until(lambda: not any(map(lives, begun(tmp_path))))


def test_a_model_goes_on_being_loaded_when_who_asked_is_told_to_come_back(make: Made, tmp_path: Path) -> None:
    speaker = make(loading=0.05)
    assert refused(speaker, model="slow") == (503, "loading")
    (tmp_path / "go").touch()

    def answered() -> bool:
        with contextlib.suppress(Refusal):
            return bool(ask(speaker, "hello", "slow")["said"])
        return False

    until(answered)
    assert len(begun(tmp_path)) == 1


def test_one_that_gives_no_answer_is_ended(make: Made, tmp_path: Path) -> None:
    speaker = make(answering=0.05)
    assert refused(speaker, "wait for ever") == (503, "too_slow")
    assert not any(map(lives, begun(tmp_path)))


def test_one_that_nobody_asks_is_ended(make: Made, tmp_path: Path) -> None:
    speaker = make(idle=0.05)
    ask(speaker, "hello")
    until(lambda: not any(map(lives, begun(tmp_path))))
    assert ask(speaker, "hello")["said"] == "hello"


def test_closing_refuses_who_waits_and_ends_it(make: Made, tmp_path: Path) -> None:
    speaker = make()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(refused, speaker, "wait for ever")
        until((tmp_path / "ever.asked").exists)
        speaker.close()
        assert waiting.result(20) == (503, "speaker_ended")
    assert not any(map(lives, begun(tmp_path)))


def test_it_ends_when_its_stdin_does(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, str(tmp_path), "slow"], stdin=subprocess.PIPE, env=inherited(dict(os.environ)), cwd=tmp_path
    ) as process:
        until((tmp_path / "pids").exists)
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


def test_what_is_not_installed_is_told_with_the_remedy(make: Made, tmp_path: Path) -> None:
    speaker = make(obstacle="torch is not installed. Install it with: pip install x")
    with pytest.raises(Refusal, match="Install it with: pip install x") as refusal:
        ask(speaker, "hello")
    assert (refusal.value.status, refusal.value.code) == (501, "not_installed")
    assert not (tmp_path / "pids").exists()


def test_a_program_that_is_not_there_is_named(make: Made) -> None:
    speaker = make(program=("/no/such/program",))
    assert refused(speaker) == (503, "no_speaker")
