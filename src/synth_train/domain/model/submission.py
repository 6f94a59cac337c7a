"""How far one submission has come. The journal keeps these, and only these: no body and no secret."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind


class Stage(str, Enum):
    """The steps, in order. Each is written before anybody else can see the effect of the next one.

    INTENT       the idempotency key is chosen; nothing has been sent that could make a job
    UPLOADED     the files are on the backend (SFT)
    CREATING     the job request is about to be posted: from here on the job may exist
    CREATED      the backend has named the job
    HANDED_OVER  the job is started and its id has been told to the user; the entry blocks nothing any more
    REFUSED      the backend said no, so that there is no job under this key; a later run begins afresh
    """

    INTENT = "intent"
    UPLOADED = "uploaded"
    CREATING = "creating"
    CREATED = "created"
    HANDED_OVER = "handed over"
    REFUSED = "refused"


class Submission(Struct, frozen=True, kw_only=True):
    """One journal entry."""

    id: str
    """Names the entry; sorts by the time it was opened."""
    fingerprint: str
    backend: str
    """Base as used, or `local`."""
    account: str
    """Hash of the API key: tells accounts apart, gives no key away. Empty for the retry of a job from elsewhere."""
    kind: Kind
    config: str
    """Path of the TOML, for showing. Empty for the retry of a job from elsewhere."""
    key: IdempotencyKey
    key_is_users: bool
    """Whether the key was given with `--idempotency`."""
    stage: Stage = Stage.INTENT
    training_file: FileId | None = None
    validation_file: FileId | None = None
    job_id: JobId | None = None
    last_word: str = ""
    """Status word last seen for the job; empty when it was never polled."""
    opened_at: float = 0.0
    """Seconds since 1970."""
    updated_at: float = 0.0

    @property
    def open(self) -> bool:
        """Whether it stopped half-way: there may be a job that nobody has been told of."""
        return self.stage not in (Stage.HANDED_OVER, Stage.REFUSED)


def entry_id(opened_at: float, token: str) -> str:
    """The id of a new entry.

    Args:
        opened_at: seconds since 1970.
        token: tells apart what was opened in one millisecond.
    """
    return f"{round(opened_at * 1000):013d}-{token}"
