"""How far one submission has come. The journal keeps these, and only these: no body and no secret."""

from __future__ import annotations

import hashlib
from enum import Enum

from msgspec import Struct

from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind
from synth_train.domain.model.secret import Secret


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
    """Hash of the API key: tells accounts apart, gives no key away."""
    kind: Kind
    config: str
    """Path of the TOML, for showing."""
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


def account_of(backend: str, key: Secret | None) -> str:
    """A name for the account that `key` opens on `backend`, from which the key cannot be had back."""
    text = f"{backend}\0{key.reveal() if key else ''}"
    return hashlib.sha256(b"synth-train account\0" + text.encode()).hexdigest()[:16]


def fingerprint_of(
    *, backend: str, account: str, kind: Kind, config: bytes, request: bytes, uploads: tuple[str, ...]
) -> str:
    """What makes two runs the same submission: where it goes, for whom, what is asked, and with which bytes.

    Args:
        config: the resolved TOML table, encoded.
        request: the body with its file ids null.
        uploads: SHA-256 of each file's bytes, in the order they are uploaded.
    """
    digest = hashlib.sha256()
    for part in (
        backend.encode(),
        account.encode(),
        kind.value.encode(),
        config,
        request,
        *map(str.encode, uploads),
    ):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
