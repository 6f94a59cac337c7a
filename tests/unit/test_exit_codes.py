"""The number that a shell sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from synth_train.domain.model import errors
from synth_train.domain.model.errors import InvalidConfig, OutcomeUnknown, TrainingError
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Phase
from synth_train.domain.usecases.batch import ConfigResult
from synth_train.entrypoints.exit_codes import MEANINGS, ExitCode, exit_code_for, exit_code_of, worst

FAILED = ConfigResult(config="b.toml", job_id=JobId("job_1"), phase=Phase.FAILED, word="failed")
FINE = ConfigResult(config="a.toml", job_id=JobId("job_2"), phase=Phase.SUCCEEDED, word="succeeded")
INVALID = ConfigResult(config="c.toml", error=InvalidConfig("no model"))
UNWATCHED = ConfigResult(config="d.toml", job_id=JobId("job_3"))
SKIPPED = ConfigResult(config="e.toml", skipped=True)


def kinds(kind: type[TrainingError] = TrainingError) -> Iterator[type[TrainingError]]:
    for below in kind.__subclasses__():
        yield below
        yield from kinds(below)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UsageError", 2),
        ("AnswerNeeded", 2),
        ("LocalStateError", 2),
        ("InvalidConfig", 3),
        ("InvalidDataset", 3),
        ("CredentialsError", 4),
        ("KeyRefused", 4),
        ("TaskAppUnhealthy", 5),
        ("BackendRefused", 6),
        ("NotOffered", 6),
        ("NotKnown", 6),
        ("FileRejected", 6),
        ("BackendBusy", 7),
        ("UnexpectedReply", 7),
        ("BackendUnreachable", 7),
        ("GaveUpWaiting", 9),
    ],
)
def test_each_error_has_its_code(name: str, code: int) -> None:
    assert exit_code_for(getattr(errors, name)("what")) == code


def test_an_unknown_outcome_is_no_refusal() -> None:
    assert exit_code_for(OutcomeUnknown("what", key=IdempotencyKey("k"))) == 7


def test_no_error_of_ours_is_a_bug_and_every_other_one_is() -> None:
    assert [kind for kind in kinds() if exit_code_for(kind.__new__(kind)) is ExitCode.BUG] == []
    assert exit_code_for(ValueError("what")) is ExitCode.BUG


def test_every_code_is_explained() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((), ExitCode.OK),
        ((FINE, UNWATCHED), ExitCode.OK),
        ((FINE, FAILED, INVALID), ExitCode.JOB_FAILED),
        ((INVALID, SKIPPED), ExitCode.INVALID),
        ((FINE, INVALID, SKIPPED), ExitCode.INVALID),
    ],
)
def test_of_several_configs_the_first_that_did_not_succeed_decides(
    results: tuple[ConfigResult, ...], code: ExitCode
) -> None:
    assert exit_code_of(results) is code


@pytest.mark.parametrize(
    ("codes", "one"),
    [([0, 0], 0), ([0, 9, 0], 9), ([9, 8], 8), ([8, 7], 7), ([7, 6], 6), ([6, 4, 0], 4), ([4, 1, 9], 1)],
)
def test_the_worst_of_several_ends_is_the_one_that_needs_most_of_us(codes: list[int], one: int) -> None:
    assert worst(map(ExitCode, codes)) == one
