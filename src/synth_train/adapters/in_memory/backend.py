"""A backend without a wire: hosting over in-memory stores."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Struct

from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.executor import InMemoryExecutor, ScriptedTrainer
from synth_train.adapters.in_memory.hosting_stores import InMemoryBlobStore, InMemoryJobStore, ScriptedInspector
from synth_train.adapters.in_memory.sealer import ReadableUnsealer
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.errors import NotOffered
from synth_train.domain.model.hosting import Job, Owner, Refusal, StoredFile
from synth_train.domain.model.jobs import (
    Accepted,
    Features,
    FileId,
    FileState,
    IdempotencyKey,
    JobId,
    JobState,
    Kind,
    Verification,
)
from synth_train.domain.model.replies import (
    features_in,
    file_id_in,
    file_state_in,
    job_id_in,
    job_state_in,
    refusal,
    verification_in,
)
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting import wire
from synth_train.domain.usecases.hosting.files import Files, Label
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.service import Hosting
from synth_train.domain.usecases.hosting.vault import ENVIRONMENT_KEY, Vault
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.ports.backend import Backend, BackendsPort, Upload
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.hosting import Unsealer
from synth_train.ports.task_app import TaskAppPort

T = TypeVar("T")

_CHUNK = 1 << 20


class InMemoryHosting:
    """Hosting with nothing behind it: rows and bytes in this process, a trainer that only takes time.

    Arrange with `inspector` (when files are ready), `executor` (how long jobs wait) and `trainer` (how long they run
    and how they end); serve `hosting` or ask it through an `InMemoryBackend`.
    """

    def __init__(
        self,
        *,
        clock: ClockPort,
        entropy: EntropyPort | None = None,
        task_app: TaskAppPort | None = None,
        unsealer: Unsealer | None = None,
        owners: frozenset[Owner] | None = None,
        takes_config: bool = False,
    ) -> None:
        entropy = entropy or CountingEntropy()
        self.store = InMemoryJobStore()
        self.blobs = InMemoryBlobStore()
        self.inspector = ScriptedInspector()
        self.trainer = ScriptedTrainer(clock)
        self.executor = InMemoryExecutor(Queue(store=self.store, clock=clock), self.trainer)
        self.hosting = Hosting(
            files=Files(store=self.store, blobs=self.blobs, inspector=self.inspector, clock=clock, entropy=entropy),
            jobs=Jobs(store=self.store, executor=self.executor, clock=clock, entropy=entropy),
            vault=Vault(
                store=self.store,
                unsealer=unsealer or ReadableUnsealer(),
                task_app=task_app or InMemoryTaskApp(),
                clock=clock,
                entropy=entropy,
            ),
            owners=owners,
            takes_config=takes_config,
        )


class Call(Struct, frozen=True):
    """One call that an in-memory backend has seen."""

    name: str
    """The method's name: `upload`, `create`, …"""
    subject: object = None
    """What it was about: a file name, an id, the bytes of a request, a URL."""
    key: IdempotencyKey | None = None


@dataclass
class _Outage:
    call: str
    error: BaseException
    after_effect: bool


