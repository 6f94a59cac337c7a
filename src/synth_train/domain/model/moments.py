"""What happens during a run, as values. ProgressPort is told them; the console adapter words them.

A moment holds what a person or a script may see: keys only as masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.dataset import DatasetReport
from synth_train.domain.model.errors import TrainingError
from synth_train.domain.model.events import Event
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.places import Problem


class Moment(Struct, frozen=True, kw_only=True, tag=True):
    """Base of all moments."""


class EnvFilesUsed(Moment, frozen=True):
    """Values come from these files, the last one winning."""

    paths: tuple[Path, ...]


class BackendChosen(Moment, frozen=True):
    """Where requests go, before the first one. `key_mask` is None for a backend that takes no key."""

    base: str
    key_mask: str | None


class ApiRootFound(Moment, frozen=True):
    """The bare base did not answer, `/api` below it did, and is used from here on."""

    base: str


class ConfigBegun(Moment, frozen=True):
    """One of several configs has its turn. `ordinal` counts from 1."""

    config: str
    ordinal: int
    of: int


class ProblemFound(Moment, frozen=True):
    """A warning about a config or dataset; errors are raised, not told."""

    problem: Problem


class Noted(Moment, frozen=True):
    """Something the user should know that has no place in a file."""

    text: str
    warning: bool = False


class KeyMinted(Moment, frozen=True):
    """A new ENVIRONMENT_API_KEY was made and saved to `path`; then it was uploaded."""

    mask: str
    path: Path


class TaskAppVerified(Moment, frozen=True):
    """The backend reached the task app with one of its keys."""

    candidates: int
    statuses: tuple[int, ...]


class TaskAppHealthy(Moment, frozen=True):
    """The task app passed our own probes too."""

    task_url: str


class DatasetChecked(Moment, frozen=True):
    """Every row was read and is fit for training."""

    report: DatasetReport


class DatasetProgress(Moment, frozen=True):
    """So much of a dataset has been read. Told at least every few MiB of a large file."""

    path: Path
    done: int
    total: int
    """Bytes."""


class UploadBegun(Moment, frozen=True):
    """One attempt to upload a file begins."""

    path: Path
    purpose: str
    size: int
    """Bytes."""


class UploadProgress(Moment, frozen=True):
    """So many bytes have gone out in this attempt."""

    path: Path
    sent: int
    size: int


class FileWaiting(Moment, frozen=True):
    """The file is not ready; told once per status word."""

    file_id: FileId
    word: str


class FileReady(Moment, frozen=True):
    """The backend can use the file."""

    file_id: FileId
    purpose: str


class Creating(Moment, frozen=True):
    """The job request is about to be posted. The body is what goes over the wire, byte for byte."""

    url: str
    body: bytes
    key: IdempotencyKey


class Created(Moment, frozen=True):
    """The backend has the job."""

    job_id: JobId
    kind: Kind
    status: int
    reply: str


class Resumed(Moment, frozen=True):
    """An earlier run of the same submission stopped half-way and is taken up at `stage`."""

    stage: str
    opened_at: float
    key: IdempotencyKey
    job_id: JobId | None
    word: str = ""
    """Status of the job when it was last seen; empty when it never was."""


class Retrying(Moment, frozen=True):
    """A call failed and is tried again after `wait` seconds."""

    what: str
    error: str
    wait: float
    attempt: int
    """Of the try that is to come; the first one, which failed, was number 1."""
    attempts: int
    """How many there are at most."""


class PollingBegun(Moment, frozen=True):
    """From here on the job is asked for every `interval` seconds, for `timeout` seconds at most."""

    job_id: JobId
    interval: float
    timeout: float


class SeveralWatched(Moment, frozen=True):
    """From here on these jobs are asked for in turn; told in place of `PollingBegun`."""

    job_ids: tuple[JobId, ...]
    interval: float
    timeout: float


class StatusSeen(Moment, frozen=True):
    """The status changed. `elapsed` counts seconds from the beginning of the watch."""

    job_id: JobId
    elapsed: float
    word: str
    phase: Phase


class PollFailed(Moment, frozen=True):
    """One poll failed; the job goes on, and so does the watch."""

    job_id: JobId
    error: str


class EventSeen(Moment, frozen=True):
    """The backend tells that something happened to the job; each event once, by `seq`."""

    job_id: JobId
    event: Event


class PointsSeen(Moment, frozen=True):
    """The metrics of one step, by name; each step once, in order."""

    job_id: JobId
    step: int
    values: Mapping[str, float]
    created_at: float = 0.0
    """Seconds since 1970, on the backend's clock; 0 when it does not say."""


class WatchFailed(Moment, frozen=True):
    """One of several jobs cannot be watched any more; the others are. Its outcome holds the same error."""

    job_id: JobId
    error: TrainingError


class JobEnded(Moment, frozen=True):
    """The watch is over because the job is."""

    job_id: JobId
    word: str
    phase: Phase
    reason: str
    fine_tuned_model: str | None


class ConfigFailed(Moment, frozen=True):
    """One of several configs is broken or could not be carried out. Its result holds the same error."""

    config: str
    error: TrainingError
