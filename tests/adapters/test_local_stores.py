"""What the stores of the embedded backend do beyond their contracts: other processes, full disks, other versions."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from io import FileIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from support.backends import K, rl_request, sft_request, upload_of
from support.local import Local, environment, rl_play
from synth_train.adapters.local import disk_blobs
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import LocalHome, whole
from synth_train.adapters.local.sqlite_store import SCHEMA, SqliteJobStore
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.errors import BackendRefused
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import Job, JobFilter, Order, Owner, Refusal
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind

JOB = Job(
    id=JobId("job_1"),
    owner=Owner("we"),
    order=Order(kind=Kind.RL, model="tiny", training_type="rl_online"),
    created_at=1.0,
    updated_at=1.0,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "local" / "db.sqlite"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    local = Local(tmp_path / "local")
    yield local
    local.stop()


def save(store: SqliteJobStore, job: Job = JOB) -> None:
    with store.transaction() as rows:
        rows.save_job(job)


def saved(store: SqliteJobStore) -> Job | None:
    with store.transaction() as rows:
        return rows.job(JOB.id)


# The database


def test_the_database_is_made_when_it_is_first_used_for_its_owner_alone(path: Path) -> None:
    store = SqliteJobStore(path)
    assert not path.parent.exists()
    save(store)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert (modes, stat.S_IMODE(path.parent.stat().st_mode)) == ({0o600}, 0o700)
    assert not list(path.parent.glob("*.new"))


def test_two_stores_on_one_file_see_each_others_rows(path: Path) -> None:
    save(SqliteJobStore(path))
    assert saved(SqliteJobStore(path, durable=False)) == JOB


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_after_a_fork_has_a_connection_of_its_own(path: Path) -> None:
    store = SqliteJobStore(path)
    save(store)
    begun, may_end = threading.Event(), threading.Event()

    def busy() -> None:
        with store.transaction() as rows:
            begun.set()
            may_end.wait(0.2)
            rows.save_job(replace(JOB, id=JobId("job_2")))

    thread = threading.Thread(target=busy)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        code = 1
        try:
            save(store, JOB.asked_to_start(2.0))
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    with store.transaction() as rows:
        jobs = rows.jobs(JOB.owner, JobFilter())
    assert [(job.id, job.started) for job in jobs] == [("job_2", False), ("job_1", True)]


def test_a_store_that_is_dropped_closes_its_connection(path: Path) -> None:
    store = SqliteJobStore(path)
    save(store)
    open_files = Path(f"/proc/{os.getpid()}/fd")
    del store
    gc.collect()
    assert not [link for link in open_files.iterdir() if link.exists() and link.readlink() == path]


@pytest.mark.parametrize("schema", [0, SCHEMA + 1])
def test_a_database_of_another_version_is_refused_and_left_alone(path: Path, schema: int) -> None:
    save(SqliteJobStore(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {schema}")
    with pytest.raises(Refusal, match="written by another version") as refused:
        save(SqliteJobStore(path))
    assert f"schema is {schema}" in refused.value.message
    assert "SYNTH_AI_HOME" in refused.value.message


def test_a_file_that_is_no_database_is_refused_by_its_name(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("something else, long enough to have a header" * 10)
    with pytest.raises(Refusal, match=r"db\.sqlite cannot be used: file is not a database"):
        save(SqliteJobStore(path))


def test_a_folder_that_cannot_be_made_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match=r"cannot keep anything in .*file"):
        save(SqliteJobStore(tmp_path / "file" / "db.sqlite"))


def test_a_full_disk_is_said_and_nothing_of_the_transaction_kept(path: Path) -> None:
    store = SqliteJobStore(path)
    save(store)
    fill(store)
    big = Order(kind=Kind.RL, model="tiny", training_type="rl_online", body=b"x" * 1_000_000)

    def does_not_fit() -> None:
        with store.transaction() as rows:
            rows.save_job(JOB.asked_to_start(2.0))
            rows.save_job(Job(id=JobId("job_2"), owner=JOB.owner, order=big, created_at=1.0, updated_at=1.0))

    with pytest.raises(Refusal) as refused:
        does_not_fit()
    assert (refused.value.status, refused.value.code) == (507, "no_space")
    assert saved(store) == JOB


def fill(store: SqliteJobStore) -> None:
    """Let SQLite find that there is no page left."""
    connection = store._connection
    assert connection is not None
    [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()


def test_an_id_with_half_a_character_is_nobodys(path: Path) -> None:
    store = SqliteJobStore(path)
    save(store)
    with store.transaction() as rows:
        assert rows.job(JobId("job_\udcff")) is None
        assert rows.jobs(JOB.owner, JobFilter(after=JobId("\udcff"))) == []


def test_a_cursor_of_any_size_is_taken(path: Path) -> None:
    store = SqliteJobStore(path)
    with store.transaction() as rows:
        rows.add_event(JOB.id, Event(seq=1, type="t", message="m", created_at=1.0))
        rows.save_points(JOB.id, [Point(name="n", step=1, value=1.0, created_at=1.0)])
        assert rows.events(JOB.id, since=2**70, limit=2**70) == []
        assert len(rows.events(JOB.id, since=-(2**70), limit=9)) == 1
        assert rows.points(JOB.id, after_step=2**70, limit=9) == []


def test_a_loss_that_is_no_number_comes_back_as_none(path: Path) -> None:
    store = SqliteJobStore(path)
    values = (float("nan"), float("inf"), float("-inf"))
    with store.transaction() as rows:
        rows.save_points(
            JOB.id, [Point(name="n", step=at, value=value, created_at=1.0) for at, value in enumerate(values)]
        )
        assert str([point.value for point in rows.points(JOB.id, after_step=-1, limit=9)]) == "[nan, inf, -inf]"


def test_news_are_told_after_they_were_kept_and_never_when_they_were_not(path: Path) -> None:
    told: list[tuple[JobId, int]] = []
    store = SqliteJobStore(path, told=lambda job_id, news: told.append((job_id, len(news))))

    def fails() -> None:
        with store.transaction() as rows:
            rows.add_event(JOB.id, Event(seq=1, type="t", message="m", created_at=1.0))
            raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert told == []
    with store.transaction() as rows:
        rows.add_event(JOB.id, Event(seq=1, type="t", message="m", created_at=1.0))
        rows.save_points(JOB.id, [Point(name="n", step=1, value=1.0, created_at=1.0)])
        assert told == []
    assert told == [(JOB.id, 2)]


# Many at once

SUBMIT = """
import sys
from pathlib import Path
from support import local
from synth_train.domain.model.jobs import IdempotencyKey, Kind
local.PROGRAM = (sys.executable, "-c", "pass")  # no worker
backend = local.Local(Path(sys.argv[1])).backend
for number in range(80):
    for _ in range(2):
        accepted = backend.create(Kind.RL, local.rl_play(steps=1), IdempotencyKey(f"{sys.argv[2]}-{number}"))
    print(accepted.job_id)
