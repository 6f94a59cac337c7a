"""The same backend, asked directly and over HTTP, and the embedded one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import msgspec

from support.serving import serving
from synth_train.adapters.http.backend import HttpBackend
from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.executor import InMemoryExecutor, ScriptedTrainer
from synth_train.adapters.in_memory.hosting_stores import ScriptedInspector
from synth_train.adapters.in_memory.sealer import ReadableUnsealer
from synth_train.adapters.in_memory.speaker import ScriptedSpeaker
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.adapters.local.backend import LocalBackend
from synth_train.adapters.local.disk_blobs import DiskBlobStore, FolderResults
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.sqlite_store import SqliteJobStore
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.hosting import Job, JobFilter, Owner, StoredFile, owner_of
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import EnvFile
from synth_train.domain.usecases.hosting.chats import Chats
from synth_train.domain.usecases.hosting.files import Files
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.results import Results
from synth_train.domain.usecases.hosting.service import Hosting, Workshop
from synth_train.domain.usecases.hosting.vault import Vault
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.ports.backend import Backend, Upload
from synth_train.ports.hosting import BlobStore, JobStore, Unsealer

OUR_KEY = Secret("fake-synth-key-0001-abcdefgh")
THEIR_KEY = Secret("fake-synth-key-0002-zyxwvuts")

OWNERS = (owner_of(OUR_KEY), owner_of(THEIR_KEY))

TASK_URL = "https://task.test"


@dataclass(frozen=True)
class Side:
    """A backend, and what is behind it."""

    backend: Backend
    """As we see it, the holder of `OUR_KEY`."""
    seen_by: Callable[[Secret | None], Backend]
    """Another holder's; the embedded backend has none, and shows what it would be for another owner."""
    world: World
    task_app: InMemoryTaskApp
    clock: ManualClock
    made: Callable[[JobId, Mapping[str, bytes]], None]
    """Let a job have made these files."""

    @property
    def files(self) -> list[StoredFile]:
        """All files."""
        with self.world.store.transaction() as rows:
            return [file for owner in OWNERS for file in rows.files(owner)]

    @property
    def jobs(self) -> list[Job]:
        """All jobs, as they stand; looking at them here does not move them."""
        with self.world.store.transaction() as rows:
            return [job for owner in OWNERS for job in rows.jobs(owner, JobFilter(limit=99))]


class World(Protocol):
    """What is behind a backend: see `InMemoryHosting`."""

    @property
    def store(self) -> JobStore: ...
    @property
    def blobs(self) -> BlobStore: ...
    @property
    def inspector(self) -> ScriptedInspector: ...
    @property
    def executor(self) -> InMemoryExecutor: ...
    @property
    def trainer(self) -> ScriptedTrainer: ...


class EmbeddedWorld:
    """The stores of the embedded backend, with workers that live on the test's clock."""

    def __init__(self, clock: ManualClock, folder: Path) -> None:
        self.store = SqliteJobStore(folder / "db.sqlite")
        self.blobs = DiskBlobStore(folder / "blobs", SystemEntropy())
        self.inspector = ScriptedInspector()
        self.trainer = ScriptedTrainer(clock)
        self.executor = InMemoryExecutor(Queue(store=self.store, clock=clock), self.trainer)
        self.home = LocalHome(folder)

    def put(self, job_id: JobId, contents: Mapping[str, bytes]) -> None:
        for name, content in contents.items():
            path = self.home.job(job_id).model / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@contextmanager
