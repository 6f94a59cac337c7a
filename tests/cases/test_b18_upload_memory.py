"""B18: the whole data file is read into memory for the upload.

The everyday run proves flatness on 150 MiB; the sizes of the case, 600 and 2100 MiB, are behind the `slow` marker.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cases.harness import KEYS, Workspace, uploaded
from cases.scripted_server import ScriptedServer, Seen, sft

MIB = 1 << 20
ROW = b'{"messages":[{"role":"user","content":"' + b"q" * 900 + b'"},{"role":"assistant","content":"a"}]}\n'
BLOCK = ROW * 1024

COVERAGE = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""Left out where memory or time is measured."""


@dataclass(frozen=True)
class Measured:
    peak: int
    """Bytes."""
    upload: Seen
    body: Path


def measure(workspace: Workspace, dataset: Path, *args: str) -> Measured:
    """Submit a dataset."""
    workspace.put("common/sft.toml")
    peak, body = workspace.root / "peak", workspace.root / "body"
    with ScriptedServer(sft(), spool=body) as server:
        ran = workspace.run(
            str(Path(__file__).with_name("peak_memory.py")), str(peak),
            sys.executable, "-m", "synth_train", "train", "--config", "sft.toml", "--dataset", str(dataset),
            "--backend", server.base, "--no-poll", *args,
            env=KEYS, command=(sys.executable,), within=600, without=COVERAGE,
        )  # fmt: skip
    assert ran.code == 0, ran.err
    (upload,) = server.seen("POST /api/files")
    return Measured(int(peak.read_text()) * 1024, upload, body)


def many_rows(path: Path, size: int) -> str:
    """Write `size` bytes of rows, give or take a block; returns their hash."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(size // len(BLOCK)):
            file.write(BLOCK)
            digest.update(BLOCK)
    return digest.hexdigest()


def hash_of_file_part(measured: Measured) -> str:
    """Of a body on disk: what stands between the head of the file's part and the line end before a boundary."""
    boundary = re.search(r"boundary=(\S+)", measured.upload.header("Content-Type") or "")
    assert boundary
    delimiter = b"\r\n--" + boundary[1].strip('"').encode()
    digest, tail = hashlib.sha256(), b""
    with measured.body.open("rb") as body:
        start = body.read(64 * 1024)
        head = re.search(rb'name="file"; filename="[^"]*"(?:\r\n[^\r]+)*\r\n\r\n', start)
        assert head
        body.seek(head.end())
        for chunk in iter(lambda: body.read(MIB), b""):
            tail += chunk
            if (end := tail.find(delimiter)) >= 0:
                digest.update(tail[:end])
                return digest.hexdigest()
            digest.update(tail[: -len(delimiter)])
            tail = tail[-len(delimiter) :]
    raise AssertionError("the file's part has no end")


@pytest.fixture
def small(workspace: Workspace) -> Path:
    return workspace.put("common/train.jsonl")


@pytest.fixture
def big(workspace: Workspace) -> Iterator[Path]:
    """Where a big file may be written; it does not stay in pytest's keepsakes."""
    path = workspace.root / "big.jsonl"
    yield path
    path.unlink(missing_ok=True)
    (workspace.root / "body").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(150 * MIB, id="150MiB"),
        pytest.param(600 * MIB, id="600MiB", marks=pytest.mark.slow),
        pytest.param(2100 * MIB, id="2100MiB", marks=pytest.mark.slow),
    ],
)
def test_memory_does_not_grow_with_the_file_and_every_byte_arrives(
    workspace: Workspace, small: Path, big: Path, size: int
) -> None:
    expected = many_rows(big, size)
    of_small = measure(workspace, small)
    of_big = measure(workspace, big)

    assert of_big.peak - of_small.peak < 100 * MIB * min(1, size / (600 * MIB))
    assert hash_of_file_part(of_big) == expected
    length = of_big.upload.header("Content-Length")
    assert length is None or int(length) == of_big.upload.length


def test_the_first_rows_of_a_big_file_cost_what_they_are_worth(workspace: Workspace, big: Path) -> None:
    many_rows(big, 150 * MIB)
    of_few = measure(workspace, big, "--examples", "5")

    assert uploaded(of_few.upload).content == ROW * 5


def test_the_first_rows_of_a_big_file_are_there_at_once(workspace: Workspace, big: Path) -> None:
    many_rows(big, 150 * MIB)
    workspace.put("common/sft.toml")
    ran = workspace.run(
        "train", "--config", "sft.toml", "--dataset", str(big), "--examples", "5", "--dry-run",
        without=COVERAGE,
    )  # fmt: skip

    assert ran.code == 0, ran.err
    assert ran.seconds < 2.0


def test_one_long_row_costs_at_most_eight_times_its_length(workspace: Workspace, small: Path, big: Path) -> None:
    length = 16 * MIB
    with big.open("wb") as file:
        file.write(b'{"messages":[{"role":"user","content":"' + b"x" * length)
        file.write(b'"},{"role":"assistant","content":"ok"}]}\n')

    assert measure(workspace, big).peak - measure(workspace, small).peak <= 8 * length
