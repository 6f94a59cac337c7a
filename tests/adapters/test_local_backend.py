"""The embedded backend beyond the contract: what it has not, how it refuses, where keys are found."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from support.backends import TASK_URL, no_env_file, rl_request
from support.local import Local, environment, until
from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.backend import US, LocalBackend, LocalBackends, workshop_in
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.subprocess_executor import LONGEST_LOG
from synth_train.adapters.local.trainers import Bench
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.errors import BackendRefused, NotOffered
from synth_train.domain.model.hosting import Job, JobFilter, KeyPlace, Order, TrainingFailed
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.ports.backend import Backend
from synth_train.version import install_command

KEY, ALIAS, OTHER = Secret("q7vzhk3x9pwmtj5dbnrswxyz"), Secret("alias-8h2k4m6p"), Secret("z9y8x7w6v5u4t3s2")
NAME = "ENVIRONMENT_API_KEY"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    local = Local(tmp_path / "local")
    yield local
    local.stop()


# What it has not

NOT_HERE: dict[str, Callable[[Backend], object]] = {
    "verify_task_app": lambda backend: backend.verify_task_app(TASK_URL),
    "holds_environment_key": lambda backend: backend.holds_environment_key(),
    "public_key": lambda backend: backend.public_key(),
    "store_environment_key": lambda backend: backend.store_environment_key(b""),
}


@pytest.mark.parametrize("call", NOT_HERE.values(), ids=NOT_HERE)
def test_there_is_neither_a_vault_nor_a_look_at_task_apps(local: Local, call: Callable[[Backend], object]) -> None:
    with pytest.raises(NotOffered, match="the embedded backend"):
        call(local.backend)
    assert not local.home.path.exists()


def test_it_reads_what_the_hosted_wire_drops(local: Local) -> None:
    features = local.backend.features()
    assert (features.base, features.takes_config) == ("local", True)


def test_without_what_it_trains_with_it_says_so_and_creates_nothing(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = LocalBackends(local.home.path, {}, needed=("json", "no_such_package", "nor_this"))
    backend = backends.connect("local", None)
    monkeypatch.setattr(sys, "version_info", (3, 11, 0))
    features = backend.features()
    assert features.obstacle == "what the embedded backend trains with is not installed: no_such_package, nor_this"
    assert features.remedy == f"Install them with: {install_command('local')}"
    with pytest.raises(BackendRefused, match="no_such_package"):
        backend.create(Kind.RL, rl_request(), IdempotencyKey("K"))
    assert not local.home.path.exists()
    monkeypatch.setattr(sys, "version_info", (3, 10, 14))
    assert backend.features().remedy.endswith(". They need Python 3.11 or newer.")


def test_a_job_on_a_full_disk_is_told_of_until_there_is_room_or_it_is_over(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = local.backends().connect("local", None)
    job_id = local.ask(steps=1000, pause=0.1)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
        with pytest.raises(BackendRefused, match=rf"^local: job {job_id} \(\w+\) does .* no space left for /") as told:
            backend.job(Kind.RL, job_id)
        assert told.value.hint == "Free some space, then run the same command again."
    assert not backend.job(Kind.RL, job_id).phase.over
    backend.cancel(Kind.RL, job_id)
    until(lambda: backend.job(Kind.RL, job_id).phase.over)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    assert backend.job(Kind.RL, job_id).phase is Phase.CANCELLED


def test_without_what_it_trains_with_jobs_can_be_looked_at_and_wait(local: Local) -> None:
    ended = local.ask()
    local.ended(ended)
    key_ring = KeyRing(environment(), no_env_file)
    nowhere = LocalBackend(workshop_in(local.home, key_ring, program=("/no/python",)), key_ring)
    waiting = nowhere.create(Kind.RL, rl_request(), IdempotencyKey("K")).job_id
    bare = LocalBackends(local.home.path, {}, needed=("no_such_package",)).connect("local", None)
    assert {job.job_id for job in bare.list_jobs(JobFilter())} == {ended, waiting}
    assert bare.job(Kind.RL, ended).phase is Phase.SUCCEEDED
    assert bare.job(Kind.RL, waiting).word == "queued"
    assert [event.message for event in bare.events(Kind.RL, waiting)][-1] == (
        "Waits: what the embedded backend trains with is not installed: no_such_package."
    )
    bare.cancel(Kind.RL, waiting)
    assert bare.job(Kind.RL, waiting).phase is Phase.CANCELLED


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'synth-train[local]'"),
        ({"url": "https://x/synth_train.whl", "archive_info": {}}, "pip install 'synth-train[local]'"),
        ({"url": "file:///a%20b/c", "dir_info": {}}, "pip install '/a b/c[local]'"),
        ({"url": "file:///a/c", "dir_info": {"editable": True}}, "pip install -e '/a/c[local]'"),
    ],
)
def test_the_extra_is_installed_as_we_were(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps(origin) if origin else None

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert install_command("local") == command


def test_in_a_checkout_the_extra_is_installed_with_its_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", not_installed)
    root = Path(__file__).parents[2]
    assert install_command("local") == f"pip install -e '{root}[local]' -c {root}/constraints/local.txt"


# Workers that cannot be started


def test_a_worker_that_cannot_be_started_is_said_and_the_job_is_kept(local: Local, tmp_path: Path) -> None:
    key_ring = KeyRing(environment(), no_env_file)
    nowhere = str(tmp_path / "no-python")
    backend = LocalBackend(workshop_in(local.home, key_ring, program=(nowhere,)), key_ring)
    job_id = backend.create(Kind.RL, rl_request(), IdempotencyKey("K")).job_id
    for _ in range(2):
        assert backend.job(Kind.RL, job_id).word == "queued"
    [_, waiting] = backend.events(Kind.RL, job_id)
    assert waiting.message == f"Waits: cannot start a worker ({nowhere}): No such file or directory."
    assert local.ended(job_id).phase is Phase.SUCCEEDED


def test_a_long_log_of_workers_begins_anew(local: Local) -> None:
    local.home.make()
    local.home.log.write_bytes(b"x" * (LONGEST_LOG + 1))
    local.ended(local.ask())
    assert local.home.log.stat().st_size < LONGEST_LOG


def test_paths_in_the_environment_mean_the_same_to_the_worker(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = local.anew(environment(PYTHONPATH="mine", SYNTH_LOCAL_MODELS="models"))
    job_id = local.ask(backend, steps=20, pause=0.1)
    [pid] = local.begun(job_id)
    lines = Path(f"/proc/{pid}/environ").read_text().split("\0")
    inherited = dict(line.split("=", 1) for line in lines if line)
    assert inherited["PYTHONPATH"].split(":")[-1] == str(tmp_path / "mine")
    assert inherited["SYNTH_LOCAL_MODELS"] == str(tmp_path / "models")
    assert Path(f"/proc/{pid}/cwd").readlink() == local.home.path


# Keys


def job(place: KeyPlace | None) -> Job:
    order = Order(kind=Kind.RL, model="tiny", training_type="rl_online")
    return Job(id=JobId("job_1"), owner=US, order=order, created_at=0.0, updated_at=0.0, key_place=place)


def ring(**environ: str) -> KeyRing:
    return KeyRing(environ, DotenvEnv({}).read)


def test_a_worker_finds_the_key_of_each_job_with_its_aliases(tmp_path: Path) -> None:
    ours = ring()
    one = ours.lend(TaskAppKeys(KEY, (ALIAS,)), name=NAME, file=None)
    two = ours.lend(TaskAppKeys(OTHER), name=NAME, file=tmp_path / "gone")
    theirs = KeyRing(ours.handed_down(), DotenvEnv({}).read)
    assert theirs.of(job(one)) == TaskAppKeys(KEY, (ALIAS,))
    assert theirs.of(job(two)) == TaskAppKeys(OTHER)
    assert {KEY, OTHER} <= set(theirs.secrets())
    assert {KEY, ALIAS, OTHER} <= set(ours.secrets())


def test_a_place_tells_nothing_of_the_key() -> None:
    place = ring().lend(TaskAppKeys(KEY), name=NAME, file=None)
    assert not [at for at in range(len(KEY.reveal()) - 3) if KEY.reveal()[at : at + 4].upper() in repr(place).upper()]


def test_the_key_in_ones_own_environment_counts_when_it_is_the_same() -> None:
    place = ring().lend(TaskAppKeys(KEY), name=NAME, file=None)
    holder = ring(ENVIRONMENT_API_KEY=KEY.reveal(), ENVIRONMENT_API_KEY_ALIASES=f" {ALIAS.reveal()} ,")
    assert holder.of(job(place)) == TaskAppKeys(KEY, (ALIAS,))
    assert holder.hindrance(job(place)) == ""
    other = ring(ENVIRONMENT_API_KEY=OTHER.reveal())
    assert other.of(job(place)) is None
    assert "was in the environment of the command that asked for it" in other.hindrance(job(place))


def test_the_file_is_read_again_and_may_hold_another_key_by_now(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    place = ring().lend(TaskAppKeys(KEY), name="DEV_ENVIRONMENT_API_KEY", file=file)
    assert ring().hindrance(job(place)) == (
        f"its key is not in {file} any more; put DEV_ENVIRONMENT_API_KEY back there, or cancel the job"
    )
    file.write_text("OTHER=x\n")
    assert ring().of(job(place)) is None
    file.write_text(f"DEV_ENVIRONMENT_API_KEY={OTHER.reveal()}\nENVIRONMENT_API_KEY_ALIASES={ALIAS.reveal()}\n")
    assert ring().of(job(place)) == TaskAppKeys(OTHER, (ALIAS,))


def test_a_job_without_a_place_is_hindered_by_nothing_and_has_no_key(tmp_path: Path) -> None:
    key_ring = ring(ENVIRONMENT_API_KEY=KEY.reveal())
    assert key_ring.hindrance(job(None)) == ""
    home = LocalHome(tmp_path)
    bench = Bench(home, DiskBlobStore(home.blobs, SystemEntropy()), key_ring)
    with pytest.raises(TrainingFailed, match="not to be had"):
        bench.keys(job(None))


def test_a_lent_key_belongs_to_the_jobs_that_come_after_it(local: Local) -> None:
    before = local.ask(error="failed")
    local.backend.lend_environment_key(TaskAppKeys(KEY), name=NAME, file=None)
    after = local.ask(error="failed")
    with local.backend._workshop.jobs.store.transaction() as rows:
        places = [found.key_place for found in map(rows.job, (before, after)) if found]
    assert [place and replace(place, mark="") for place in places] == [None, KeyPlace(mark="", name=NAME)]
