"""What every DatasetPort promises."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.adapters.jsonl_datasets import JsonlDatasets
from synth_train.domain.model.dataset import Part
from synth_train.domain.model.errors import InvalidDataset
from synth_train.ports.datasets import DatasetPort

LINES = b"".join(b'{"row":%d}\n' % number for number in range(300_000))
MOST = 2 << 20


class Disk:
    """A port with a way to write the files it reads."""

    def __init__(self, datasets: DatasetPort, cwd: Path, write: Callable[[Path, bytes], object]) -> None:
        self.datasets = datasets
        self.cwd = cwd
        self._write = write

    def write(self, name: str, content: bytes) -> Path:
        path = self.cwd / name
        self._write(path, content)
        return path


@pytest.fixture(params=["in-memory", "files"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "in-memory":
        in_memory = InMemoryDatasets()
        return Disk(in_memory, Path("/repo"), in_memory.write)
    ticks = iter(range(1, 100))

    def write(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (0, next(ticks)))  # a test writes faster than some clocks tick

    cwd = tmp_path.resolve() / "repo"
    cwd.mkdir()
    return Disk(JsonlDatasets(cwd), cwd, write)


# ---- looking for a file


def test_a_name_is_looked_up_beside_the_config_first(disk: Disk) -> None:
    beside = disk.write("configs/train.jsonl", b"here\n")
    here = disk.write("train.jsonl", b"there\n")

    located = disk.datasets.locate("train.jsonl", beside=disk.cwd / "configs")

    assert (located.path, located.tried, located.shadowed) == (beside, (beside, here), here)


def test_a_name_from_the_command_line_is_looked_up_from_the_working_directory(disk: Disk) -> None:
    disk.write("configs/train.jsonl", b"here\n")
    here = disk.write("train.jsonl", b"there\n")

    located = disk.datasets.locate("train.jsonl", beside=None)

    assert (located.path, located.tried, located.shadowed) == (here, (here,), None)


def test_what_is_not_beside_the_config_may_be_in_the_working_directory(disk: Disk) -> None:
    here = disk.write("data/train.jsonl", b"there\n")

    located = disk.datasets.locate("data/train.jsonl", beside=disk.cwd / "configs")

    assert located.path == here
    assert located.tried == (disk.cwd / "configs/data/train.jsonl", here)
    assert located.shadowed is None


def test_a_copy_in_the_working_directory_shadows_nothing(disk: Disk) -> None:
    disk.write("configs/train.jsonl", b"same\n")
    disk.write("train.jsonl", b"same\n")

    assert disk.datasets.locate("train.jsonl", beside=disk.cwd / "configs").shadowed is None


def test_one_place_is_tried_once(disk: Disk) -> None:
    here = disk.write("train.jsonl", b"x\n")

    located = disk.datasets.locate("../repo/train.jsonl", beside=disk.cwd)

    assert (located.path, located.tried) == (here, (here,))
    assert disk.datasets.locate(str(here), beside=disk.cwd / "configs").tried == (here,)


def test_a_file_that_is_nowhere_comes_with_the_places_and_the_names_that_are_near(disk: Disk) -> None:
    near = disk.write("configs/trian.jsonl", b"x\n")
    disk.write("configs/other.txt", b"x\n")

    located = disk.datasets.locate("train.jsonl", beside=disk.cwd / "configs")

    assert located.path is None
    assert located.tried == (disk.cwd / "configs/train.jsonl", disk.cwd / "train.jsonl")
    assert located.near == (near,)


def test_names_that_share_no_more_than_their_ending_are_not_near(disk: Disk) -> None:
    disk.write("rows.jsonl", b"x\n")

    assert disk.datasets.locate("chats.jsonl", beside=disk.cwd).near == ()


# ---- reading


def test_chunks_are_the_file_cut_at_line_ends(disk: Disk) -> None:
    chunks = list(disk.datasets.chunks(disk.write("train.jsonl", LINES)))

    assert b"".join(chunks) == LINES
    assert len(chunks) > 1
    assert all(chunk.endswith(b"\n") and len(chunk) <= MOST for chunk in chunks)


def test_a_line_that_is_longer_than_a_chunk_is_not_cut(disk: Disk) -> None:
    long = b"x" * (3 * MOST)

    chunks = list(disk.datasets.chunks(disk.write("train.jsonl", b"a\n" + long + b"\nb")))

    assert b"".join(chunks) == b"a\n" + long + b"\nb"
    assert any(long in chunk for chunk in chunks)


def test_an_empty_file_has_no_chunk(disk: Disk) -> None:
    assert list(disk.datasets.chunks(disk.write("train.jsonl", b""))) == []


def test_a_part_gives_its_bytes_and_not_one_more(disk: Disk) -> None:
    path = disk.write("train.jsonl", b"0123456789")
    part = Part(path, 3, 8, disk.datasets.stamp(path))

    with disk.datasets.open(part) as reader:
        assert [reader.read(2), reader.read(2), reader.read(2), reader.read(2)] == [b"34", b"56", b"7", b""]
    with disk.datasets.open(part) as reader:
        assert reader.read() == b"34567"
    assert disk.datasets.sha256(part) == hashlib.sha256(b"34567").hexdigest()


def test_a_large_part_is_hashed_as_it_is_read(disk: Disk) -> None:
    part = Part(disk.write("train.jsonl", LINES), 3, len(LINES) - 3)

    assert disk.datasets.sha256(part) == hashlib.sha256(LINES[3:-3]).hexdigest()


# ---- changes


def test_a_stamp_stays_until_the_file_changes(disk: Disk) -> None:
    path = disk.write("train.jsonl", b"one\n")
    before = disk.datasets.stamp(path)

    assert before.size == 4
    assert disk.datasets.stamp(path) == before
    disk.write("train.jsonl", b"two\n")
    assert disk.datasets.stamp(path) != before


def test_a_file_that_changed_since_it_was_checked_is_refused(disk: Disk) -> None:
    path = disk.write("train.jsonl", b"one\n")
    part = Part(path, 0, 4, disk.datasets.stamp(path))
    disk.write("train.jsonl", b"two\n")

    for read in (disk.datasets.open, disk.datasets.sha256):
        with pytest.raises(InvalidDataset, match="has changed") as raised:
            read(part)
        assert raised.value.hint


def test_a_change_does_not_matter_to_a_part_without_a_stamp(disk: Disk) -> None:
    path = disk.write("train.jsonl", b"one\n")
    disk.write("train.jsonl", b"two\n")

    assert disk.datasets.open(Part(path, 0, 4)).read() == b"two\n"


@pytest.mark.parametrize("content", [b"0000000000", b"01", b"0123456789and more"], ids=["other", "shorter", "longer"])
def test_a_change_under_the_reader_ends_the_reading(disk: Disk, content: bytes) -> None:
    path = disk.write("train.jsonl", b"0123456789")
    with disk.datasets.open(Part(path, 0, 10)) as reader:
        assert reader.read(4) == b"0123"
        disk.write("train.jsonl", content)

        with pytest.raises(InvalidDataset, match="has changed"):
            reader.read(4)


def test_a_part_that_the_file_does_not_have_is_refused(disk: Disk) -> None:
    path = disk.write("train.jsonl", b"0123")

    with disk.datasets.open(Part(path, 2, 9)) as reader, pytest.raises(InvalidDataset, match="has changed"):
        reader.read()


# ---- refusals


def _uses(datasets: DatasetPort) -> dict[str, Callable[[Path], object]]:
    return {
        "stamp": datasets.stamp,
        "chunks": lambda path: list(datasets.chunks(path)),
        "open": lambda path: datasets.open(Part(path, 0, 1)),
        "sha256": lambda path: datasets.sha256(Part(path, 0, 1)),
    }


@pytest.mark.parametrize("use", ["stamp", "chunks", "open", "sha256"])
def test_a_missing_file_is_refused_with_the_name_that_is_near(disk: Disk, use: str) -> None:
    near = disk.write("trian.jsonl", b"x\n")

    with pytest.raises(InvalidDataset, match="no such file") as raised:
        _uses(disk.datasets)[use](disk.cwd / "train.jsonl")
    assert str(near) in raised.value.hint


@pytest.mark.parametrize("use", ["stamp", "chunks", "open", "sha256"])
def test_a_missing_file_with_nothing_near_is_refused_all_the_same(disk: Disk, use: str) -> None:
    with pytest.raises(InvalidDataset, match="no such file") as raised:
        _uses(disk.datasets)[use](disk.cwd / "nowhere" / "train.jsonl")
    assert raised.value.hint == ""


@pytest.mark.parametrize("use", ["stamp", "chunks", "open", "sha256"])
def test_a_directory_is_refused(disk: Disk, use: str) -> None:
    disk.write("data/train.jsonl", b"x\n")

    with pytest.raises(InvalidDataset, match="is a directory"):
        _uses(disk.datasets)[use](disk.cwd / "data")