"""


def test_of_640_jobs_of_8_processes_none_is_lost_and_none_doubled(local: Local) -> None:
    environ = environment(PYTHONPATH=os.pathsep.join(sys.path))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SUBMIT, str(local.home.path), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for number in range(8)
    ]
    results = [(*process.communicate(), process.returncode) for process in processes]
    assert [(errors, code) for _, errors, code in results] == [("", 0)] * 8
    ids = [line for out, _, _ in results for line in out.split()]
    with SqliteJobStore(local.home.database).transaction() as rows:
        waiting = [job.id for job in rows.waiting_jobs()]
    assert len(ids) == 640
    assert sorted(waiting) == sorted(set(ids))


def test_the_same_key_with_another_body_is_refused(local: Local) -> None:
    first = local.backend.create(Kind.RL, rl_play(steps=1), K)
    assert local.anew().create(Kind.RL, rl_play(steps=1), K) == first
    with pytest.raises(BackendRefused, match="idempotency key") as refused:
        local.anew().create(Kind.RL, rl_play(steps=2), K)
    assert refused.value.status == 409


# Bytes


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which files can be made, and no byte fits into them."""

    def create(path: Path, mode: int) -> FileIO:
        path.touch()
        return FileIO("/dev/full", "wb")

    monkeypatch.setattr(disk_blobs, "create", create)


@pytest.mark.usefixtures("full_disk")
def test_an_upload_that_does_not_fit_is_refused_and_nothing_kept_of_it(local: Local) -> None:
    with pytest.raises(BackendRefused, match="no space left") as refused:
        local.backend.upload(upload_of(b"row\n"))
    assert refused.value.hint == "Free some space, then run the same command again."
    assert list(local.home.blobs.iterdir()) == []


def test_an_upload_whose_connection_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield b"begun"
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        DiskBlobStore(tmp_path / "blobs", SystemEntropy()).put(breaks_off())
    assert list((tmp_path / "blobs").iterdir()) == []