def backend_side(
    kind: str,
    *,
    owners: frozenset[Owner] | None = None,
    takes_config: bool = False,
    unsealer: Unsealer | None = None,
) -> Iterator[Side]:
    """A backend of that kind (`in-memory`, `http`, `embedded` or `http-embedded`), with a clock that stands still."""
    clock, task_app = ManualClock(), InMemoryTaskApp()
    if kind == "http-embedded":
        with TemporaryDirectory() as folder:
            there = EmbeddedWorld(clock, Path(folder))
            with serving(_served(there, clock, task_app, owners, takes_config, unsealer)) as url:

                def over_the_wire(key: Secret | None) -> Backend:
                    return HttpBackend(url, api_key=key)

                yield Side(over_the_wire(OUR_KEY), over_the_wire, there, task_app, clock, there.put)
        return
    if kind == "embedded":
        with TemporaryDirectory() as folder:
            here = EmbeddedWorld(clock, Path(folder))
            workshop = Workshop(
                files=Files(
                    store=here.store, blobs=here.blobs, inspector=here.inspector, clock=clock, entropy=SystemEntropy()
                ),
                jobs=Jobs(store=here.store, executor=here.executor, clock=clock, entropy=SystemEntropy()),
                results=Results(store=here.store, made=FolderResults(here.home), clock=clock),
                takes_config=takes_config,
            )

            def on_this_machine(key: Secret | None) -> Backend:
                return LocalBackend(workshop, KeyRing({}, no_env_file), owner=owner_of(key or OUR_KEY))

            yield Side(on_this_machine(OUR_KEY), on_this_machine, here, task_app, clock, here.put)
        return
    world = InMemoryHosting(clock=clock, task_app=task_app, owners=owners, takes_config=takes_config, unsealer=unsealer)

    def in_memory_put(job_id: JobId, contents: Mapping[str, bytes]) -> None:
        world.results.made[job_id] = dict(contents)

    if kind == "in-memory":

        def directly(key: Secret | None) -> Backend:
            return InMemoryBackend(world=world, api_key=key)

        yield Side(directly(OUR_KEY), directly, world, task_app, clock, in_memory_put)
        return
    with serving(world.hosting) as url:

        def over_http(key: Secret | None) -> Backend:
            return HttpBackend(url, api_key=key)

        yield Side(over_http(OUR_KEY), over_http, world, task_app, clock, in_memory_put)


def _served(
    world: EmbeddedWorld,
    clock: ManualClock,
    task_app: InMemoryTaskApp,
    owners: frozenset[Owner] | None,
    takes_config: bool,
    unsealer: Unsealer | None,
) -> Hosting:
    """What `synth-ai serve` serves, but for its workers, its clock and its task app."""
    entropy = SystemEntropy()
    results = Results(store=world.store, made=FolderResults(world.home), clock=clock)
    return Hosting(
        files=Files(store=world.store, blobs=world.blobs, inspector=world.inspector, clock=clock, entropy=entropy),
        jobs=Jobs(store=world.store, executor=world.executor, clock=clock, entropy=entropy),
        results=results,
        chats=Chats(results=results, speaker=ScriptedSpeaker()),
        takes_config=takes_config,
        vault=Vault(
            store=world.store, unsealer=unsealer or ReadableUnsealer(), task_app=task_app, clock=clock, entropy=entropy
        ),
        owners=owners,
    )


def no_env_file(path: Path) -> EnvFile:
    """Where no env file is."""
    raise UsageError(f"there is no {path}")


def upload_of(content: bytes, *, filename: str = "train.jsonl", purpose: str = "fine-tune") -> Upload:
    """An upload of these bytes."""
    return Upload(filename=filename, purpose=purpose, size=len(content), open=lambda: io.BytesIO(content))


def rl_request(**data: object) -> bytes:
    """The smallest body of an RL job."""
    return msgspec.json.encode(
        {"job_type": "rl", "data": {"endpoint_base_url": TASK_URL, "config": {}, "base_model": "Qwen/Qwen3-4B", **data}}
    )


def sft_request(training_file: FileId | None, **more: object) -> bytes:
    """The smallest body of an SFT job."""
    return msgspec.json.encode({"model": "Qwen/Qwen3-4B", "training_file_id": training_file, **more})


K = IdempotencyKey("K-77")
OTHER_K = IdempotencyKey("K-78")
