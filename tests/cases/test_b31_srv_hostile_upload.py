"""B31: file names and lengths that a client should not send, against the real `synth-ai serve`."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.harness import DATA, SYNTH_KEY
from support.served import Served, served

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the server's process is ended by signals")

INPUTS = DATA / "B31"
NAMES = {
    "name-absolute.http": "escape-absolute.jsonl",
    "name-backslash.http": "escape.jsonl",
    "name-dot.http": "file",
    "name-dotdot.http": "escape.jsonl",
    "name-empty.http": "file",
    "name-encoded.http": "escape.jsonl",
    "name-long.http": "n" * 255,
    "name-newline.http": "aX-Evil: 1.jsonl",
    "name-nul.http": "ab.jsonl",
}
"""What is made of each name."""
LENGTHS = {
    "length-negative.http": (400,),
    "length-word.http": (400,),
    "length-missing.http": (411, 400),
    "length-huge.http": (413,),
    "two-lengths.http": (400,),
    "no-boundary.http": (400,),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("b31"), env={"SYNTH_SERVE_TOKEN": SYNTH_KEY}) as server:
        server.ready()
        yield server


def connected(server: Served) -> socket.socket:
    host, port = server.ready().removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def sent(server: Served, request: bytes) -> tuple[bytes, bytes, float]:
    """Send as it is; the head and the body that came back until the server closed, and the seconds it took."""
    began = time.monotonic()
    with connected(server) as connection:
        connection.sendall(request)
        received = b""
        while block := connection.recv(1 << 16):
            received += block
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body, time.monotonic() - began


def status(head: bytes) -> int:
    return int(head.split(b" ", 2)[1])


def kept(server: Served) -> set[Path]:
    return {path for path in server.folder.rglob("*") if path.is_file()}


def good_upload(server: Served) -> int:
    row = b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'
    form = {"files": {"file": ("a.jsonl", row)}, "data": {"purpose": "fine-tune"}}
    return server.ask("POST", "/api/files", key=SYNTH_KEY, **form).status_code


def memory(server: Served) -> int:
    """KiB that the server has in memory."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_goes_nowhere_and_is_cleaned(server: Served, name: str) -> None:
    # The same bytes are the same file, under its first name: each name comes with bytes of its own.
    row = name.removesuffix(".http").encode().rjust(len(b"name-backslash"), b".")
    request = (INPUTS / name).read_bytes()
    assert request.count(b"question 1") == 1
    request = request.replace(b"question 1", row)
    length = re.search(rb"Content-Length: (\d+)", request)
    assert length
    more = int(length[1]) + len(row) - len(b"question 1")
    head, body, _ = sent(server, request.replace(length[0], b"Content-Length: %d" % more))

    assert status(head) in (200, 201)
    assert json.loads(body)["filename"] == NAMES[name]
    assert {line.split(b":")[0].lower() for line in head.split(b"\r\n")[1:]} <= {
        b"cache-control", b"connection", b"content-length", b"content-type", b"date", b"referrer-policy",
        b"x-content-type-options",
    }  # fmt: skip
    assert all(path.is_relative_to(server.home) for path in kept(server))
    assert all(path.name.startswith("blob_") for path in (server.home / "blobs").iterdir())


@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_that_cannot_be_is_refused_within_5_s_and_the_connection_closed(server: Served, name: str) -> None:
    before = kept(server)
    head, body, seconds = sent(server, (INPUTS / name).read_bytes())

    assert status(head) in LENGTHS[name]
    assert set(json.loads(body)) == {"detail", "error"}
    assert seconds < 5
    assert kept(server) == before


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_an_upload_goes_through_while_a_huge_one_is_announced_and_memory_does_not_grow(server: Served) -> None:
    assert good_upload(server) == 201
    before = memory(server)
    with connected(server) as connection:
        connection.sendall((INPUTS / "length-huge.http").read_bytes())
        assert good_upload(server) == 201
        assert connection.recv(12) == b"HTTP/1.1 413"
    assert memory(server) - before < 20_000


def test_an_upload_is_streamed_to_the_disk(server: Served) -> None:
    before = memory(server)
    row = b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"%s"}]}\n' % (b"a" * 4000)
    rows = row * 16_000  # 65 MB
    form = {"files": {"file": ("large.jsonl", rows)}, "data": {"purpose": "fine-tune"}}
    assert server.ask("POST", "/api/files", key=SYNTH_KEY, **form).status_code == 201
    assert memory(server) - before < 40_000


def test_a_body_that_ends_too_soon_is_not_waited_for_and_nothing_of_it_is_kept(server: Served) -> None:
    before = kept(server)
    whole = (INPUTS / "name-dot.http").read_bytes()
    with connected(server) as connection:
        connection.sendall(whole[:-50])
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(12) in (b"", b"HTTP/1.1 400")
    assert kept(server) == before
