"""Waiting and trying again. The only place where either happens.

In memory: `adapters.tenacity_patience.TenacityPatience` over `adapters.in_memory.clock.ManualClock`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How long a call is tried again."""

    attempts: int = 5
    first_wait: float = 0.5
    """Seconds; waits are drawn evenly from zero up to a bound that doubles from here (full jitter)."""
    longest_wait: float = 8.0
    """Seconds, the bound of the bound."""
    total: float | None = 60.0
    """Seconds for all attempts and waits together; None for uploads, which take what they take."""
    longest_retry_after: float = 60.0
    """Seconds; a server that asks for more than this, or for more than is left, ends the call at once."""


class PatiencePort(Protocol):
    """Somebody who can wait."""

    def retrying(
        self,
        call: Callable[[], T],
        *,
        policy: RetryPolicy,
        again: Callable[[Exception], bool],
        waiting: Callable[[Exception, float], None],
    ) -> T:
        """Call `call` until it returns, raises something that `again` says no to, or `policy` is used up.

        What comes out then is the last error itself, never a library's. A `BackendBusy` with a `retry_after` is
        waited out for exactly that long if the policy and the time left allow it, and else ends the call at once.
        `waiting` is told the error and the seconds before each wait. `call` is not begun after the total is over.
        """
        ...

    def until(
        self,
        ask: Callable[[], T],
        *,
        done: Callable[[T], bool],
        interval: Callable[[T], float],
        deadline: float,
    ) -> T | None:
        """Call `ask` until `done` likes the answer, which is returned, with `interval(answer)` seconds in between.

        None when `deadline` (of `ClockPort.monotonic`) came first. `ask` is called at once, and not again once the
        deadline is reached; the last wait is cut to it. What `ask` raises comes out.
        """
        ...
