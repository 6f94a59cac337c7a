"""The memory of submissions under way. In memory: `adapters.in_memory.journal.InMemoryJournal`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from synth_train.domain.model.jobs import IdempotencyKey, JobId
from synth_train.domain.model.submission import Submission


class JournalPort(Protocol):
    """Entries that outlive the process, each written whole or not at all.

    An entry is held by at most one live process. A process that ends in any way, killed or not, lets go of what it
    held. Whatever has returned from `open` or `advance` is on the disk.

    Raises everywhere:
        LocalStateError: the entry cannot be kept; nothing may be sent then.
    """

    def open(self, submission: Submission) -> None:
        """Keep a new entry, and hold it."""
        ...

    def take_up(self, fingerprint: str) -> Submission | None:
        """Hold and return the newest open entry of this fingerprint that nobody else holds and whose key is not the
        user's; None when there is none."""
        ...

    def with_key(self, backend: str, account: str, key: IdempotencyKey) -> Submission | None:
        """Return the newest entry, at whatever stage, of this account under a key that the user gave, and hold it
        if nobody does; None when there is none."""
        ...

    def advance(self, submission: Submission) -> None:
        """Replace the entry with the same id."""
        ...

    def release(self, submission: Submission) -> None:
        """Let go of an entry. Letting go of one that is not held changes nothing."""
        ...

    def saw(self, job_id: JobId, word: str) -> None:
        """Note the status last seen of a job. Best effort: never raises, and unknown jobs are passed over."""
        ...

    def with_jobs(self) -> Sequence[Submission]:
        """The entries that name a job, the newest first. Best effort: never raises, passes over what is unreadable."""
        ...

    def latest_handed_over(self, fingerprint: str) -> Submission | None:
        """The newest entry of this fingerprint that was handed over; None when there is none."""
        ...
