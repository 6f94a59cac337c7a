"""The numbers a shell sees, and what each means (design §4). The only place where they stand.

`MEANINGS` is plain data, so that `--help` can show it without loading the errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from synth_train.domain.model.jobs import JobState
    from synth_train.domain.usecases.batch import ConfigResult


class ExitCode(IntEnum):
    """One number for each kind of end that a script may want to tell apart."""

    OK = 0
    BUG = 1
    USAGE = 2
    INVALID = 3
    CREDENTIALS = 4
    TASK_APP = 5
    REFUSED = 6
    UNREACHABLE = 7
    JOB_FAILED = 8
    GAVE_UP = 9
    INTERRUPTED = 130
    NOBODY_READS = 141
    TERMINATED = 143


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "all done",
    ExitCode.BUG: "a bug in the tool",
    ExitCode.USAGE: "usage, or a question that nobody can answer",
    ExitCode.INVALID: "invalid config or dataset",
    ExitCode.CREDENTIALS: "credentials missing or refused",
    ExitCode.TASK_APP: "the task app is not healthy",
    ExitCode.REFUSED: "the backend refused",
    ExitCode.UNREACHABLE: "the backend cannot be reached, or the outcome is unknown",
    ExitCode.JOB_FAILED: "the job ended otherwise than succeeded",
    ExitCode.GAVE_UP: "gave up waiting; what was waited for goes on",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C)",
    ExitCode.NOBODY_READS: "nobody reads the output any more",
    ExitCode.TERMINATED: "terminated (SIGTERM)",
}


def exit_code_for(error: BaseException) -> ExitCode:
    """The code of the most specific class of `error` that has one; what we did not raise on purpose is a bug."""
    from synth_train.domain.model import errors

    codes: dict[type, ExitCode] = {
        errors.UsageError: ExitCode.USAGE,
        errors.LocalStateError: ExitCode.USAGE,
        errors.InvalidConfig: ExitCode.INVALID,
        errors.InvalidDataset: ExitCode.INVALID,
        errors.CredentialsError: ExitCode.CREDENTIALS,
        errors.TaskAppUnhealthy: ExitCode.TASK_APP,
        errors.BackendRefused: ExitCode.REFUSED,
        errors.BackendError: ExitCode.UNREACHABLE,
        errors.GaveUpWaiting: ExitCode.GAVE_UP,
    }
    return next((codes[kind] for kind in type(error).__mro__ if kind in codes), ExitCode.BUG)


def exit_code_of(results: Iterable[ConfigResult]) -> ExitCode:
    """The code of the first config, in order, that did not succeed."""
    failed = next((result for result in results if not result.ok), None)
    if failed is None:
        return ExitCode.OK
    return ExitCode.JOB_FAILED if failed.error is None else exit_code_for(failed.error)


def exit_code_of_state(state: JobState) -> ExitCode:
    """The code of a job that has ended."""
    from synth_train.domain.model.jobs import Phase

    return ExitCode.OK if state.phase is Phase.SUCCEEDED else ExitCode.JOB_FAILED


_BETTER_TO_WORSE = (
    ExitCode.OK,
    ExitCode.GAVE_UP,
    ExitCode.JOB_FAILED,
    ExitCode.UNREACHABLE,
    ExitCode.REFUSED,
    ExitCode.CREDENTIALS,
)
"""What can become of a job that is watched; one that goes on unseen is better than one that is known to have failed."""


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The worst of several; what is not among the usual ends of a watch is worse than all of them."""
    return max(codes, key=lambda code: _BETTER_TO_WORSE.index(code) if code in _BETTER_TO_WORSE else 99)
