"""What the server costs beside a bare handler, and how long it takes to list, watch and plot 1,000 jobs.

    python benchmarks/serving.py [--seconds 3] [--rounds 3] [--jobs 1000]

Both servers are Litestar on uvicorn, each in a process of its own; the bare one answers with the same bytes, without
keys, database or limits. The same client asks them in turn, over one connection and over eight; the best round of each
counts. The time of the processor that a request takes is less at the mercy of what else the machine does. Needs Linux,
the extra [serve], and [plot].
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.serving.embedded import hosting_in
from synth_train.adapters.serving.server import Server, listening
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import Job, JobStatus, owner_of
from synth_train.domain.model.jobs import JobId, Kind
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting.files import Label
from synth_train.domain.usecases.hosting.service import Hosting

KEY = Secret("serving-benchmark-0001")
OWNER = owner_of(KEY)
STEPS = 20
EVENTS = 50
"""Of each job."""

ROW = b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'


def hosting_at(folder: str) -> Hosting:
    """What `synth-ai serve` serves, but for its workers: none is started."""
    nothing: dict[str, str] = {}
    return hosting_in(
        LocalHome(Path(folder)),
        KeyRing(nothing, DotenvEnv(nothing).read),
        owners=frozenset({OWNER}),
        aliases={},
        program=(sys.executable, "-c", ""),
    )


def ours(folder: str, port: Connection) -> None:
    """The server itself."""
    listener = listening("127.0.0.1", 0)
    port.send(listener.getsockname()[1])
    Server(hosting_at(folder), listener).run()


def bare(answers: dict[str, Any], port: Connection) -> None:
    """A handler for each route that reads what it is sent and answers with what ours would."""
    import uvicorn
    from litestar import Litestar, Request, get, post

    @post("/learning/jobs")
    async def create(request: Request[Any, Any, Any]) -> dict[str, Any]:
        await request.json()
        return dict(answers["create"])

    @get("/learning/jobs/{job_id:str}")
    async def show(job_id: str) -> dict[str, Any]:
        return dict(answers["poll"])

    @get("/learning/jobs/{job_id:str}/events")
    async def events(job_id: str, since_seq: int = 0, limit: int = 200) -> dict[str, Any]:
        return dict(answers["events"])

    # Without `from __future__ import annotations` these would be types already.
    for handler in (create, show, events):
        handler.fn.__globals__.update(Request=Request, Any=Any)
    listener = listening("127.0.0.1", 0)
    port.send(listener.getsockname()[1])
    config = uvicorn.Config(Litestar([create, show, events]), lifespan="off", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def process(run: Callable[..., None], *args: object) -> Iterator[tuple[int, int]]:
    """The port of a server in another process, and that process's id."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=run, args=(*args, there))
    server.start()
    try:
        yield here.recv(), server.pid or 0
    finally:
        server.terminate()
        server.join()


