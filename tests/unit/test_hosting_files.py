"""Files as hosting keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.hosting import FileStatus, Owner, Refusal, StoredFile, Verdict
from synth_train.domain.model.jobs import FileId, Kind
from synth_train.domain.usecases.hosting.files import LEFT_ALONE, Files, Label
from synth_train.ports.hosting import BlobStore, Inspector

WE, THEY = Owner("we"), Owner("they")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(clock: ManualClock) -> InMemoryHosting:
    return InMemoryHosting(clock=clock)


@pytest.fixture
def files(world: InMemoryHosting) -> Files:
    return world.hosting.files


def upload(files: Files, content: bytes = b"row\n", *, purpose: str = "fine-tune", owner: Owner = WE) -> StoredFile:
    return files.upload(owner, [content], lambda: Label(filename="dir/train.jsonl", purpose=purpose))


def test_a_file_is_kept_with_what_was_said_about_it(world: InMemoryHosting, files: Files) -> None:
    file = files.upload(WE, [b"row ", b"1\n"], lambda: Label(filename="dir/train.jsonl", purpose=" fine-tune "))
    assert (file.filename, file.purpose, file.blob.size) == ("train.jsonl", "fine-tune", 6)
    assert (file.owner, file.status, file.created_at) == (WE, FileStatus.READY, 1_700_000_000.0)
    assert files.show(WE, file.id) == file
    assert world.blobs.contents == {file.blob.id: b"row 1\n"}


def test_the_label_is_asked_for_after_the_content(files: Files) -> None:
    read: list[str] = []

    def content() -> Iterator[bytes]:
        read.append("content")
        yield b"row\n"

    def label() -> Label:
        read.append("label")
        return Label(filename="a", purpose="fine-tune")

    files.upload(WE, content(), label)
    assert read == ["content", "label"]


def test_a_twin_is_the_same_file_and_its_bytes_are_kept_once(world: InMemoryHosting, files: Files) -> None:
    first = upload(files)
    assert upload(files) == first
    assert list(world.blobs.contents) == [first.blob.id]


def test_a_file_whose_bytes_have_got_lost_has_them_again_after_another_upload(
    world: InMemoryHosting, files: Files
) -> None:
    label = Label(filename="a", purpose="fine-tune")
    first = files.upload(WE, [b"row"], lambda: label)
    world.blobs.contents.clear()
    again = files.upload(WE, [b"row"], lambda: label)
    assert again.id == first.id
    assert world.blobs.contents == {again.blob.id: b"row"}
    assert files.show(WE, first.id) == again


def test_nothing_is_kept_of_a_file_without_a_purpose(world: InMemoryHosting, files: Files) -> None:
    with pytest.raises(Refusal, match="purpose") as caught:
        upload(files, purpose=" ")
    assert caught.value.status == 400
    assert (world.blobs.contents, world.store.all_files) == ({}, [])


def test_nothing_is_kept_of_an_empty_file(world: InMemoryHosting, files: Files) -> None:
    with pytest.raises(Refusal, match="empty"):
        upload(files, b"")
    assert world.blobs.contents == {}


def test_nothing_is_kept_when_the_rest_of_the_form_breaks_off(world: InMemoryHosting, files: Files) -> None:
    def label() -> Label:
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        files.upload(WE, [b"row\n"], label)
    assert world.blobs.contents == {}


def test_a_file_that_is_too_large_is_refused_while_it_comes_in(world: InMemoryHosting, files: Files) -> None:
    came: list[int] = []

    def content() -> Iterator[bytes]:
        for number in range(100):
            came.append(number)
            yield b"x" * 10

    with pytest.raises(Refusal) as caught:
        replace(files, largest=25).upload(WE, content(), lambda: Label(filename="a", purpose="p"))
    assert caught.value.status == 413
    assert came == [0, 1, 2]
    assert world.blobs.contents == {}


def test_a_file_of_just_the_size_allowed_is_taken(files: Files) -> None:
    assert upload(replace(files, largest=4), b"row\n").blob.size == 4


def test_a_file_is_looked_into_at_the_upload_and_at_each_read_until_it_is_known(world: InMemoryHosting) -> None:
    world.inspector.looks = 3
    file = upload(world.hosting.files)
    states = [file.status, *(world.hosting.files.show(WE, file.id).status for _ in range(3))]
    assert states == [FileStatus.PROCESSING, FileStatus.PROCESSING, FileStatus.READY, FileStatus.READY]


def test_what_was_found_first_stands(world: InMemoryHosting) -> None:
    """Two reads at once may both look; the slower one must not undo what the other found."""
    files = world.hosting.files

    class Overtaken(Inspector):
        def inspect(self, file: StoredFile, blobs: BlobStore) -> Verdict:
            files.show(WE, file.id)
            return Verdict(ok=False, detail="too late")

    file = upload(replace(files, inspector=Overtaken()))
    assert file.status is FileStatus.READY


def test_a_file_that_was_removed_while_it_was_looked_into_stays_removed(world: InMemoryHosting) -> None:
    files = world.hosting.files

    class Remover(Inspector):
        def inspect(self, file: StoredFile, blobs: BlobStore) -> Verdict:
            files.remove(WE, file.id)
            return Verdict(ok=True)

    with pytest.raises(Refusal) as caught:
        upload(replace(files, inspector=Remover()))
    assert caught.value.status == 404
    assert world.store.all_files == []


def test_files_are_listed_newest_first_by_purpose_and_from_one_on(files: Files) -> None:
    one, two, three = (upload(files, b"%d" % number, purpose="p" if number == 2 else "q") for number in (1, 2, 3))
    upload(files, owner=THEY)
    assert files.listed(WE) == [three, two, one]
    assert files.listed(WE, purpose="p") == [two]
    assert files.listed(WE, limit=1) == [three]
    assert files.listed(WE, after=three.id) == [two, one]
    assert files.listed(WE, after="file_0") == []


def test_a_removed_file_takes_its_bytes_along(world: InMemoryHosting, files: Files) -> None:
    file = upload(files)
    assert files.remove(WE, file.id) == file
    assert (world.store.all_files, world.blobs.contents) == ([], {})
    with pytest.raises(Refusal):
        files.remove(WE, file.id)


def test_a_file_that_a_live_job_needs_stays(world: InMemoryHosting, files: Files) -> None:
    file = upload(files)
    body = b'{"model": "m", "training_file_id": "%s"}' % file.id.encode()
    job = world.hosting.jobs.create(WE, Kind.SFT, body, route="learning/jobs", key=None)
    with pytest.raises(Refusal, match=job.id) as caught:
        files.remove(WE, file.id)
    assert caught.value.status == 409
    world.hosting.jobs.cancel(WE, job.id)
    files.remove(WE, file.id)


@pytest.mark.parametrize("file_id", ["file_0", "", "../x"])
def test_an_unknown_file_is_404(files: Files, file_id: str) -> None:
    with pytest.raises(Refusal) as caught:
        files.show(WE, FileId(file_id))
    assert (caught.value.status, caught.value.code) == (404, "unknown_file")


def test_bytes_that_a_killed_upload_has_left_are_swept_after_a_while(
    clock: ManualClock, world: InMemoryHosting, files: Files
) -> None:
    ours, theirs = upload(files), upload(files, owner=THEY)
    left = world.blobs.put([b"cut off before its file was known"])
    clock.advance(LEFT_ALONE)
    young = world.blobs.put([b"of an upload that is under way"])
    assert files.sweep() == 0
    clock.advance(1)
    assert files.sweep() == 1
    assert set(world.blobs.contents) == {ours.blob.id, theirs.blob.id, young.id}
    assert not world.blobs.holds(left)
