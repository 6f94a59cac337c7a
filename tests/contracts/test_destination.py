"""What every place for fetched files promises (`ports.destination`)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import pytest

from support.fewer_rights import without_root
from synth_train.adapters import folder_destination
from synth_train.adapters.folder_destination import FolderDestination
from synth_train.adapters.in_memory.destination import InMemoryDestination
from synth_train.domain.model.errors import BackendUnreachable, LocalStateError
from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.destination import DestinationPort
from synth_train.ports.streams import Readable

CONTENTS = {"config.json": b"{}", "merged/model.bin": bytes(range(256)) * 9000, "empty": b""}


@dataclass
class Place:
    """A destination, and what is in it."""

    port: DestinationPort
    contents: Callable[[], dict[str, bytes]]


@pytest.fixture(params=["in-memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "in-memory":
        in_memory = InMemoryDestination()
        return Place(in_memory, lambda: in_memory.files)
    folder = tmp_path / "above" / "out"
    return Place(FolderDestination(folder), lambda: contents_of(folder))


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files(contents: dict[str, bytes] = CONTENTS) -> Iterator[tuple[ResultFile, Callable[[], Readable]]]:
    for name, content in contents.items():
        yield ResultFile(name=name, size=len(content)), lambda content=content: io.BytesIO(content)  # type: ignore[misc]


def test_files_arrive_byte_for_byte_under_their_names(place: Place) -> None:
    place.port.receive(files())
    assert place.contents() == CONTENTS


def test_each_file_is_closed_before_the_next_is_opened(place: Place) -> None:
    opened: list[io.BytesIO] = []

    def open_one() -> Readable:
        assert all(stream.closed for stream in opened)
        opened.append(io.BytesIO(b"x"))
        return opened[-1]

    place.port.receive((ResultFile(name=name, size=1), open_one) for name in "ab")
    assert [stream.closed for stream in opened] == [True, True]


def test_what_is_there_is_not_overwritten(place: Place) -> None:
    place.port.receive(files())
    with pytest.raises(LocalStateError, match="already"):
        place.port.receive(files({"config.json": b"other"}))
    assert place.contents() == CONTENTS


def test_all_files_are_there_or_none(place: Place) -> None:
    def breaks_off() -> Readable:
        raise BackendUnreachable("cut")

    with pytest.raises(BackendUnreachable):
        place.port.receive([*files(), (ResultFile(name="last", size=1), breaks_off)])
    assert place.contents() == {}
    place.port.receive(files())
    assert place.contents() == CONTENTS


# On a disk


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    FolderDestination(tmp_path).receive(files())
    assert contents_of(tmp_path) == CONTENTS


def test_a_file_in_its_place_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(LocalStateError, match="out is there already") as refused:
        FolderDestination(tmp_path / "out").receive(files())
    assert "--out" in refused.value.hint


def test_a_disk_that_is_full_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_destination, "create", lambda path: FileIO("/dev/full", "wb"))
    with pytest.raises(LocalStateError, match=r"cannot write to .*out: No space left on device"):
        FolderDestination(tmp_path / "out").receive(files())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with without_root(), pytest.raises(LocalStateError, match=r"cannot write to .*: Permission denied"):
        FolderDestination(tmp_path / "out").receive(files())
