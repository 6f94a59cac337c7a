"""A journal that lasts as long as the process."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from synth_train.domain.model.jobs import IdempotencyKey, JobId
from synth_train.domain.model.submission import Stage, Submission
from synth_train.ports.journal import JournalPort


class InMemoryJournal(JournalPort):
    """JournalPort in a dict. Inspect `entries`; `after_crash()` is the same journal in the hands of a new process."""

    def __init__(self, entries: dict[str, Submission] | None = None, held: set[str] | None = None) -> None:
        self.entries = {} if entries is None else entries
        self._held_by_anyone: set[str] = set() if held is None else held
        self._held: set[str] = set()

    def beside(self) -> InMemoryJournal:
        """The same entries as another live process sees them."""
        return InMemoryJournal(self.entries, self._held_by_anyone)

    def after_crash(self) -> InMemoryJournal:
        """The same entries as the next process finds them, after this one ended without letting go."""
        self._held_by_anyone -= self._held
        return InMemoryJournal(self.entries, self._held_by_anyone)

    def open(self, submission: Submission) -> None:
        self.entries[submission.id] = submission
        self._hold(submission)

    def take_up(self, fingerprint: str) -> Submission | None:
        for entry in self._newest_first():
            if entry.fingerprint == fingerprint and entry.open and not entry.key_is_users and self._hold(entry):
                return entry
        return None

    def with_key(self, backend: str, account: str, key: IdempotencyKey) -> Submission | None:
        for entry in self._newest_first():
            if entry.key_is_users and (entry.backend, entry.account, entry.key) == (backend, account, key):
                self._hold(entry)
                return entry
        return None

    def advance(self, submission: Submission) -> None:
        self.entries[submission.id] = submission

    def release(self, submission: Submission) -> None:
        if submission.id in self._held:
            self._held.discard(submission.id)
            self._held_by_anyone.discard(submission.id)

    def saw(self, job_id: JobId, word: str) -> None:
        for entry in self._newest_first():
            if entry.job_id == job_id:
                self.entries[entry.id] = replace(entry, last_word=word)
                return

    def with_jobs(self) -> Sequence[Submission]:
        return [entry for entry in self._newest_first() if entry.job_id is not None]

    def latest_handed_over(self, fingerprint: str) -> Submission | None:
        for entry in self._newest_first():
            if entry.fingerprint == fingerprint and entry.stage is Stage.HANDED_OVER:
                return entry
        return None

    def _newest_first(self) -> list[Submission]:
        return [self.entries[name] for name in sorted(self.entries, reverse=True)]

    def _hold(self, submission: Submission) -> bool:
        if submission.id in self._held:
            return True
        if submission.id in self._held_by_anyone:
            return False
        self._held.add(submission.id)
        self._held_by_anyone.add(submission.id)
        return True
