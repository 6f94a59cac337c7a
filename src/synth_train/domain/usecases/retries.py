"""Calls that are tried again, and telling of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TypeVar

from synth_train.domain.model.errors import BackendBusy, BackendUnreachable
from synth_train.domain.model.moments import Retrying
from synth_train.ports.patience import PatiencePort, RetryPolicy
from synth_train.ports.progress import ProgressPort

T = TypeVar("T")


def may_pass(error: Exception) -> bool:
    """Whether asking again may help: transport errors, 408, 425, 429 and 5xx."""
    return isinstance(error, (BackendBusy, BackendUnreachable))


def retried(
    call: Callable[[], T],
    *,
    what: str,
    patience: PatiencePort,
    progress: ProgressPort,
    policy: RetryPolicy | None = None,
    again: Callable[[Exception], bool] = may_pass,
) -> T:
    """Make a call, again while that may help, and tell of each further attempt, with its number.

    Args:
        what: the call in words: `create the job`.
        policy: None is the usual one (design §4, Retries).
        again: whether an error may pass.
    """
    policy = policy or RetryPolicy()
    attempts = count(2)

    def waiting(error: Exception, wait: float) -> None:
        progress.tell(
            Retrying(what=what, error=str(error), wait=wait, attempt=next(attempts), attempts=policy.attempts)
        )

    return patience.retrying(call, policy=policy, again=again, waiting=waiting)
