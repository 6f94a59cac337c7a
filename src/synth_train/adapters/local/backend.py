"""The embedded backend: hosting with SQLite, folders and worker processes of this machine (design §5)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.hosted_backend import HostedBackend
from synth_train.adapters.local.disk_blobs import DiskBlobStore, FolderResults
from synth_train.adapters.local.home import NO_SPACE, LocalHome, is_full
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.sqlite_store import SqliteJobStore
from synth_train.adapters.local.subprocess_executor import WORKER, SubprocessExecutor
from synth_train.adapters.system_clock import SystemClock
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.backend_base import EMBEDDED
from synth_train.domain.model.errors import BackendRefused, NotOffered, TrainingError
from synth_train.domain.model.hosting import KeyPlace, Owner, Refusal, StoredFile, Verdict
from synth_train.domain.model.jobs import Accepted, Features, IdempotencyKey, JobId, JobState, Kind, Verification
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.domain.usecases.hosting.files import Files
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.results import Results
from synth_train.domain.usecases.hosting.service import Workshop
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.ports.backend import Backend, BackendsPort
from synth_train.ports.hosting import BlobStore, Inspector
from synth_train.version import install_command

US = Owner("local")
"""The one owner of everything: whoever may read the folder."""

NEEDED = ("torch", "transformers", "trl", "peft", "accelerate", "tensorboard")
"""What the extra `[local]` brings. Looked for, and not imported: that is for the worker."""

CANCEL_GRACE = 7.0
"""Seconds after which a worker that has not stopped is killed from outside. It ends itself before that, unless it is
stuck altogether."""


class LocalBackend(HostedBackend):
    """Backend on this machine, for its user, who needs no API key.

    What cannot be kept, say on a full disk, is refused at once: here nobody would free any space meanwhile.

    Args:
        folder: where its state is. A job that cannot go on because that disk is full is told of; without a folder
            nobody looks.
        missing: packages that training takes and that are not installed. Jobs can be looked at, cancelled and
            downloaded without them, and none can be created.
    """

    def __init__(
        self,
        workshop: Workshop,
        key_ring: KeyRing,
        *,
        owner: Owner = US,
        folder: Path | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        super().__init__(workshop, EMBEDDED)
        self._folder = folder
        self._missing = missing
        self._key_ring = key_ring
        self._place: KeyPlace | None = None
        self._whose = owner

    def features(self) -> Features:
        """See `BackendPort.features`."""
        features = super().features()
        if not self._missing:
            return features
        return replace(features, obstacle=_obstacle(self._missing), remedy=_remedy())

    def create(self, kind: Kind, request: bytes, key: IdempotencyKey) -> Accepted:
        """See `BackendPort.create`."""
        if self._missing:
            raise BackendRefused(_obstacle(self._missing), hint=_remedy())
        return super().create(kind, request, key)

    def job(self, kind: Kind, job_id: JobId) -> JobState:
        """See `BackendPort.job`. The worker of a job cannot say that the disk is full: that would have to be kept."""
        state = super().job(kind, job_id)
        if not state.phase.over and self._folder is not None and is_full(self._folder):
            what = f"job {job_id} ({state.word}) does what cannot be kept: there is no space left for {self._folder}"
            raise self._refused(Refusal(507, NO_SPACE, what))
        return state

    def lend_environment_key(self, keys: TaskAppKeys, *, name: str, file: Path | None) -> None:
        """Hand the keys down to workers, and note where they were found."""
        self._place = self._key_ring.lend(keys, name=name, file=file)

    def verify_task_app(self, task_url: str) -> Verification:
        """Not offered: our own look at the task app is the backend's look, from the same machine."""
        raise NotOffered("the embedded backend does not verify task apps", status=404)

    def holds_environment_key(self) -> bool:
        """Not offered: there is no vault here."""
        raise _no_vault()

    def public_key(self) -> bytes:
        """Not offered: there is no vault here."""
        raise _no_vault()

    def store_environment_key(self, sealed: bytes) -> None:
        """Not offered: there is no vault here."""
        raise _no_vault()

    def _owner(self) -> Owner:
        return self._whose

    def _key_place(self) -> KeyPlace | None:
        return self._place

    def _refused(self, no: Refusal) -> TrainingError:
        if no.status < 500:
            return super()._refused(no)
        hint = "Free some space, then run the same command again." if no.code == NO_SPACE else ""
        return BackendRefused(f"{self._base}: {no.message}", hint=hint)


class LocalBackends(BackendsPort):
    """The way to the embedded backend whose state is in `folder`.

    Args:
        environ: the environment of this process: workers inherit it.
        program: what a worker runs; tests give another that trains otherwise.
        needed: the packages that training takes.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        program: Sequence[str] = WORKER,
        needed: Sequence[str] = NEEDED,
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._program = program
        self._needed = needed

    def connect(self, base: str, api_key: Secret | None) -> Backend:
        """The embedded backend; `base` and `api_key` say nothing about it."""
        missing = [name for name in self._needed if find_spec(name) is None]
        home = LocalHome(self._folder.absolute())
        key_ring = KeyRing(self._environ, DotenvEnv(self._environ).read)
        workshop = workshop_in(home, key_ring, program=self._program, missing=missing)
        return LocalBackend(workshop, key_ring, folder=home.path, missing=missing)


def workshop_in(
    home: LocalHome, key_ring: KeyRing, *, program: Sequence[str] = WORKER, missing: Sequence[str] = ()
) -> Workshop:
    """A workshop over the state in a folder, which is made when it is first asked. Without the packages that are
    `missing` it starts no worker."""
    clock, entropy = SystemClock(), SystemEntropy()
    store, blobs = SqliteJobStore(home.database), DiskBlobStore(home.blobs, entropy)
    queue = Queue(store=store, clock=clock, hindrance=key_ring.hindrance)
    obstacle = _obstacle(missing) if missing else ""
    executor = SubprocessExecutor(home, queue, key_ring, program=program, obstacle=obstacle)
    return Workshop(
        files=Files(store=store, blobs=blobs, inspector=_Trusting(), clock=clock, entropy=entropy),
        jobs=Jobs(store=store, executor=executor, clock=clock, entropy=entropy, cancel_grace=CANCEL_GRACE),
        results=Results(store=store, made=FolderResults(home), clock=clock),
        takes_config=True,
    )


class _Trusting(Inspector):
    """Inspector that lets every file pass: whoever uploads here has checked it a moment ago, with the same code."""

    def inspect(self, file: StoredFile, blobs: BlobStore) -> Verdict | None:
        return Verdict(ok=True)


def lacking(needed: Sequence[str]) -> str:
    """What of `needed` is not installed, and how to install it; empty when nothing is lacking."""
    missing = [name for name in needed if find_spec(name) is None]
    return f"{_obstacle(missing)}. {_remedy()}" if missing else ""


def _obstacle(missing: Sequence[str]) -> str:
    return f"what the embedded backend trains with is not installed: {', '.join(missing)}"


def _remedy() -> str:
    old = " They need Python 3.11 or newer." if sys.version_info < (3, 11) else ""
    return f"Install them with: {install_command('local')}{old and '.'}{old}"


def _no_vault() -> NotOffered:
    return NotOffered("the embedded backend has no vault: it uses your key where it is", status=404)
