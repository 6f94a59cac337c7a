"""Telling of calls that are tried again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from synth_train.domain.model.moments import Retrying
from synth_train.ports.patience import RetryPolicy
from synth_train.ports.progress import ProgressPort


def telling(progress: ProgressPort, what: str, policy: RetryPolicy) -> Callable[[Exception, float], None]:
    """What `PatiencePort.retrying` is to call before each wait, for one call: it counts the attempts.

    Args:
        what: the call in words: `create the job`.
    """
    attempts = count(2)

    def waiting(error: Exception, wait: float) -> None:
        progress.tell(
            Retrying(what=what, error=str(error), wait=wait, attempt=next(attempts), attempts=policy.attempts)
        )

    return waiting
