"""What every store of rows and of bytes promises hosting (`ports.hosting`)."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.hosting_stores import InMemoryBlobStore, InMemoryJobStore, InMemoryResultStore
from synth_train.adapters.local import disk_blobs
from synth_train.adapters.local.disk_blobs import DiskBlobStore, FolderResults
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.sqlite_store import SqliteJobStore
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import (
    Blob,
    FileStatus,
    Job,
    JobFilter,
    JobStatus,
    KeptReply,
    Order,
    Owner,
    ResultFile,
    SealedKey,
    StoredFile,
    WorkerId,
)
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind
from synth_train.ports.hosting import BlobStore, JobStore, ResultStore

WE, THEY = Owner("we"), Owner("they")


@pytest.fixture(params=["in-memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> JobStore:
    return InMemoryJobStore() if request.param == "in-memory" else SqliteJobStore(tmp_path / "db.sqlite")


@pytest.fixture(params=["in-memory", "disk"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return (
        InMemoryBlobStore(ManualClock()) if request.param == "in-memory" else DiskBlobStore(tmp_path, SystemEntropy())
    )


Made = Callable[[JobId, dict[str, bytes]], ResultStore]


@pytest.fixture(params=["in-memory", "folder"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """A store in which a job has made these files."""

    def in_memory(job_id: JobId, files: dict[str, bytes]) -> ResultStore:
        store = InMemoryResultStore()
        store.made[job_id] = files
        return store

    def in_a_folder(job_id: JobId, files: dict[str, bytes]) -> ResultStore:
        home = LocalHome(tmp_path)
        for name, content in files.items():
            path = home.job(job_id).model / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return FolderResults(home)

    return in_memory if request.param == "in-memory" else in_a_folder


def a_file(number: int, owner: Owner = WE) -> StoredFile:
    return StoredFile(
        id=FileId(f"file_{number}"),
        owner=owner,
        filename="train.jsonl",
        purpose="fine-tune",
        blob=Blob(id=f"blob_{number}", sha256="0" * 64, size=3),
        status=FileStatus.PROCESSING,
        created_at=number,
    )


def a_job(number: int, owner: Owner = WE, *, kind: Kind = Kind.RL, started: bool = True) -> Job:
    order = Order(
        kind=kind,
        model="Qwen/Qwen3-4B",
        training_type="rl_online" if kind is Kind.RL else "sft_offline",
        training_file=FileId("file_1") if kind is Kind.SFT else None,
        task_url="http://task" if kind is Kind.RL else None,
        body=b'{"a": "\xc3\xbc"}',
    )
    return Job(
        id=JobId(f"job_{number}"), owner=owner, order=order, created_at=number, updated_at=number, started=started
    )


def saved(store: JobStore, *rows_to_save: Job | StoredFile | SealedKey) -> None:
    with store.transaction() as rows:
        for row in rows_to_save:
            if isinstance(row, Job):
                rows.save_job(row)
            elif isinstance(row, StoredFile):
                rows.save_file(row)
            else:
                rows.save_key(row)


# Transactions


def test_what_a_transaction_has_saved_it_and_the_next_one_read(store: JobStore) -> None:
    with store.transaction() as rows:
        rows.save_job(a_job(1))
        assert rows.job(JobId("job_1")) == a_job(1)
    with store.transaction() as rows:
        assert rows.job(JobId("job_1")) == a_job(1)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_transaction_that_raises_leaves_no_trace(store: JobStore, error: type[BaseException]) -> None:
    kept, key = a_file(1), SealedKey(id="key_1", owner=WE, name="K", sealed=b"s", updated_at=1)
    saved(store, kept, a_job(1))

    def half_done() -> None:
        with store.transaction() as rows:
            rows.remove_file(WE, kept.id)
            rows.save_file(a_file(2))
            rows.save_job(a_job(1).claimed(WorkerId("w"), 2))
            rows.save_job(a_job(2))
            rows.add_event(JobId("job_1"), Event(seq=1, type="t", message="m", created_at=1))
            rows.save_points(JobId("job_1"), [Point(name="n", step=1, value=1, created_at=1)])
            rows.save_key(key)
            rows.keep_reply(KeptReply(owner=WE, route="r", key=IdempotencyKey("K"), request_sha256="", job=a_job(1)))
            raise error

    with pytest.raises(error):
        half_done()
    with store.transaction() as rows:
        assert rows.files(WE) == [kept]
        assert rows.jobs(WE, JobFilter()) == [a_job(1)]
        assert rows.events(JobId("job_1"), since=0, limit=9) == []
        assert rows.points(JobId("job_1"), after_step=0, limit=9) == []
        assert rows.keys(WE) == []
        assert rows.kept_reply(WE, "r", IdempotencyKey("K")) is None


def test_transactions_of_many_threads_follow_one_another(store: JobStore) -> None:
    saved(store, a_job(1))

    def one_more(_: int) -> None:
        with store.transaction() as rows:
            job = rows.job(JobId("job_1"))
            assert job is not None
            rows.save_job(replace(job, claims=job.claims + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one_more, range(200)))
    with store.transaction() as rows:
        job = rows.job(JobId("job_1"))
    assert job is not None
    assert job.claims == 200


# Files


def test_files_are_their_owners_and_listed_newest_first(store: JobStore) -> None:
    saved(store, a_file(1), a_file(2), a_file(3, THEY))
    with store.transaction() as rows:
        assert rows.files(WE) == [a_file(2), a_file(1)]
        assert rows.file(WE, FileId("file_1")) == a_file(1)
        assert rows.file(WE, FileId("file_3")) is None
        assert rows.file(WE, FileId("file_9")) is None


def test_the_bytes_of_all_owners_files_are_named(store: JobStore) -> None:
    files = [a_file(1), replace(a_file(2), owner=THEY)]
    saved(store, *files)
    with store.transaction() as rows:
        assert rows.blob_ids() == {file.blob.id for file in files}


def test_a_file_that_is_saved_again_is_replaced_where_it_stands(store: JobStore) -> None:
    ready = replace(a_file(1), status=FileStatus.READY, detail="fine")
    saved(store, a_file(1), a_file(2), ready)
    with store.transaction() as rows:
        assert rows.files(WE) == [a_file(2), ready]


def test_a_removed_file_is_gone_and_only_its_owner_can_remove_it(store: JobStore) -> None:
    saved(store, a_file(1), a_file(2))
    with store.transaction() as rows:
        rows.remove_file(THEY, FileId("file_1"))
        rows.remove_file(WE, FileId("file_2"))
        rows.remove_file(WE, FileId("file_2"))
    with store.transaction() as rows:
        assert rows.files(WE) == [a_file(1)]


# Jobs


def test_a_job_comes_back_with_all_it_had(store: JobStore) -> None:
    job = a_job(1, kind=Kind.SFT).claimed(WorkerId("w"), 2.5).asked_to_cancel(3.5)
    job = job.ended(JobStatus.FAILED, 4.5, reason="why").told(7, 4.5)
    saved(store, a_job(1), job)
    with store.transaction() as rows:
        assert rows.job(job.id) == job


def test_jobs_are_listed_newest_first_and_their_owners(store: JobStore) -> None:
    saved(store, a_job(1), a_job(2), a_job(3, THEY), a_job(1).asked_to_cancel(9))
    with store.transaction() as rows:
        assert [job.id for job in rows.jobs(WE, JobFilter())] == ["job_2", "job_1"]


def test_a_list_of_jobs_can_be_cut_and_gone_on_with(store: JobStore) -> None:
    saved(store, *(a_job(number, kind=Kind.SFT if number % 2 else Kind.RL) for number in range(1, 9)))
    with store.transaction() as rows:
        first = rows.jobs(WE, JobFilter(kind=Kind.SFT, limit=2))
        rest = rows.jobs(WE, JobFilter(kind=Kind.SFT, limit=9, after=first[-1].id))
        assert [job.id for job in first] == ["job_7", "job_5"]
        assert [job.id for job in rest] == ["job_3", "job_1"]
        assert rows.jobs(WE, JobFilter(after=JobId("job_99"))) == []


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (JobFilter(kind=Kind.SFT), [2]),
        (JobFilter(status="running"), [3]),
        (JobFilter(training_type="rl_online"), [3, 1]),
        (JobFilter(model="Qwen/Qwen3-8B"), []),
        (JobFilter(model="Qwen/Qwen3-4B"), [3, 2, 1]),
        (JobFilter(file_id=FileId("file_1")), [2]),
        (JobFilter(created_after=1), [3, 2]),
        (JobFilter(created_before=3), [2, 1]),
        (JobFilter(status="no such status"), []),
    ],
)
def test_a_list_of_jobs_can_be_narrowed(store: JobStore, wanted: JobFilter, numbers: list[int]) -> None:
    saved(store, a_job(1), a_job(2, kind=Kind.SFT), a_job(3).claimed(WorkerId("w"), 4))
    with store.transaction() as rows:
        assert [job.id for job in rows.jobs(WE, wanted)] == [f"job_{number}" for number in numbers]


def test_the_queue_and_the_held_jobs_are_those_of_all_owners_oldest_first(store: JobStore) -> None:
    worker = WorkerId("w")
    saved(
        store,
        a_job(1, started=False),
        a_job(2),
        a_job(3, THEY),
        a_job(4).claimed(worker, 5),
        a_job(5, THEY).claimed(worker, 5).asked_to_cancel(6),
        a_job(6).claimed(worker, 5).ended(JobStatus.SUCCEEDED, 6),
        a_job(7).asked_to_cancel(8),
    )
    with store.transaction() as rows:
        assert [job.id for job in rows.waiting_jobs()] == ["job_2", "job_3"]
        assert [job.id for job in rows.held_jobs()] == ["job_4", "job_5"]
        assert [job.id for job in rows.unfinished_jobs(WE)] == ["job_1", "job_2", "job_4"]


# Idempotency


def test_a_reply_is_kept_for_its_owner_its_route_and_its_key(store: JobStore) -> None:
    key = IdempotencyKey("K")
    reply = KeptReply(owner=WE, route="rl/jobs", key=key, request_sha256="0" * 64, job=a_job(1))
    with store.transaction() as rows:
        rows.keep_reply(reply)
    with store.transaction() as rows:
        assert rows.kept_reply(WE, "rl/jobs", key) == reply
        assert rows.kept_reply(THEY, "rl/jobs", key) is None
        assert rows.kept_reply(WE, "sft/jobs", key) is None
        assert rows.kept_reply(WE, "rl/jobs", IdempotencyKey("k")) is None


# Events and points


def an_event(seq: int) -> Event:
    return Event(seq=seq, type="rl.train.step", message="m", created_at=seq, level="warning", data={"a": [1, None]})


def test_events_come_in_order_after_a_cursor_and_at_most_so_many(store: JobStore) -> None:
    job_id = JobId("job_1")
    with store.transaction() as rows:
        for seq in (1, 2, 3, 4):
            rows.add_event(job_id, an_event(seq))
        rows.add_event(JobId("job_2"), an_event(9))
    with store.transaction() as rows:
        assert rows.events(job_id, since=1, limit=2) == [an_event(2), an_event(3)]
        assert rows.events(job_id, since=-5, limit=9) == [an_event(seq) for seq in (1, 2, 3, 4)]
        assert rows.events(job_id, since=4, limit=9) == []
        assert rows.events(JobId("job_3"), since=0, limit=9) == []


def a_point(name: str, step: int, value: float = 0.5) -> Point:
    return Point(name=name, step=step, value=value, created_at=step, phase="train")


def test_points_come_by_step_and_name_and_never_half_a_step(store: JobStore) -> None:
    job_id = JobId("job_1")
    with store.transaction() as rows:
        for step in (2, 1, 3):
            rows.save_points(job_id, [a_point("b", step), a_point("a", step)])
    with store.transaction() as rows:
        both = [[a_point("a", step), a_point("b", step)] for step in (1, 2, 3)]
        assert rows.points(job_id, after_step=-1, limit=9) == [*both[0], *both[1], *both[2]]
        assert rows.points(job_id, after_step=1, limit=3) == both[1]
        assert rows.points(job_id, after_step=1, limit=4) == [*both[1], *both[2]]
        assert rows.points(job_id, after_step=0, limit=1) == both[0]
        assert rows.points(job_id, after_step=0, limit=2, name="b") == [a_point("b", 1), a_point("b", 2)]
        assert rows.points(job_id, after_step=3, limit=9) == []
        assert rows.points(JobId("job_2"), after_step=0, limit=9) == []


def test_a_step_that_is_repeated_replaces_its_points(store: JobStore) -> None:
    job_id = JobId("job_1")
    with store.transaction() as rows:
        rows.save_points(job_id, [a_point("a", 1), a_point("b", 1), a_point("a", 2)])
        rows.save_points(job_id, [a_point("a", 1, 0.75)])
    with store.transaction() as rows:
        points = rows.points(job_id, after_step=0, limit=9)
    assert points == [a_point("a", 1, 0.75), a_point("b", 1), a_point("a", 2)]


def test_the_last_step_is_that_of_the_job(store: JobStore) -> None:
    with store.transaction() as rows:
        rows.save_points(JobId("job_1"), [a_point("a", 1), a_point("b", 7), a_point("a", 3)])
        rows.save_points(JobId("job_2"), [a_point("a", 9)])
    with store.transaction() as rows:
        assert rows.last_step(JobId("job_1")) == 7
        assert rows.last_step(JobId("job_3")) == 0


# Environment keys


def test_keys_are_their_owners_and_the_one_saved_last_comes_first(store: JobStore) -> None:
    one, two, theirs = (
        SealedKey(id=f"key_{number}", owner=owner, name="K", sealed=bytes(range(256)), updated_at=number)
        for number, owner in ((1, WE), (2, WE), (3, THEY))
    )
    saved(store, one, two, theirs)
    with store.transaction() as rows:
        assert rows.keys(WE) == [two, one]
    renewed = replace(one, sealed=b"other", updated_at=4)
    saved(store, renewed)
    with store.transaction() as rows:
        assert rows.keys(WE) == [renewed, two]


# Bytes


def test_bytes_come_back_as_they_were_put(blobs: BlobStore) -> None:
    content = [bytes(range(256)), b"", b"\r\n" * 1000]
    blob = blobs.put(iter(content))
    whole = b"".join(content)
    assert (blob.size, blob.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    for _ in range(2):
        with blobs.open(blob) as stream:
            assert stream.read() == whole


def test_the_same_bytes_twice_can_be_removed_apart(blobs: BlobStore) -> None:
    one, two = blobs.put([b"same"]), blobs.put([b"same"])
    assert one != two
    assert blobs.holds(one)
    blobs.remove(one)
    blobs.remove(one)
    assert (blobs.holds(one), blobs.holds(two)) == (False, True)
    with blobs.open(two) as stream:
        assert stream.read() == b"same"
    with pytest.raises(KeyError):
        blobs.open(one)


def test_what_nothing_names_is_swept_once_it_is_old_enough(blobs: BlobStore) -> None:
    one, two = blobs.put([b"named"]), blobs.put([b"left over"])
    assert blobs.sweep({one.id}, before=0.0) == 0
    assert blobs.holds(two)
    assert blobs.sweep({one.id}, before=math.inf) == 1
    assert (blobs.holds(one), blobs.holds(two)) == (True, False)
    assert blobs.sweep({one.id}, before=math.inf) == 0


def test_what_the_content_raises_comes_out(blobs: BlobStore) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield b"begun"
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        blobs.put(breaks_off())


# Results

JOB = JobId("job_1")


def test_the_files_that_a_job_has_made_are_listed_by_name_and_read(made: Made) -> None:
    store = made(JOB, {"merged/config.json": b"{}", "b.bin": b"\0" * 5, "a.json": b"[1]"})
    assert store.files(JOB) == [
        ResultFile(name="a.json", size=3, sha256=hashlib.sha256(b"[1]").hexdigest()),
        ResultFile(name="b.bin", size=5, sha256=hashlib.sha256(b"\0" * 5).hexdigest()),
        ResultFile(name="merged/config.json", size=2, sha256=hashlib.sha256(b"{}").hexdigest()),
    ]
    with store.open(JOB, "merged/config.json") as stream:
        assert stream.read() == b"{}"


def test_a_job_that_has_made_nothing_has_no_files(made: Made) -> None:
    assert made(JOB, {"a": b""}).files(JobId("job_2")) == []


@pytest.mark.parametrize("name", ["b", "../a", "/etc/hostname", "", "merged"])
def test_nothing_else_can_be_opened(made: Made, name: str) -> None:
    with pytest.raises(KeyError):
        made(JOB, {"a": b"", "merged/a": b""}).open(JOB, name)


def test_a_removed_model_has_no_files(made: Made) -> None:
    store = made(JOB, {"merged/a": b"1"})
    store.files(JOB)
    store.remove(JOB)
    store.remove(JOB)
    assert store.files(JOB) == []
    with pytest.raises(KeyError):
        store.open(JOB, "merged/a")


def test_files_that_have_changed_are_hashed_again_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = LocalHome(tmp_path)
    model = home.job(JOB).model
    model.mkdir(parents=True)
    (model / "a").write_bytes(b"1")
    (model / "b").write_bytes(b"2")
    before = FolderResults(home).files(JOB)
    os.utime(model / "b", ns=(5, 5))
    (model / "a").unlink()
    hashed: list[str] = []

    def counting(path: Path) -> str:
        hashed.append(path.name)
        return "f" * 64

    monkeypatch.setattr(disk_blobs, "sha256_of", counting)
    assert FolderResults(home).files(JOB) == [replace(before[1], sha256="f" * 64)]
    assert hashed == ["b"]
    home.job(JOB).digests.write_bytes(b"damaged")
    FolderResults(home).files(JOB)
    FolderResults(home).files(JOB)
    assert hashed == ["b", "b"]


def test_files_are_hashed_also_where_that_cannot_be_kept(tmp_path: Path) -> None:
    home = LocalHome(tmp_path)
    home.job(JOB).model.mkdir(parents=True)
    (home.job(JOB).model / "a").write_bytes(b"1")
    home.job(JOB).digests.mkdir()
    for _ in range(2):
        assert FolderResults(home).files(JOB)[0].sha256 == hashlib.sha256(b"1").hexdigest()