def test_what_a_kill_has_left_of_uploads_is_swept_and_what_is_young_is_not(tmp_path: Path) -> None:
    blobs, now = DiskBlobStore(tmp_path / "blobs", SystemEntropy()), time.time()
    assert blobs.sweep(frozenset(), before=now) == 0
    whole = blobs.path(blobs.put([b"row\n"]))
    begun, young = whole.with_name("blob_begun.new"), whole.with_name("blob_young.new")
    for path in (begun, young):
        path.write_bytes(b"r")
    for path in (whole, begun):
        os.utime(path, (now - 10, now - 10))
    assert blobs.sweep(frozenset(), before=now - 5) == 2
    assert list(whole.parent.iterdir()) == [young]


def test_the_same_bytes_are_uploaded_once_and_again_when_they_are_gone(local: Local) -> None:
    first = local.backend.upload(upload_of(b"row\n"))
    assert local.anew().upload(upload_of(b"row\n")) == first
    [blob] = local.home.blobs.iterdir()
    blob.unlink()
    assert local.anew().upload(upload_of(b"row\n")) == first
    assert [path.read_bytes() for path in local.home.blobs.iterdir()] == [b"row\n"]


def test_a_job_whose_bytes_are_gone_says_so(local: Local) -> None:
    file_id = local.backend.upload(upload_of(b"row\n"))
    next(local.home.blobs.iterdir()).unlink()
    job_id = local.backend.create(Kind.SFT, sft_request(file_id), K).job_id
    local.backend.start(Kind.SFT, job_id)
    assert local.ended(job_id).reason.startswith("the uploaded train.jsonl is gone")


def test_a_job_request_that_does_not_fit_is_refused_and_its_key_stays_free(local: Local) -> None:
    local.backend.create(Kind.RL, rl_request(), K)
    store = local.backend._workshop.jobs.store
    assert isinstance(store, SqliteJobStore)
    fill(store)
    with pytest.raises(BackendRefused, match="no space left"):
        local.backend.create(Kind.RL, rl_request(config={"x": "x" * 1_000_000}), IdempotencyKey("K2"))
    local.anew().create(Kind.RL, rl_request(), IdempotencyKey("K2"))


def test_a_disk_too_full_for_the_database_to_be_opened_is_called_full(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteJobStore(local.home.database)
    broken = sqlite3.OperationalError("disk I/O error")
    assert store._refused(broken).message.endswith("cannot be used: disk I/O error")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    assert store._refused(broken).message.startswith("there is no space left for")


# Folders


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "model"

    def fails() -> None:
        with whole(place) as folder:
            (folder / "a").write_text("1")
            raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert list(tmp_path.iterdir()) == []
    for content in ("1", "2"):
        with whole(place) as folder:
            (folder / "sub").mkdir()
            (folder / "sub" / "a").write_text(content)
            assert not place.exists() or content == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (place / "sub" / "a").read_text() == "2"


@pytest.mark.parametrize("id", ["ft:tiny:job_2", "ft:tiny:..", "ft:tiny:a/b", "ft:tiny:", "tiny", "", "job_1"])
def test_only_a_model_that_a_job_here_has_made_is_found_by_its_id(tmp_path: Path, id: str) -> None:
    home = LocalHome(tmp_path)
    with whole(home.job(JobId("job_1")).model):
        pass
    assert home.model_of("ft:tiny:job_1") == home.job(JobId("job_1")).model
    assert home.model_of("rl:Qwen/Qwen3-4B:job_1") == home.job(JobId("job_1")).model
    assert home.model_of(id) is None


def test_jobs_are_found_without_a_look_at_all_there_ever_were(tmp_path: Path) -> None:
    store = SqliteJobStore(tmp_path / "db.sqlite")
    plans: list[str] = []
    with store.transaction() as rows:
        run = rows._run  # type: ignore[attr-defined]

        def explained(query: str, values: Sequence[object] = ()) -> Iterator[object]:
            plans.extend(detail for *_, detail in run(f"EXPLAIN QUERY PLAN {query}", values))
            return iter(())

        rows._run = explained  # type: ignore[attr-defined]
        rows.held_jobs()
        rows.waiting_jobs()
        rows.unfinished_jobs(Owner("we"))
    assert [plan.partition("INDEX ")[2].partition(" ")[0] for plan in plans] == [
        "jobs_held",
        "jobs_waiting",
        "jobs_not_over",
    ]