class Client:
    """One connection that is kept; as little of Python as possible, since it shares the machine with the server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += self._received()
        head, _, body = reply.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        parts, left = [body], int(length) - len(body)
        while left > 0:
            parts.append(self._received())
            left -= len(parts[-1])
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise SystemExit(f"{head!r} {body!r}")
        return b"".join(parts)

    def _received(self) -> bytes:
        block = self._socket.recv(1 << 18)
        if not block:
            raise SystemExit("the server has hung up")
        return block


def request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY.reveal()}\r\n"
    if method == "POST":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def processor_time(pid: int) -> float:
    """Seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rate(server: tuple[int, int], message: bytes, *, connections: int, seconds: float) -> tuple[float, float]:
    """Replies a second, and seconds of the server's processor time for each."""
    port, pid = server
    counts = [0] * connections
    clients = [Client(port) for _ in counts]
    until = time.perf_counter() + seconds

    def run(at: int) -> None:
        while time.perf_counter() < until:
            clients[at].ask(message)
            counts[at] += 1

    began, used = time.perf_counter(), processor_time(pid)
    threads = [threading.Thread(target=run, args=(at,)) for at in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, count = time.perf_counter() - began, sum(counts)
    return count / took, (processor_time(pid) - used) / count


def a_body(hosting: Hosting) -> bytes:
    """The request of an SFT job on a file that is there."""
    file = hosting.files.upload(OWNER, iter([ROW]), lambda: Label(filename="a.jsonl", purpose="fine-tune"))
    return (
        f'{{"model":"tiny","training_type":"sft_offline","training_file_id":"{file.id}",'
        '"hyperparameters":{"n_epochs":1,"learning_rate":5e-06},"metadata":{"effective_config":{}}}'
    ).encode()


def a_past(hosting: Hosting, count: int) -> list[JobId]:
    """Jobs that have ended well, with all that was told of them."""
    body = a_body(hosting)
    jobs = [hosting.jobs.create(OWNER, Kind.SFT, body, route="learning/jobs", key=None) for _ in range(count)]
    with hosting.jobs.store.transaction() as rows:
        for job in jobs:
            last = job.last_seq + EVENTS
            rows.save_job(_ended(job, last))
            for seq in range(job.last_seq + 1, last + 1):
                rows.add_event(job.id, Event(seq=seq, type="sft.progress", message=f"Step {seq}.", created_at=1.0))
            rows.save_points(
                job.id,
                [
                    Point(name=name, step=step, value=1 / step, created_at=1.0)
                    for step in range(1, STEPS + 1)
                    for name in ("train.loss", "train.learning_rate")
                ],
            )
    return [job.id for job in jobs]


def _ended(job: Job, last: int) -> Job:
    return replace(
        job, status=JobStatus.SUCCEEDED, started=True, ended_at=2.0, last_seq=last, fine_tuned_model=f"ft:tiny:{job.id}"
    )


def beside_a_bare_handler(folder: str, job: JobId, body: bytes, seconds: float, rounds: int) -> None:
    import msgspec

    questions = {
        "create": request("POST", "/learning/jobs", body),
        "poll": request("GET", f"/learning/jobs/{job}"),
        "events": request("GET", f"/learning/jobs/{job}/events?since_seq=0&limit=200"),
    }
    with process(ours, folder) as here:
        answers = {name: msgspec.json.decode(Client(here[0]).ask(asked)) for name, asked in questions.items()}
        with process(bare, answers) as there:
            print(f"{'':<8} {'connections':>11}  {'requests a second':^24}  {'processor, ms a request':^24}")
            print(f"{'':<20}  {'ours':>7} {'bare':>7} {'ratio':>7}   {'ours':>7} {'bare':>7} {'ratio':>7}")
            for name, asked in questions.items():
                for connections in (1, 8):
                    found = [
                        [rate(server, asked, connections=connections, seconds=seconds) for server in (here, there)]
                        for _ in range(rounds)
                    ]
                    our, their = (max(one[at][0] for one in found) for at in (0, 1))
                    our_ms, their_ms = (1000 * min(one[at][1] for one in found) for at in (0, 1))
                    print(
                        f"{name:<8} {connections:>11}  {our:>7.0f} {their:>7.0f} {their / our:>7.2f}   "
                        f"{our_ms:>7.2f} {their_ms:>7.2f} {our_ms / their_ms:>7.2f}",
                        flush=True,
                    )


def many_jobs(folder: str, jobs: list[JobId]) -> None:
    with process(ours, folder) as (port, _), tempfile.TemporaryDirectory() as out:
        environ = {**os.environ, "SYNTH_API_KEY": KEY.reveal(), "SYNTH_AI_HOME": out}
        picture = str(Path(out, "curves.png"))
        commands = {
            "listed": ("jobs", "list", "--limit", str(len(jobs))),
            "watched to their ends": ("jobs", "watch", *jobs),
            "one plotted": ("jobs", "metrics", jobs[0], "--name", "train.loss", "--plot", picture),
            "all plotted in one picture": ("jobs", "metrics", *jobs, "--plot", picture),
        }
        for what, words in commands.items():
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "synth_train", *words, "--backend", f"http://127.0.0.1:{port}"],
                env=environ,
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            print(f"{len(jobs):,} jobs, {what}: {time.perf_counter() - began:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1000)
    args = parser.parse_args()
    print("load:", *(f"{load:.1f}" for load in os.getloadavg()))
    with tempfile.TemporaryDirectory() as folder:
        hosting = hosting_at(folder)
        jobs = a_past(hosting, args.jobs)
        many_jobs(folder, jobs)
        beside_a_bare_handler(folder, jobs[0], a_body(hosting), args.seconds, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
