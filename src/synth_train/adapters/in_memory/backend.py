"""A backend without a wire: hosting over in-memory stores."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Struct

from synth_train.adapters.hosted_backend import HostedBackend
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.executor import InMemoryExecutor, ScriptedTrainer
from synth_train.adapters.in_memory.hosting_stores import (
    InMemoryBlobStore,
    InMemoryJobStore,
    InMemoryResultStore,
    ScriptedInspector,
)
from synth_train.adapters.in_memory.sealer import ReadableUnsealer
from synth_train.adapters.in_memory.speaker import ScriptedSpeaker
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.errors import NotOffered
from synth_train.domain.model.hosting import Job, Owner, Refusal, StoredFile
from synth_train.domain.model.jobs import IdempotencyKey, Verification
from synth_train.domain.model.replies import verification_in
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting import wire
from synth_train.domain.usecases.hosting.chats import Chats
from synth_train.domain.usecases.hosting.files import Files
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.results import Results
from synth_train.domain.usecases.hosting.service import Hosting
from synth_train.domain.usecases.hosting.vault import ENVIRONMENT_KEY, Vault
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.ports.backend import BackendsPort
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.hosting import Unsealer
from synth_train.ports.task_app import TaskAppPort

T = TypeVar("T")


class InMemoryHosting:
    """Hosting with nothing behind it: rows and bytes in this process, a trainer that only takes time.

    Arrange with `inspector` (when files are ready), `executor` (how long jobs wait), `trainer` (how long they run and
    how they end) and `speaker` (what models say); serve `hosting` or ask it through an `InMemoryBackend`.
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
        self.clock = clock
        self.store = InMemoryJobStore()
        self.blobs = InMemoryBlobStore(clock)
        self.results = InMemoryResultStore()
        self.inspector = ScriptedInspector()
        self.trainer = ScriptedTrainer(clock)
        self.executor = InMemoryExecutor(Queue(store=self.store, clock=clock), self.trainer)
        self.speaker = ScriptedSpeaker()
        results = Results(store=self.store, made=self.results, clock=clock)
        self.hosting = Hosting(
            files=Files(store=self.store, blobs=self.blobs, inspector=self.inspector, clock=clock, entropy=entropy),
            jobs=Jobs(store=self.store, executor=self.executor, clock=clock, entropy=entropy),
            results=results,
            chats=Chats(results=results, speaker=self.speaker),
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


class InMemoryBackend(HostedBackend):
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
        super().__init__(self.world.hosting, base)
        self.vault = True
        self.calls: list[Call] = []
        self.requests: list[bytes] = []
        """The bodies of all job requests that came in, refused ones too."""
        self._outages: list[_Outage] = []
        self._api_key = api_key

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

    def _owner(self) -> Owner:
        return self.world.hosting.owner(self._api_key)

    def _asked(
        self, name: str, act: Callable[[], T], *, subject: object = None, key: IdempotencyKey | None = None
    ) -> T:
        self.calls.append(Call(name, subject, key))
        outage = next((outage for outage in self._outages if outage.call == name), None)
        if outage is not None:
            self._outages.remove(outage)
            if not outage.after_effect:
                raise outage.error
        if isinstance(subject, bytes):
            self.requests.append(subject)
        answer = super()._asked(name, act, subject=subject, key=key)
        if outage is not None:
            raise outage.error
        return answer

    # Environment keys

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

    def _asked_vault(self, name: str, act: Callable[[Vault, Owner], T]) -> T:
        def offered() -> T:
            owner = self._owner()
            if not self.vault:
                raise NotOffered(f"{self._base} has no vault", status=404)
            return act(self.world.hosting.vault, owner)

        return self._asked(name, offered)


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
