"""Jobs and files as a backend speaks of them, in one vocabulary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NewType

from msgspec import Struct

JobId = NewType("JobId", str)
FileId = NewType("FileId", str)
IdempotencyKey = NewType("IdempotencyKey", str)

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
LONGEST_KEY = 255


def idempotency_key(text: str) -> IdempotencyKey:
    """`text` as an idempotency key: 1 to 255 printable ASCII characters, no blank at either end.

    Raises:
        ValueError: it cannot stand in an HTTP header as it is.
    """
    if len(text) > LONGEST_KEY or not _KEY.fullmatch(text):
        raise ValueError(f"an idempotency key is 1 to {LONGEST_KEY} printable ASCII characters")
    return IdempotencyKey(text)


class Kind(str, Enum):
    """What a config trains."""

    RL = "rl"
    SFT = "sft"

    @property
    def route(self) -> str:
        """Where jobs of this kind live below the backend's base (wire-contract §2, §3)."""
        return "rl/jobs" if self is Kind.RL else "learning/jobs"


class Phase(str, Enum):
    """What a status word means to somebody who waits."""

    LIVE = "live"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def over(self) -> bool:
        """Whether a job in this phase will not change any more."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


_JOB_WORDS = {
    **dict.fromkeys(
        ("queued", "running", "pending", "created", "starting", "cancelling", "validating", "in_progress"),
        Phase.LIVE,
    ),
    **dict.fromkeys(("succeeded", "success", "completed", "complete"), Phase.SUCCEEDED),
    **dict.fromkeys(("failed", "failure", "error", "expired", "timed_out", "timeout"), Phase.FAILED),
    **dict.fromkeys(("cancelled", "canceled", "stopped"), Phase.CANCELLED),
}


def phase_of(word: object) -> Phase:
    """The meaning of a status as it came in; case and surrounding blanks do not count, other words are unknown."""
    return _JOB_WORDS.get(word.strip().lower(), Phase.UNKNOWN) if isinstance(word, str) else Phase.UNKNOWN


class JobState(Struct, frozen=True, kw_only=True):
    """One authoritative read of a job."""

    job_id: JobId
    word: str
    """The status as the backend sent it, for showing."""
    phase: Phase
    reason: str = ""
    """Why it ended, when the backend says."""
    fine_tuned_model: str | None = None
    kind: Kind | None = None
    """None when the backend does not say, or says something else."""


def short_ids(ids: Sequence[JobId], *, least: int = 12) -> tuple[str, ...]:
    """The beginnings of ids, as short as tells them apart, but not below `least` characters."""
    for length in range(least, max(map(len, ids), default=0)):
        short = tuple(one[:length] for one in ids)
        if len(set(short)) == len(set(ids)):
            return short
    return tuple(ids)


class JobSummary(Struct, frozen=True, kw_only=True):
    """One line of a list of jobs."""

    job_id: JobId
    kind: Kind | None
    """None when the backend does not say, or says something else."""
    word: str
    phase: Phase
    model: str = ""
    name: str = ""
    created_at: float | None = None
    """Seconds since 1970."""
    fine_tuned_model: str | None = None


class Accepted(Struct, frozen=True, kw_only=True):
    """A job that the backend has taken."""

    job_id: JobId
    status: int
    """HTTP status of the reply, 200 or 201."""
    reply: str
    """The reply's body as one line of JSON, secrets masked, for showing."""


class FilePhase(str, Enum):
    """What a file's status means to somebody who waits for it."""

    READY = "ready"
    WAITING = "waiting"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


_FILE_WORDS = {
    **dict.fromkeys(
        ("ready", "uploaded", "stored", "complete", "completed", "processed", "succeeded"), FilePhase.READY
    ),
    **dict.fromkeys(("processing", "pending", "validating", "queued", "running"), FilePhase.WAITING),
    **dict.fromkeys(
        ("error", "failed", "rejected", "invalid_format", "cancelled", "canceled", "deleted"),
        FilePhase.REJECTED,
    ),
}


def file_phase_of(word: object) -> FilePhase:
    """The meaning of a file status as it came in. No status at all counts as ready (wire-contract §3.3)."""
    if word is None:
        return FilePhase.READY
    return _FILE_WORDS.get(word.strip().lower(), FilePhase.UNKNOWN) if isinstance(word, str) else FilePhase.UNKNOWN


class FileState(Struct, frozen=True, kw_only=True):
    """One read of an uploaded file."""

    file_id: FileId
    word: str
    phase: FilePhase
    detail: str = ""
    """What the backend says about it, text or JSON, for showing."""


class Features(Struct, frozen=True, kw_only=True):
    """What a backend says of itself before anything is posted."""

    base: str
    """The API root in use: `/api` is added to a bare base when only that answers."""
    takes_config: bool = False
    """Whether `metadata.config` of an SFT job is read: the parts that the hosted wire drops."""
    obstacle: str = ""
    """Why nothing can be trained there at present, though jobs can be looked at; empty when it can."""
    remedy: str = ""
    """What to do about the obstacle."""


class Verification(Struct, frozen=True, kw_only=True):
    """The backend's own try at the task app, with every environment key it holds."""

    ok: bool
    candidates: int
    """How many keys were tried. The candidates themselves are never kept: a server may put parts of keys there."""
    statuses: tuple[int, ...]
    report: str = ""
    """The whole reply, secrets masked and candidates left out, for showing on failure."""