class InMemoryBackend(Backend):
    """Backend without a wire: hosting itself, for the holder of one API key.

    It refuses, conflicts, replays and reports by the code that serves real users. Arrange outages with `fail_next`,
    files and jobs with `world.inspector`, `world.executor` and `world.trainer`, and `vault = False` for a backend
    that has none. Inspect with `calls`, `requests`, `jobs` and `files`.
    """

    def __init__(
        self,
        *,
        api_key: Secret | None = Secret("sk-in-memory-000000000000"),  # noqa: B008 - frozen
        base: str = "https://backend.test",
        clock: ClockPort | None = None,
        world: InMemoryHosting | None = None,
    ) -> None:
        self.world = world or InMemoryHosting(clock=clock or ManualClock())
        self.vault = True
        self.calls: list[Call] = []
        self.requests: list[bytes] = []
        """The bodies of all job requests that came in, refused ones too."""
        self._outages: list[_Outage] = []
        self._api_key = api_key
        self._base = base.rstrip("/")

    # Arrange

    def fail_next(self, call: str, error: BaseException, *, after_effect: bool = False, times: int = 1) -> None:
        """Let the next calls of the method `call` raise `error`, behind those arranged before.

        Args:
            after_effect: whether the backend does what it is asked first, so that only its reply is lost.
        """
        self._outages += [_Outage(call, error, after_effect)] * times

    def seen_by(self, base: str, api_key: Secret | None) -> InMemoryBackend:
        """This backend for another holder, under another base."""
        other = copy.copy(self)
        other._base, other._api_key = base.rstrip("/"), api_key
        return other

    # Inspect

    @property
    def jobs(self) -> list[Job]:
        """All jobs, the oldest first, as they stand; looking at them here does not move them."""
        return self.world.store.all_jobs

    @property
    def files(self) -> list[StoredFile]:
        """All files, the oldest first."""
        return self.world.store.all_files

    def content(self, file: StoredFile) -> bytes:
        """The bytes of a file."""
        with self.world.blobs.open(file.blob) as content:
            return content.read()

    def called(self, name: str) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.calls if call.name == name]

    # Backend

    @property
    def base(self) -> str:
        return self._base

    def features(self) -> Features:
        return self._asked(
            "features",
            lambda: features_in(wire.health(takes_config=self.world.hosting.takes_config), self._base),
        )

    def upload(self, upload: Upload) -> FileId:
        def act() -> FileId:
            with closing(upload.open()) as stream:
                chunks = iter(lambda: stream.read(_CHUNK), b"")
                label = Label(filename=upload.filename, purpose=upload.purpose)
                file = self.world.hosting.files.upload(self._owner(), chunks, lambda: label)
            return file_id_in(wire.file(file))

        return self._asked("upload", act, subject=upload.filename)

    def file(self, file_id: FileId) -> FileState:
        return self._asked(
            "file",
            lambda: file_state_in(wire.file(self.world.hosting.files.show(self._owner(), file_id)), file_id),
            subject=file_id,
        )

    def create(self, kind: Kind, request: bytes, key: IdempotencyKey) -> Accepted:
        def act() -> Accepted:
            self.requests.append(request)
            job = self.world.hosting.jobs.create(self._owner(), kind, request, route=kind.route, key=key)
            reply = wire.job(job)
            return Accepted(job_id=job_id_in(reply), status=201, reply=msgspec.json.encode(reply).decode())

        return self._asked("create", act, subject=request, key=key)

    def start(self, kind: Kind, job_id: JobId) -> None:
        def act() -> None:
            try:
                self.world.hosting.jobs.start(self._owner(), job_id)
            except Refusal as no:
                if no.status != 404:  # over a wire, no such job and no such route look the same
                    raise

        self._asked("start", act, subject=job_id)

    def job(self, kind: Kind, job_id: JobId) -> JobState:
        return self._asked(
            "job",
            lambda: job_state_in(wire.job(self.world.hosting.jobs.show(self._owner(), job_id)), job_id),
            subject=job_id,
        )

    def verify_task_app(self, task_url: str) -> Verification:
        def act() -> Verification:
            owner = self._owner()
            try:
                attempts = self.world.hosting.vault.try_task_app(owner, task_url)
            except Refusal as no:
                return verification_in(no.status, no.body)
            return verification_in(200, wire.verification(attempts))

        return self._asked("verify_task_app", act, subject=task_url)

    def holds_environment_key(self) -> bool:
        return self._asked_vault("holds_environment_key", lambda vault, owner: vault.holds_key(owner))

    def public_key(self) -> bytes:
        return self._asked_vault("public_key", lambda vault, owner: vault.public_key())

    def store_environment_key(self, sealed: bytes) -> None:
        self._asked_vault("store_environment_key", lambda vault, owner: vault.store_key(owner, ENVIRONMENT_KEY, sealed))

    def _owner(self) -> Owner:
        return self.world.hosting.owner(self._api_key)

    def _asked_vault(self, name: str, act: Callable[[Vault, Owner], T]) -> T:
        def offered() -> T:
            owner = self._owner()
            if not self.vault:
                raise NotOffered(f"{self._base} has no vault", status=404)
            return act(self.world.hosting.vault, owner)

        return self._asked(name, offered)

    def _asked(
        self, name: str, act: Callable[[], T], *, subject: object = None, key: IdempotencyKey | None = None
    ) -> T:
        self.calls.append(Call(name, subject, key))
        outage = next((outage for outage in self._outages if outage.call == name), None)
        if outage is not None:
            self._outages.remove(outage)
            if not outage.after_effect:
                raise outage.error
        try:
            answer = act()
        except Refusal as no:
            raise refusal(no.status, f"{self._base} refused ({no.status}): {no.message}") from no
        if outage is not None:
            raise outage.error
        return answer


class InMemoryBackends(BackendsPort):
    """BackendsPort with one service behind every base. Inspect with `connected`.

    What is connected shares files, jobs, outages and calls with `backend`; only base and holder are its own.
    """

    def __init__(self, backend: InMemoryBackend | None = None) -> None:
        self.backend = backend or InMemoryBackend()
        self.connected: list[tuple[str, Secret | None]] = []

    def connect(self, base: str, api_key: Secret | None) -> InMemoryBackend:
        self.connected.append((base, api_key))
        return self.backend.seen_by(base, api_key)
