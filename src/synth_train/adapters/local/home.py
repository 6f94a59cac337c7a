"""Where the embedded backend keeps what it keeps. Everything in it is for its owner's eyes only (0700, 0600)."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from synth_train.domain.model.hosting import Refusal
from synth_train.domain.model.jobs import JobId

MODELS = "SYNTH_LOCAL_MODELS"
"""The variable that names a folder in which `org/name` is looked for first."""

NO_SPACE = "no_space"
"""`Refusal.code` of what did not fit on the disk."""

LEAST_SPACE = 1 << 14
"""Bytes of free disk with fewer than which the database keeps nothing more."""


class JobFolder:
    """The folder of one job. Nothing in it exists before somebody has made it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def config(self) -> Path:
        """The request that the job was asked for with, as JSON."""
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        """Events and points, one JSON object a line, in the order they came. A job that went on from a checkpoint
        repeats the steps after it: of a metric's points for one step the last one counts."""
        return self.path / "metrics.jsonl"

    @property
    def log(self) -> Path:
        """Whatever the libraries that train have written to stdout and stderr."""
        return self.path / "log.txt"

    @property
    def checkpoints(self) -> Path:
        """For the trainer. A folder in it counts as a checkpoint once it has its final name: see `whole`."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """What the job has made; its files are what can be downloaded. It appears whole, when training is over."""
        return self.path / "model"

    @property
    def digests(self) -> Path:
        """The hashes of these files, once somebody has asked for them."""
        return self.path / "digests.json"

    def make(self) -> None:
        """Make the folder, if it is not there."""
        private_folder(self.path)


class LocalHome:
    """The places below one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def database(self) -> Path:
        """Jobs, files, events, points."""
        return self.path / "db.sqlite"

    @property
    def blobs(self) -> Path:
        """Uploaded bytes."""
        return self.path / "blobs"

    @property
    def lock(self) -> Path:
        """Held by the worker as long as it lives; holds its id."""
        return self.path / "worker.lock"

    @property
    def log(self) -> Path:
        """What workers write while they have no job."""
        return self.path / "worker.log"

    def job(self, job_id: JobId) -> JobFolder:
        """The folder of a job."""
        return JobFolder(self.path / "jobs" / job_id)

    def model_of(self, fine_tuned_model: str) -> Path | None:
        """The folder of a model that a job here has made, by its id (`ft:Qwen/Qwen3-4B:job_1`); None if there is none.

        The last segment of the id is the job's.
        """
        prefix, _, job_id = fine_tuned_model.rpartition(":")
        if not prefix or "/" in job_id or os.sep in job_id or job_id in ("", ".", ".."):
            return None
        folder = self.job(JobId(job_id)).model
        return folder if folder.is_dir() else None

    def make(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            Refusal: it cannot be made.
        """
        with keeping(self.path):
            private_folder(self.path)


def private_folder(path: Path) -> None:
    """Make a folder that only its owner can enter; those above it that are missing, too."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def whole(place: Path) -> Iterator[Path]:
    """A folder to fill, which is at `place` when the block ends, and nowhere when it raises or the process dies.

    What was at `place` is replaced.
    """
    aside = place.with_name(f"{place.name}.new")
    _remove(aside)
    private_folder(aside)
    try:
        yield aside
    except BaseException:
        _remove(aside)
        raise
    for path in sorted(aside.rglob("*")):
        if path.is_file():
            _sync(path)
    before = place.with_name(f"{place.name}.old")
    _remove(before)
    if place.exists():
        place.rename(before)
    aside.rename(place)
    _sync(place.parent)
    _remove(before)


def removed(place: Path) -> None:
    """Let there be no folder at `place`; it goes at once, never bit by bit."""
    aside = place.with_name(f"{place.name}.old")
    _remove(aside)
    with contextlib.suppress(FileNotFoundError):
        place.rename(aside)
        _remove(aside)


@contextlib.contextmanager
def keeping(place: Path) -> Iterator[None]:
    """Turn what the disk says into a refusal.

    Raises:
        Refusal: 507 when the disk is full, else 500.
    """
    try:
        yield
    except OSError as error:
        raise refused(error, place) from error


def refused(error: OSError, place: Path) -> Refusal:
    """The refusal for an error of the disk."""
    if no_space(error):
        return Refusal(507, NO_SPACE, f"there is no space left for {place}; nothing was kept of what was asked")
    return Refusal(500, "cannot_keep", f"cannot keep anything in {place}: {error.strerror or type(error).__name__}")


def no_space(error: OSError) -> bool:
    """Whether the disk is full, or all that its owner may use of it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder is full. False where that is not to be had, as of a folder that is gone."""
    try:
        return shutil.disk_usage(folder).free < LEAST_SPACE
    except OSError:
        return False


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk, where the system has that."""
    if os.name == "posix":
        _sync(path)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
