"""Signals become one exception, and are given back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import python
from synth_train.entrypoints.cli.signals import Interrupted, Signals

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [signal.getsignal(signum) for signum in BOTH]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for signum, handler in zip(BOTH, before, strict=True):
        signal.signal(signum, handler)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_an_exception_with_its_exit_code(signum: signal.Signals, code: int) -> None:
    with pytest.raises(Interrupted) as stopped, Signals():
        os.kill(os.getpid(), signum)

    assert stopped.value.exit_code == code
    assert isinstance(stopped.value, KeyboardInterrupt)


def test_after_an_interruption_nothing_can_spoil_the_exit_code_any_more() -> None:
    with pytest.raises(Interrupted), Signals():
        os.kill(os.getpid(), signal.SIGINT)

    assert [signal.getsignal(signum) for signum in BOTH] == [signal.SIG_IGN] * 2


def test_without_an_interruption_the_handlers_are_given_back() -> None:
    with Signals():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL

    assert [signal.getsignal(signum) for signum in BOTH] == [signal.default_int_handler, signal.SIG_DFL]


def test_what_the_parent_has_switched_off_stays_off() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Signals():
        os.kill(os.getpid(), signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_modules_are_loaded_a_signal_waits(signum: signal.Signals, code: int) -> None:
    steps = []

    def load(signals: Signals) -> None:
        with signals.held():
            os.kill(os.getpid(), signum)
            steps.append("loaded")
        steps.append("went on")

    with pytest.raises(Interrupted) as stopped, Signals() as signals:
        load(signals)

    assert (steps, stopped.value.exit_code) == (["loaded"], code)


def test_once_modules_are_loaded_a_signal_waits_no_more() -> None:
    steps = []

    def load(signals: Signals) -> None:
        with signals.held():
            steps.append("loaded")
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("went on")

    with pytest.raises(Interrupted), Signals() as signals:
        load(signals)

    assert steps == ["loaded"]


WHO_CATCHES = "import signal; {}; import synth_train.__main__; print(signal.getsignal(signal.SIGINT) is signal.{})"


@pytest.mark.parametrize(
    ("before", "then"),
    [("pass", "SIG_DFL"), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", "SIG_IGN")],
    ids=["ctrl-c ends it without a traceback", "what is switched off stays off"],
)
def test_before_anything_is_loaded(tmp_path: Path, before: str, then: str) -> None:
    assert python(WHO_CATCHES.format(before, then), cwd=tmp_path).stdout == "True\n"
