"""What every place for fetched files promises (`ports.destination`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import pytest

from support.fewer_rights import without_root
from synth_train.adapters import folder_destination
from synth_train.adapters.folder_destination import FolderDestination
from synth_train.adapters.in_memory.destination import InMemoryDestination
from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.hosting import ResultFile
from synth_train.ports.destination import DestinationPort

CONTENTS = {"config.json": b"{}", "merged/model.bin": bytes(range(256)) * 9000, "empty": b""}


@dataclass
class Place:
    """A destination, another one at the same place, and what is in place there."""

    port: DestinationPort
    again: Callable[[], DestinationPort]
    contents: Callable[[], dict[str, bytes]]


@pytest.fixture(params=["in-memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "in-memory":
        in_memory = InMemoryDestination()
        return Place(in_memory, lambda: in_memory, lambda: in_memory.files)
    folder = tmp_path / "above" / "out"
    return Place(FolderDestination(folder), lambda: FolderDestination(folder), lambda: contents_of(folder))


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def file_of(name: str, content: bytes) -> ResultFile:
    return ResultFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())


def files_of(contents: Mapping[str, bytes]) -> list[ResultFile]:
    return [file_of(name, content) for name, content in contents.items()]


def brought(port: DestinationPort, contents: Mapping[str, bytes] = CONTENTS, *, replace: bool = False) -> None:
    """All files put into place."""
    port.open_to(replace=replace)
    for file in files_of(contents):
        with closing(port.part(file)) as part:
            part.write(contents[file.name])
    port.settle(files_of(contents))


def test_files_come_into_place_byte_for_byte_under_their_names(place: Place) -> None:
    brought(place.port)
    assert place.contents() == CONTENTS
    assert all(map(place.port.has, files_of(CONTENTS)))


def test_nothing_is_in_place_before_all_is_there(place: Place) -> None:
    place.port.open_to(replace=False)
    for file in files_of(CONTENTS):
        with closing(place.port.part(file)) as part:
            part.write(CONTENTS[file.name])
    assert place.contents() == {}
    assert not any(map(place.port.has, files_of(CONTENTS)))
    place.port.settle(files_of(CONTENTS))
    assert place.contents() == CONTENTS


def test_a_part_is_kept_from_one_run_to_the_next(place: Place) -> None:
    content = CONTENTS["merged/model.bin"]
    file = file_of("merged/model.bin", content)
    with closing(place.port.part(file)) as part:
        assert part.size == 0
        part.write(content[:1000])
    with closing(place.again().part(file)) as part:
        assert (part.size, part.sha256) == (1000, hashlib.sha256(content[:1000]).hexdigest())
        part.write(content[1000:])
        assert (part.size, part.sha256) == (len(content), file.sha256)
    place.again().settle([file])
    assert place.contents() == {"merged/model.bin": content}


def test_a_part_that_is_dropped_begins_again(place: Place) -> None:
    file = file_of("a", b"right")
    with closing(place.port.part(file)) as part:
        part.write(b"wrong and longer")
        part.drop()
        assert (part.size, part.sha256) == (0, hashlib.sha256(b"").hexdigest())
        part.write(b"right")
    place.port.settle([file])
    assert place.contents() == {"a": b"right"}


def test_parts_of_other_files_do_not_come_into_place(place: Place) -> None:
    for name in ("old/deep/a", "b"):
        with closing(place.port.part(file_of(name, b"x"))) as part:
            part.write(b"x")
    brought(place.port)
    assert place.contents() == CONTENTS


def test_what_is_there_is_not_replaced_unless_that_is_asked_for(place: Place) -> None:
    brought(place.port, {"config.json": b"mine", "notes": b"mine"})
    with pytest.raises(LocalStateError, match="already"):
        place.again().open_to(replace=False)
    brought(place.again(), replace=True)
    assert place.contents() == {**CONTENTS, "notes": b"mine"}


@pytest.mark.parametrize(
    "other",
    [
        file_of("config.json", b"{ }"),
        file_of("config.json", b"[]"),
        file_of("missing", b""),
        ResultFile(name="config.json", size=2),
    ],
    ids=["size", "content", "name", "no hash"],
)
def test_only_the_very_file_is_known_to_be_in_place(place: Place, other: ResultFile) -> None:
    brought(place.port)
    assert not place.port.has(other)


# On a disk


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    brought(FolderDestination(tmp_path / "out"))
    assert contents_of(tmp_path / "out") == CONTENTS


def test_nothing_is_left_beside_the_folder(tmp_path: Path) -> None:
    brought(FolderDestination(tmp_path / "out"))
    brought(FolderDestination(tmp_path / "out"), replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("replace", [True, False])
def test_a_file_in_place_of_the_folder_is_never_replaced(tmp_path: Path, replace: bool) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(LocalStateError, match="out is there already, and is no folder") as refused:
        FolderDestination(tmp_path / "out").open_to(replace=replace)
    assert "--out" in refused.value.hint


def test_a_disk_that_is_full_is_said_and_what_came_is_kept_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of("model.bin", b"123456")
    with closing(FolderDestination(tmp_path / "out").part(file)) as part:
        part.write(b"123")
    with monkeypatch.context() as full:
        full.setattr(folder_destination, "append", lambda path: FileIO("/dev/full", "wb"))
        with closing(FolderDestination(tmp_path / "out").part(file)) as part:
            with pytest.raises(LocalStateError, match=r"cannot write to .*out: No space left on device") as refused:
                part.write(b"456")
            assert part.size == 3
    assert "goes on where this one stopped" in refused.value.hint
    assert not (tmp_path / "out").exists()
    with closing(FolderDestination(tmp_path / "out").part(file)) as part:
        assert part.size == 3


def test_a_folder_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with without_root(), pytest.raises(LocalStateError, match=r"cannot write to .*: Permission denied"):
        FolderDestination(tmp_path / "out").part(file_of("a", b""))
