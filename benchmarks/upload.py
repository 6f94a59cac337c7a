"""Upload of a big file: throughput beside `curl -F`, and memory beside that of a small file.

    python benchmarks/upload.py [--mib 600] [--rounds 5]

Both clients send the same file as the same kind of form to the same server on loopback, in turn. The server only reads
and counts. What counts is the best round of each: the rest is what else the machine was doing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from synth_train.adapters.http.backend import HttpBackend
from synth_train.ports.backend import Upload

LINE = b'{"messages":[{"role":"user","content":"' + b"q" * 900 + b'"},{"role":"assistant","content":"a"}]}\n'


def sink(port: Connection) -> None:
    """Read one request per connection and answer it with a file id."""
    buffer = memoryview(bytearray(1 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port.send(listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(1 << 16)
                head, _, body = head.partition(b"\r\n\r\n")
                if b"100-continue" in head.lower():
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                left = int(length.partition(b":")[2]) - len(body)
                while left > 0:
                    left -= connection.recv_into(buffer)
                reply = b'{"id":"file_1"}'
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (len(reply), reply)
                )


def upload(base: str, path: Path) -> None:
    """As the command does it."""
    HttpBackend(base, api_key=None).upload(
        Upload(filename=path.name, purpose="fine-tune", size=path.stat().st_size, open=lambda: path.open("rb"))
    )


def curl(base: str, path: Path) -> None:
    """As a careful user would do it by hand."""
    form = ["-F", "purpose=fine-tune", "-F", f"file=@{path};type=application/jsonl"]
    subprocess.run(["curl", "-sS", "--fail", "-o", os.devnull, *form, f"{base}/files"], check=True)


def seconds(call: Callable[[str, Path], None], base: str, path: Path) -> float:
    began = time.perf_counter()
    call(base, path)
    return time.perf_counter() - began


def peak_mib(base: str, path: Path) -> float:
    """The most memory that a process of its own needs to upload the file."""

    def run(answer: Connection) -> None:
        upload(base, path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer.send(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=run, args=(there,))
    process.start()
    found: float = here.recv()
    process.join()
    return found


def write(path: Path, mib: int) -> Path:
    block = LINE * 1024
    with path.open("wb") as file:
        for _ in range(max(1, mib * (1 << 20) // len(block))):
            file.write(block)
    return path


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mib", type=int, default=600)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()

    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=sink, args=(there,), daemon=True)
    server.start()
    base = f"http://127.0.0.1:{here.recv()}"
    with tempfile.TemporaryDirectory() as folder:
        big, small = write(Path(folder, "big.jsonl"), chosen.mib), write(Path(folder, "small.jsonl"), 0)
        size = big.stat().st_size / (1 << 20)

        flat, peak = peak_mib(base, small), peak_mib(base, big)
        print(f"peak memory: {flat:.0f} MiB for {small.stat().st_size >> 10} KiB, {peak:.0f} MiB for {size:.0f} MiB")

        if shutil.which("curl") is None:
            print("throughput: no curl here to compare with")
        else:
            seconds(curl, base, big)  # the file is in the page cache from here on
            pairs = [(seconds(upload, base, big), seconds(curl, base, big)) for _ in range(chosen.rounds)]
            ours, theirs = (size / min(times) for times in zip(*pairs, strict=True))
            print(f"throughput: {ours:.0f} MiB/s, curl -F {theirs:.0f} MiB/s, ratio {ours / theirs:.2f} (target 0.7)")
    server.kill()
    server.join()


if __name__ == "__main__":
    main()
