"""The worker: a process of its own that trains one job after the other, and ends when there is none.

    python -m synth_train.adapters.local.worker HOME [--lock DESCRIPTOR]

It lives in a session of its own and outlives whoever started it. Its lock tells that it lives: it is handed over by
the one who starts it, and the system lets go of it when the process ends, however it ends. So whoever holds the lock
is the only worker, and a job that another worker has is a dead worker's. torch and its family are imported when the
first job begins.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import msgspec

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.file_lock import try_lock
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import LocalHome, no_space
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.metrics_log import MetricsLog
from synth_train.adapters.local.sqlite_store import SqliteJobStore
from synth_train.adapters.local.stored_keys import StoredKeys
from synth_train.adapters.local.trainers import CANCEL_GRACE, Bench, TrainerByKind
from synth_train.adapters.system_clock import SystemClock
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.hosting import (
    Happening,
    Job,
    JobStatus,
    Refusal,
    Task,
    TrainingFailed,
    WorkerId,
)
from synth_train.domain.model.secret import redact
from synth_train.domain.usecases.hosting.work import Activity, Queue, Worker
from synth_train.ports.hosting import Trainer

BEAT = 2.0
"""Seconds between two signs of life."""

TRIES = 30
"""How often in a row the database may refuse (a full disk, say) before the worker ends, with a second in between. The
next one goes on from the last checkpoint."""


def main(
    argv: Sequence[str] | None = None, *, trainer: Callable[[Bench], Trainer] = TrainerByKind, beat: float = BEAT
) -> int:
    """Work until the queue is empty. Does nothing when there is a worker already.

    Args:
        argv: the words after the program's name.
        trainer: makes the trainer of all jobs. Tests begin with a program of their own that calls this with another.
        beat: seconds between two signs of life.
    """
    parser = argparse.ArgumentParser(prog="synth_train.adapters.local.worker", allow_abbrev=False)
    parser.add_argument("home", type=Path)
    parser.add_argument("--lock", type=int, metavar="DESCRIPTOR")
    args = parser.parse_args(argv)
    os.umask(0o077)  # models and logs are for their owner only, whichever library writes them
    home = LocalHome(args.home)
    lock = _Lock(home.lock, args.lock)
    if not lock.held:
        return 0
    clock, log = SystemClock(), MetricsLog(home)
    store = SqliteJobStore(home.database, durable=False, told=log.add)
    key_ring = KeyRing(os.environ, DotenvEnv().read, stored=StoredKeys(home, store).of)
    # Whoever holds the lock is alone, so every job that somebody has is a dead worker's.
    queue = Queue(store=store, clock=clock, dead=lambda _: True, hindrance=key_ring.hindrance)
    bench = Bench(home, DiskBlobStore(home.blobs, SystemEntropy()), key_ring)
    worker = Worker(
        id=WorkerId(f"worker_{os.getpid()}_{SystemEntropy().token(6)}"),
        queue=queue,
        trainer=_InItsFolder(trainer(bench), bench),
    )
    while True:
        lock.sign(worker.id)
        with _Heart(worker, lock, beat):
            if not _drained(worker, clock):
                return 1
        # Somebody who finds the lock held leaves the job to us; so we look once more after letting go of it.
        lock.release()
        if not queue.has_work or not lock.take():
            return 0


def _drained(worker: Worker, clock: SystemClock) -> bool:
    """Work until there is nothing to do. False when the database refuses again and again."""
    refused = 0
    while refused < TRIES:
        try:
            if worker.step() is Activity.IDLE:
                return True
            refused = 0
        except Refusal as no:
            refused += 1
            _say(f"refused ({refused} of {TRIES}): {no.message}")
            clock.sleep(1.0)
    return False


class _Lock:
    """The worker's lock, with the id of the one who holds it in the file."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = try_lock(path) if descriptor is None else descriptor
        if descriptor is not None:
            os.set_inheritable(descriptor, False)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    @property
    def lost(self) -> bool:
        """Whether the file is another one by now, or gone: somebody has removed the folder under us."""
        assert self._descriptor is not None
        try:
            return not os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            return True

    def sign(self, worker: WorkerId) -> None:
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, worker.encode(), 0)

    def release(self) -> None:
        assert self._descriptor is not None
        os.close(self._descriptor)
        self._descriptor = None

    def take(self) -> bool:
        self._descriptor = try_lock(self._path)
        return self.held


class _Heart:
    """Beats from a thread while entered, so that a long step is not taken for death, and ends the process when a job
    that is to stop does not."""

    def __init__(self, worker: Worker, lock: _Lock, beat: float) -> None:
        self._worker = worker
        self._lock = lock
        self._beat = beat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        to_stop = 0.0
        while not self._over.wait(self._beat):
            if self._lock.lost:
                _say("the folder of this backend is gone; this worker ends")
                _end_all()
            try:
                status = self._worker.beat()
            except Refusal:
                continue  # `_drained` says it
            to_stop = to_stop + self._beat if status is JobStatus.CANCELLING else 0.0
            if to_stop >= CANCEL_GRACE:
                with contextlib.suppress(Refusal):
                    self._worker.give_up()
                _end_all()


def _say(text: str) -> None:
    """Write to the log in use."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _end_all() -> None:
    """End this process and all that it has started."""
    if os.name == "posix" and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


class _InItsFolder(Trainer):
    """Trains in the job's folder: makes it, and sends there what is written to stdout and stderr meanwhile."""

    def __init__(self, inner: Trainer, bench: Bench) -> None:
        self._inner = inner
        self._bench = bench

    def train(self, task: Task) -> Generator[Happening, None, None]:
        folder = self._bench.folder(task.job)
        try:
            folder.make()
            if not folder.config.exists():
                folder.config.write_bytes(msgspec.json.format(task.job.order.body, indent=2))
            with _written_to(folder.log):
                yield from self._inner.train(task)
        except TrainingFailed:
            raise
        except Exception as error:
            self._explain(error, task.job, folder.log)
            if isinstance(error, OSError) and no_space(error):
                raise TrainingFailed(f"there is no space left on the disk of {folder.path}") from error
            raise

    def _explain(self, error: Exception, job: Job, log: Path) -> None:
        """Write the whole traceback to the log. The job itself only says what kind of error it was."""
        keys = self._bench.key_ring.of(job)
        secrets = (*self._bench.key_ring.secrets(), *(keys.all if keys else ()))
        with contextlib.suppress(OSError), _written_to(log):
            _say(redact("".join(traceback.format_exception(error)), secrets))


@contextlib.contextmanager
def _written_to(log: Path) -> Iterator[None]:
    """Send stdout and stderr of this process, and of those it starts meanwhile, to the end of a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    streams = (sys.stdout, sys.stderr)
    before = [os.dup(stream.fileno()) for stream in streams]
    try:
        for stream in streams:
            stream.flush()
            os.dup2(descriptor, stream.fileno())
        yield
    finally:
        for stream, old in zip(streams, before, strict=True):
            stream.flush()
            os.dup2(old, stream.fileno())
            os.close(old)
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
