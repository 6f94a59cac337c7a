"""Status words, file words and idempotency keys, as they come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth_train.domain.model.jobs import (
    FilePhase,
    JobId,
    Kind,
    Phase,
    file_phase_of,
    idempotency_key,
    phase_of,
    short_ids,
)


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("SUCCEEDED", Phase.SUCCEEDED),
        (" Succeeded ", Phase.SUCCEEDED),
        ("completed", Phase.SUCCEEDED),
        ("success", Phase.SUCCEEDED),
        ("FAILED", Phase.FAILED),
        ("error", Phase.FAILED),
        ("expired", Phase.FAILED),
        ("timed_out", Phase.FAILED),
        ("Cancelled", Phase.CANCELLED),
        ("canceled", Phase.CANCELLED),
        ("stopped", Phase.CANCELLED),
        ("queued", Phase.LIVE),
        ("cancelling", Phase.LIVE),
        ("quantum_flux", Phase.UNKNOWN),
        (None, Phase.UNKNOWN),
        (7, Phase.UNKNOWN),
    ],
)
def test_a_job_status_means_the_same_in_any_case_and_with_blanks_around_it(word: object, phase: Phase) -> None:
    assert phase_of(word) is phase


def test_only_an_end_is_over() -> None:
    assert {phase for phase in Phase if phase.over} == {Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED}


@given(st.text())
def test_a_word_that_nobody_knows_never_counts_as_success(word: str) -> None:
    if word.strip().lower() not in ("succeeded", "success", "completed", "complete"):
        assert phase_of(word) is not Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        (None, FilePhase.READY),
        ("Ready", FilePhase.READY),
        ("uploaded", FilePhase.READY),
        ("processing", FilePhase.WAITING),
        ("INVALID_FORMAT", FilePhase.REJECTED),
        ("deleted", FilePhase.REJECTED),
        ("resting", FilePhase.UNKNOWN),
        (7, FilePhase.UNKNOWN),
    ],
)
def test_a_file_status_means_ready_waiting_or_rejected(word: object, phase: FilePhase) -> None:
    assert file_phase_of(word) is phase


@pytest.mark.parametrize("text", ["K-77", "a b", "x", "~" * 255])
def test_printable_ascii_can_be_an_idempotency_key(text: str) -> None:
    assert idempotency_key(text) == text


@pytest.mark.parametrize("text", ["", " K", "K ", "a\nb", "a\r", "ä", "x" * 256, "a\0b"])
def test_what_cannot_stand_in_a_header_is_no_idempotency_key(text: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        idempotency_key(text)


def test_each_kind_of_job_has_its_route() -> None:
    assert (Kind.RL.route, Kind.SFT.route) == ("rl/jobs", "learning/jobs")


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (["job_0123456789abc", "job_1123456789abc"], ("job_01234567", "job_11234567")),
        (["job_0123456789abc", "job_0123456789xyz"], ("job_0123456789a", "job_0123456789x")),
        (["job_0123456789ab", "job_0123456789ac"], ("job_0123456789ab", "job_0123456789ac")),
        (["job_1", "job_2"], ("job_1", "job_2")),
        ([], ()),
    ],
)
def test_ids_are_cut_as_short_as_tells_them_apart(ids: list[str], short: tuple[str, ...]) -> None:
    assert short_ids(list(map(JobId, ids))) == short
