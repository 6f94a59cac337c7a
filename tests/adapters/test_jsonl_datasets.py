"""Dataset files on a real disk: what only a real disk can do."""

from __future__ import annotations

import os
import socket
import sys
import tracemalloc
from pathlib import Path

import pytest

from support.fewer_rights import without_root
from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.adapters.jsonl_datasets import JsonlDatasets
from synth_train.domain.model.dataset import Part
from synth_train.domain.model.errors import InvalidDataset
from synth_train.domain.usecases.check_dataset import CheckDataset

ROW = b'{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"4"}]}\n'
MIB = 1 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_cannot_be_read_twice_is_refused_without_waiting_for_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "train.jsonl"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listening.bind(os.path.relpath(path))  # the name of a socket must be short
        else:
            path = Path("/dev/null")

        with pytest.raises(InvalidDataset, match=f"is a {kind}") as raised:
            CheckDataset(datasets=JsonlDatasets())(path)
    assert "again" in raised.value.hint


@pytest.mark.skipif(sys.platform == "win32", reason="modes forbid nothing there")
def test_a_file_that_may_not_be_read_is_found_and_refused(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "train.jsonl"
    path.write_bytes(ROW % b"?")
    path.chmod(0)
    tmp_path.chmod(0o755)
    datasets = JsonlDatasets(tmp_path)

    with without_root():
        assert datasets.locate("train.jsonl", beside=None).path == path
        with pytest.raises(InvalidDataset, match="cannot be read: Permission denied"):
            list(datasets.chunks(path))
        with pytest.raises(InvalidDataset, match="cannot be read: Permission denied"):
            datasets.sha256(Part(path, 0, 1))


def test_a_path_that_leads_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(InvalidDataset, match="cannot be read: Not a directory"):
        JsonlDatasets().stamp(tmp_path / "file" / "train.jsonl")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_are_followed_before_dots_are_taken(tmp_path: Path) -> None:
    (tmp_path / "real" / "configs").mkdir(parents=True)
    (tmp_path / "real" / "train.jsonl").write_bytes(b"real\n")
    (tmp_path / "train.jsonl").write_bytes(b"decoy\n")
    (tmp_path / "configs").symlink_to(tmp_path / "real" / "configs")

    located = JsonlDatasets(tmp_path / "real").locate("../train.jsonl", beside=tmp_path / "configs")

    assert located.path == (tmp_path / "real" / "train.jsonl").resolve()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_that_leads_nowhere_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").symlink_to(tmp_path / "gone.jsonl")

    assert JsonlDatasets(tmp_path).locate("train.jsonl", beside=None).path is None


def test_the_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "train.jsonl").write_bytes(b"x\n")

    assert (
        JsonlDatasets(Path("/")).locate("~/train.jsonl", beside=Path("/etc")).path == tmp_path.resolve() / "train.jsonl"
    )
    assert JsonlDatasets(tmp_path).locate("~nobody-by-this-name/x", beside=None).path is None


def test_the_home_directory_is_expanded_in_memory_too() -> None:
    datasets = InMemoryDatasets({"/home/me/train.jsonl": b"x\n"})

    assert datasets.locate("~/train.jsonl", beside=Path("/etc")).path == Path("/home/me/train.jsonl")


def test_the_working_directory_is_that_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.jsonl").write_bytes(b"x\n")

    assert JsonlDatasets().locate("train.jsonl", beside=None).path == tmp_path.resolve() / "train.jsonl"


@pytest.mark.skipif(sys.platform == "win32", reason="modes forbid nothing there")
def test_what_cannot_be_compared_counts_as_different(tmp_path: Path) -> None:
    for name in ("train.jsonl", "configs/train.jsonl"):
        path = tmp_path.resolve() / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"same\n")
        path.chmod(0)

    with without_root():
        located = JsonlDatasets(tmp_path).locate("train.jsonl", beside=tmp_path / "configs")

    assert located.path == tmp_path.resolve() / "configs" / "train.jsonl"
    assert located.shadowed == tmp_path.resolve() / "train.jsonl"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").symlink_to(tmp_path / "train.jsonl")
    located = JsonlDatasets(tmp_path).locate("train.jsonl", beside=None)

    assert located.path is not None
    with pytest.raises(InvalidDataset, match="cannot be read"):
        JsonlDatasets().stamp(located.path)


def test_a_name_that_no_file_can_have_is_found_nowhere(tmp_path: Path) -> None:
    assert JsonlDatasets(tmp_path).locate("a\0b", beside=tmp_path).path is None


def test_a_reader_offers_no_way_around_its_bounds(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b"0123456789")

    with JsonlDatasets().open(Part(path, 2, 4)) as reader:
        assert reader.readable()
        with pytest.raises(OSError, match="fileno"):
            reader.fileno()
        assert list(reader) == [b"23"]


# ---- memory


def peak(check: CheckDataset, path: Path, examples: int | None = None) -> int:
    """Bytes that Python had at most while it checked a file."""
    tracemalloc.start()
    try:
        check(path, examples=examples)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    block = ROW % (b"q" * 4000) * 256
    path.write_bytes(block * 40)

    assert peak(CheckDataset(datasets=JsonlDatasets()), path) < 8 * MIB


@pytest.mark.parametrize("text", [b"q", "é".encode()], ids=["ascii", "two bytes each"])
def test_memory_for_one_line_stays_below_eight_times_the_line(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(ROW % (text * (8 * MIB // len(text))))

    assert peak(CheckDataset(datasets=JsonlDatasets()), path) < 8 * 8 * MIB


def test_a_hash_and_a_reader_take_no_more_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(bytes(32 * MIB))

    tracemalloc.start()
    try:
        JsonlDatasets().sha256(Part(path, 0, 32 * MIB))
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
