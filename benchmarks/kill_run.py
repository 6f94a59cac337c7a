"""Is all that was acknowledged there, once, after server, workers and clients were killed at random moments?

    python benchmarks/kill_run.py [--seconds 60] [--seed N] [--real 40] [--folder DIR]

Eight client processes upload files, create jobs under idempotency keys (and ask again under the same ones), start
them, and read their events and metric points. What they were told they write to ledgers of their own, which they sync
before they go on. Meanwhile `synth-ai serve`, its workers and the clients are sent SIGKILL; the server is started again
on the same port and folder, a client takes up from its ledger, and a worker is followed by the next one as ever. In the
end, nothing being killed any more, the ledgers are held against the server's replies and against its folder:

- each acknowledged file has the bytes that were sent, under one id;
- each acknowledged job is there, one for its key, and still is when asked for once more; each job has ended;
- the events of a job are numbered 1, 2, 3 …, and each that a client saw is there, unchanged;
- each point that a client saw is there, and each step of a finished job has its points, once;
- no reply was a failure of the server, and nobody has written a traceback.

Real processes, sockets and files; only the trainer is a quick one that does as its job says, except for each 40th job
(`--real`, 0 for none), which is real SFT on `tiny` and needs the extra [local]. Exit status 1 when anything is amiss.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import requests

TESTS = Path(__file__).resolve().parents[1] / "tests"
CLIENTS = 8
TOKEN = "kill-run-key-0001-abcdefgh"
BUSY = {429, 503}
"""Replies that ask to come again."""

OVER = {"succeeded", "failed", "cancelled"}
END = 300.0
"""Seconds that the last jobs have to end."""

VICTIMS = ("server", "worker", "client", "client")


# The programs that are killed


def serve(arguments: list[str]) -> int:
    """`synth-ai serve` whose workers are this file."""
    from synth_train.entrypoints.cli import main as cli
    from synth_train.entrypoints.cli import serve as command

    command.PROGRAM = (sys.executable, __file__, "work")
    return cli(["serve", *arguments])


def work(arguments: list[str]) -> int:
    """The real worker, whose trainer plays the jobs that say how and really trains the others."""
    sys.path.append(str(TESTS))
    from support.fake_worker import ObedientTrainer
    from synth_train.adapters.local import worker
    from synth_train.adapters.local.trainers import Bench, TrainerByKind
    from synth_train.domain.model.hosting import Happening, Task
    from synth_train.ports.hosting import Trainer

    class Either(Trainer):
        def __init__(self, bench: Bench) -> None:
            self._bench = bench

        def train(self, task: Task) -> Generator[Happening, None, None]:
            kind = ObedientTrainer if b'"play"' in task.job.order.body else TrainerByKind
            yield from kind(self._bench).train(task)

    return worker.main(arguments, trainer=Either)


class Ledger:
    """What one client was told: a JSON object a line, on the disk before the client goes on."""

    def __init__(self, path: Path) -> None:
        path.touch()
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        if torn:  # killed while it wrote: nobody relies on that line
            os.truncate(path, len(whole) + 1 if whole else 0)
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        self._file = path.open("ab")

    def add(self, what: str, **more: Any) -> None:
        row = {"what": what, **more}
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.append(row)

    def of(self, what: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["what"] == what]


class Client:
    """Submits one job after the other, and follows it to its end. Goes on from its ledger."""

    def __init__(self, url: str, number: int, folder: Path, real: int) -> None:
        self.url = url
        self.number = number
        self.real = real
        self.ledger = Ledger(folder / f"client-{number}.ledger")
        self.stop = folder / "stop"
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {TOKEN}"
        self.dice = random.Random()  # how it behaves, not what it sends: that follows from its number

    def run(self) -> int:
        jobs = {row["turn"]: row for row in self.ledger.of("job")}
        over = {row["job"] for row in self.ledger.of("over")}
        for turn in range(10**9):
            if turn in jobs and jobs[turn]["job"] in over:
                continue
            if self.stop.exists():
                return 0
            self.turn(turn, jobs.get(turn))
        return 0

    def turn(self, turn: int, job: dict[str, Any] | None) -> None:
        content, play = sent(self.number, turn, self.real)
        file = self.ask("POST", "files", 201, files={"file": ("rows.jsonl", content)}, data={"purpose": "fine-tune"})
        self.ledger.add("file", turn=turn, file=file["id"], sha256=file["sha256"], size=file["bytes"])
        if file["status"] != "ready":
            self.ledger.add("fault", why=f"file {file['id']} is {file['status']}")
            return
        route, body = asked_for(self.number, turn, file["id"], play)
        key = key_of(self.number, turn)
        for _ in range(self.dice.choice((1, 1, 2))):
            made = self.ask("POST", route, 201, data=body, headers={"Idempotency-Key": key})
            self.ledger.add("job", turn=turn, job=made["id"], key=key, route=route)
        self.ask("POST", f"{route}/{made['id']}/start", 200)
        self.follow(made["id"], route)

    def follow(self, job: str, route: str) -> None:
        seq = max((row["events"][-1][0] for row in self.ledger.of("events") if row["job"] == job), default=0)
        step = max((row["points"][-1][0] for row in self.ledger.of("points") if row["job"] == job), default=0)
        while True:
            over = self.ask("GET", f"{route}/{job}", 200)["status"] in OVER
            if self.dice.random() < 0.2:
                events = self.streamed(f"{route}/{job}/events/stream?since_seq={seq}")
            else:
                events = self.ask("GET", f"{route}/{job}/events?since_seq={seq}&limit=7", 200)["events"]
            if events:
                self.ledger.add("events", job=job, events=[seen(event) for event in events])
                seq = events[-1]["seq"]
            points = self.ask("GET", f"{route}/{job}/metrics?after_step={step}&limit=20", 200)["points"]
            if points:
                self.ledger.add("points", job=job, points=[[row["step"], row["name"], row["value"]] for row in points])
                step = points[-1]["step"]
            if over and not events and not points:
                self.ledger.add("over", job=job)
                return
            if self.stop.exists():
                return
            if not events and not points:
                time.sleep(0.1)

    def streamed(self, path: str) -> list[dict[str, Any]]:
        """Some events of a stream, which breaks off when the server dies."""
        events: list[dict[str, Any]] = []
        try:
            with self.session.get(f"{self.url}/{path}", stream=True, timeout=(5, 2)) as reply:
                for line in reply.iter_lines(chunk_size=1):
                    if line.startswith(b"data: "):
                        events.append(json.loads(line[6:]))
                    if len(events) == 5:
                        break
        except requests.RequestException:
            pass
        return events

    def ask(self, method: str, path: str, status: int, **more: Any) -> Any:
        """The reply, from whichever server is there at last."""
        while True:
            try:
                reply = self.session.request(method, f"{self.url}/{path}", timeout=(5, 60), **more)
                if reply.status_code in BUSY:
                    time.sleep(0.2)
                    continue
                said = reply.json()
            except requests.Timeout as slow:
                self.ledger.add("fault", why=f"{method} {path}: {type(slow).__name__}")
                continue
            except requests.RequestException:
                time.sleep(0.05)
                continue
            if reply.status_code != status:
                self.ledger.add("fault", why=f"{method} {path}: {reply.status_code} {said}")
                time.sleep(1)
                continue
            return said


# What a client sends follows from its number and its turn, so that it sends the same after it was killed


def sent(number: int, turn: int, real: int) -> tuple[bytes, dict[str, Any] | None]:
    """The dataset, and how its job plays; None: it really trains."""
    dice = random.Random(f"{number} {turn}")
    rows = [
        {"messages": [{"role": "user", "content": f"{number} {turn} {row}"}, {"role": "assistant", "content": "Yes."}]}
        for row in range(dice.randint(4, 400))
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if real and (turn * CLIENTS + number) % real == real - 1:
        return "\n".join(content.decode().splitlines()[:8]).encode(), None
    return content, {"steps": dice.randint(1, 30), "pause": dice.choice((0.0, 0.02, 0.1))}


def asked_for(number: int, turn: int, file: str, play: dict[str, Any] | None) -> tuple[str, bytes]:
    """The route and the body of a job."""
    config: dict[str, Any] = {"mark": key_of(number, turn)}
    if play is not None and turn % 2:
        data = {"endpoint_base_url": "http://127.0.0.1:1", "config": {**config, "play": play}, "base_model": "tiny"}
        return "rl/jobs", json.dumps({"job_type": "rl", "data": data}).encode()
    more = {"play": play} if play is not None else {"local": {"threads": 1, "samples": 0}}
    body = {
        "model": "tiny",
        "training_file_id": file,
        "training_type": "sft_offline",
        "hyperparameters": {"n_epochs": 3, "batch_size": 2},
        "metadata": {"config": {**config, **more}},
    }
    return "learning/jobs", json.dumps(body).encode()


def key_of(number: int, turn: int) -> str:
    return f"kill-run-{number}-{turn}"


def seen(event: dict[str, Any]) -> list[Any]:
    text = json.dumps([event["type"], event["message"], event.get("data")], sort_keys=True)
    return [event["seq"], hashlib.sha256(text.encode()).hexdigest()[:16]]


# The run


class Run:
    """Everything that was started, and what is killed of it."""

    def __init__(self, folder: Path, seed: int, real: int) -> None:
        self.folder = folder
        self.real = real
        self.dice = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.home = folder / "home" / "local"
        self.log = (folder / "server.log").open("ab")
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = self._serve()
        self.clients = [self._client(number) for number in range(CLIENTS)]

    def _serve(self) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "SYNTH_AI_HOME": str(self.folder / "home"), "SYNTH_SERVE_TOKEN": TOKEN}
        return subprocess.Popen(
            [sys.executable, __file__, "serve", "--port", str(self.port)],
            env=environ, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip

    def _client(self, number: int) -> subprocess.Popen[bytes]:
        words = [self.url, str(number), str(self.folder), str(self.real)]
        with (self.folder / f"client-{number}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, __file__, "client", *words], stdout=log, stderr=log)

    def worker(self) -> int | None:
        """The process of the worker that lives; it must be one of this file."""
        with suppress(FileNotFoundError, IndexError, ValueError):
            pid = int((self.home / "worker.lock").read_text().split("_")[1])
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            return pid if __file__.encode() in words and str(self.home).encode() in words else None
        return None

    def kill_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self.dice.expovariate(1 / 1.5)))
            victim = self.dice.choice(VICTIMS)
            number = self.dice.randrange(CLIENTS)
            if victim == "server":
                self.server.kill()
                self.server.wait()
                self.server = self._serve()
            elif victim == "client":
                self.clients[number].kill()
                self.clients[number].wait()
                self.clients[number] = self._client(number)
            else:
                pid = self.worker()
                if pid is None:
                    continue
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.kills[victim] += 1

    def end(self) -> None:
        """Let clients end, and jobs."""
        (self.folder / "stop").touch()
        for client in self.clients:
            client.wait(120)

    def close(self) -> None:
        for process in (self.server, *self.clients):
            process.kill()
            process.wait()
        pid = self.worker()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.log.close()


class Verdict:
    """Holds the ledgers against what is there."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ledgers = [Ledger(run.folder / f"client-{number}.ledger") for number in range(CLIENTS)]
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {TOKEN}"

    def rows(self, what: str) -> Iterator[dict[str, Any]]:
        return (row for ledger in self.ledgers for row in ledger.of(what))

    def must(self, true: bool, what: str) -> None:
        if not true:
            self.faults.append(what)

    def get(self, path: str) -> Any:
        reply = self.session.get(f"{self.run.url}/{path}", timeout=60)
        self.must(reply.status_code == 200, f"GET {path}: {reply.status_code} {reply.text[:200]}")
        return reply.json()

    def all_jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = []
        while page := self.get(f"learning/jobs?limit=500{'&after=' + jobs[-1]['id'] if jobs else ''}")["jobs"]:
            jobs += page
        return jobs

    def __call__(self) -> None:
        deadline = time.monotonic() + END
        while not self._answers() or any(job["status"] not in OVER for job in self.all_jobs()):
            if time.monotonic() > deadline:
                self.faults.append(f"jobs have not ended {END:g} s after the last kill")
                break
            time.sleep(0.5)
        self.faults += [row["why"] for row in self.rows("fault")]
        self.files()
        statuses = self.jobs()
        self.events(statuses)
        self.points(statuses)
        self.logs()

    def _answers(self) -> bool:
        try:
            return self.session.get(f"{self.run.url}/health", timeout=5).ok
        except requests.RequestException:
            return False

    def files(self) -> None:
        ids: dict[str, set[str]] = defaultdict(set)
        for number, ledger in enumerate(self.ledgers):
            for row in ledger.of("file"):
                content, _ = sent(number, row["turn"], self.run.real)
                ids[hashlib.sha256(content).hexdigest()].add(row["file"])
        on_disk = Counter(
            hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (self.run.home / "blobs").iterdir()
            if path.suffix != ".new"
        )
        for sha256, some in ids.items():
            self.must(len(some) == 1, f"the same bytes became the files {some}")
            for one in some:
                file = self.get(f"files/{one}")
                self.must(file.get("sha256") == sha256, f"{one} has other bytes than were sent")
            self.must(on_disk[sha256] >= 1, f"the bytes of {some} are not on the disk")
        self.counts["files"] = len(ids)
        self.counts["blobs left over"] = len(list((self.run.home / "blobs").iterdir())) - len(ids)

    def jobs(self) -> dict[str, dict[str, Any]]:
        from synth_train.adapters.local.sqlite_store import SqliteJobStore
        from synth_train.domain.model.jobs import JobId

        listed = self.all_jobs()
        there = {job["id"]: job for job in listed}
        self.must(len(there) == len(listed), "a job is listed twice")
        marks: Counter[str] = Counter()
        with SqliteJobStore(self.run.home / "db.sqlite").transaction() as rows:
            for job_id in there:
                job = rows.job(JobId(job_id))
                marks[re.search(rb'"mark": "([^"]+)"', job.order.body)[1].decode() if job else ""] += 1  # type: ignore[index]
        self.faults += [f"{mark} has {count} jobs" for mark, count in marks.items() if count > 1]
        acknowledged: dict[str, set[str]] = defaultdict(set)
        for row in self.rows("job"):
            acknowledged[row["key"]].add(row["job"])
        for number, ledger in enumerate(self.ledgers):
            files = {row["turn"]: row["file"] for row in ledger.of("file")}
            for turn in {row["turn"] for row in ledger.of("job")}:
                key = key_of(number, turn)
                route, body = asked_for(number, turn, files[turn], sent(number, turn, self.run.real)[1])
                again = self.session.post(f"{self.run.url}/{route}", data=body, headers={"Idempotency-Key": key})
                acknowledged[key].add(again.json().get("id"))
        for key, some in acknowledged.items():
            self.must(len(some) == 1 and some <= there.keys(), f"{key}: {some} were acknowledged")
            self.must(marks[key] == 1, f"{key} has {marks[key]} jobs")
        self.counts["jobs"] = len(acknowledged)
        self.counts.update(f"jobs {job['status']}" for job in listed)
        self.counts["jobs that really trained"] = sum(
            sent(number, row["turn"], self.run.real)[1] is None
            for number, ledger in enumerate(self.ledgers)
            for row in {row["turn"]: row for row in ledger.of("job")}.values()
            if there.get(row["job"], {}).get("status") == "succeeded"
        )
        self.must(len(self.all_jobs()) == len(listed), "asking again has made another job")
        return there

    def events(self, jobs: dict[str, dict[str, Any]]) -> None:
        acknowledged: dict[str, list[list[Any]]] = defaultdict(list)
        for row in self.rows("events"):
            acknowledged[row["job"]] += row["events"]
        for job in jobs:
            told: list[dict[str, Any]] = []
            while page := self.get(f"learning/jobs/{job}/events?since_seq={told[-1]['seq'] if told else 0}&limit=1000")[
                "events"
            ]:
                told += page
            numbers = [event["seq"] for event in told]
            self.must(numbers == list(range(1, len(told) + 1)), f"{job}: its events are numbered {numbers}")
            there = dict(map(seen, told))
            for seq, digest in acknowledged[job]:
                self.must(there.get(seq) == digest, f"{job}: event {seq} is not what was told")
            self.counts["events"] += len(told)
            self.counts["begun again"] += sum("again" in event["message"] for event in told)
        self.counts["events acknowledged"] = sum(len({seq for seq, _ in some}) for some in acknowledged.values())

    def points(self, jobs: dict[str, dict[str, Any]]) -> None:
        acknowledged: dict[str, dict[tuple[int, str], float]] = defaultdict(dict)
        for row in self.rows("points"):
            acknowledged[row["job"]] |= {(step, name): value for step, name, value in row["points"]}
        totals = {
            row["job"]: sent(number, row["turn"], self.run.real)[1]
            for number, ledger in enumerate(self.ledgers)
            for row in ledger.of("job")
        }
        for job, about in jobs.items():
            told: list[dict[str, Any]] = []
            while page := self.get(
                f"learning/jobs/{job}/metrics?after_step={told[-1]['step'] if told else 0}&limit=1000"
            )["points"]:
                told += page
            there = {(row["step"], row["name"]): row["value"] for row in told}
            self.must(len(there) == len(told), f"{job}: a point is there twice")
            play = totals.get(job)
            for at, value in acknowledged[job].items():
                # A real trainer that goes on from a checkpoint may come to another number at the same step.
                same = at in there and (play is None or there[at] == value)
                self.must(same, f"{job}: the point {at} was {value} and is {there.get(at)}")
            if play is not None and about["status"] == "succeeded":
                steps = [step for step, _ in there]
                self.must(steps == list(range(1, play["steps"] + 1)), f"{job}: it has the steps {steps}")
            self.counts["points"] += len(told)
        self.counts["points acknowledged"] = sum(map(len, acknowledged.values()))

    def logs(self) -> None:
        logs = [*self.run.folder.glob("*.log"), *self.run.home.glob("*.log"), *self.run.home.glob("jobs/*/log.txt")]
        for log in logs:
            text = log.read_text(errors="replace")
            self.must("Traceback" not in text, f"{log.name} has a traceback: {text[-400:]}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="of killing (60)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments and the victims")
    parser.add_argument("--real", type=int, default=40, help="each so many jobs, one really trains; 0: none does (40)")
    parser.add_argument("--folder", type=Path, help="where all is left; else in a temporary folder that is removed")
    args = parser.parse_args(arguments)
    seed = random.randrange(10**6) if args.seed is None else args.seed
    print(f"seed {seed}, {args.seconds:g} s, {CLIENTS} clients", flush=True)
    with tempfile.TemporaryDirectory(prefix="kill-run-") as temporary:
        folder = (args.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        run = Run(folder, seed, args.real)
        try:
            run.kill_for(args.seconds)
            run.end()
            verdict = Verdict(run)
            verdict()
        finally:
            run.close()
    for what, count in sorted(run.kills.items()):
        print(f"{what} killed: {count}")
    for what, count in verdict.counts.items():
        print(f"{what}: {count}")
    for fault in verdict.faults[:50]:
        print(f"FAULT {fault}")
    print(f"faults: {len(verdict.faults)}")
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    mode, *rest = sys.argv[1:] or [""]
    if mode == "serve":
        sys.exit(serve(rest))
    if mode == "work":
        sys.exit(work(rest))
    if mode == "client":
        sys.exit(Client(rest[0], int(rest[1]), Path(rest[2]), int(rest[3])).run())
    sys.exit(main(sys.argv[1:]))
