"""Workers as processes of their own, one at a time, which outlive whoever starts them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from synth_train.adapters.file_lock import try_lock
from synth_train.adapters.local.home import MODELS, LocalHome, keeping
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.user_paths import expanded
from synth_train.domain.model.hosting import Refusal, WorkerId
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.ports.hosting import Executor

WORKER = (sys.executable, "-m", "synth_train.adapters.local.worker")

DYING = 2.0
"""Seconds to wait for a process that was killed to let go of its lock."""

LONGEST_LOG = 1 << 20
"""Bytes of `worker.log` after which it begins anew."""


class SubprocessExecutor(Executor):
    """Executor that starts a worker when there is work and none lives.

    Whether one lives, its lock tells. The lock is taken here and handed over to the worker as an open file, so that
    there is no moment at which two could be started.

    Args:
        queue: as a worker of this process would see it.
        key_ring: what the worker inherits.
        program: what to run; tests give another that trains otherwise.
        obstacle: why no worker could train here; jobs wait then, and say so. Empty when one could.
    """

    def __init__(
        self,
        home: LocalHome,
        queue: Queue,
        key_ring: KeyRing,
        *,
        program: Sequence[str] = WORKER,
        obstacle: str = "",
    ) -> None:
        self._home = home
        self._queue = queue
        self._key_ring = key_ring
        self._program = program
        self._obstacle = obstacle

    def wake(self) -> None:
        # What made the work is done, and must not seem to have failed because no worker could be started: the jobs that
        # wait tell of it, and the next look tries again.
        try:
            if self._queue.has_work:
                self._start_if_none_lives()
        except Refusal as no:
            with contextlib.suppress(Refusal):
                self._queue.hold_up(no.message)

    def _start_if_none_lives(self) -> None:
        with keeping(self._home.lock):
            lock = try_lock(self._home.lock)
        if lock is None:
            return
        try:
            if self._obstacle:
                raise Refusal(500, "no_worker", self._obstacle)
            self._start(lock)
        finally:
            os.close(lock)

    def kill(self, worker: WorkerId) -> None:
        process = self._process_of(worker)
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            # A worker leads its own session, so its group is all that it has started.
            os.killpg(process, signal.SIGKILL)
        # Those who find the lock held leave the queue to its holder: it must be free before anybody is woken.
        deadline = time.monotonic() + DYING
        while self._process_of(worker) is not None and time.monotonic() < deadline:
            time.sleep(0.02)

    def _process_of(self, worker: WorkerId) -> int | None:
        """The process of a worker that lives; None when it has ended, whoever has its number now."""
        try:
            holder = self._home.lock.read_text(encoding="utf-8")
            lock = try_lock(self._home.lock)
        except FileNotFoundError:
            return None
        if lock is not None:
            os.close(lock)
            return None
        return int(worker.split("_")[1]) if holder == worker else None

    def _start(self, lock: int) -> None:
        with keeping(self._home.log):
            if self._home.log.exists() and self._home.log.stat().st_size > LONGEST_LOG:
                self._home.log.unlink()
            log = os.open(self._home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(
                [*self._program, str(self._home.path.absolute()), "--lock", str(lock)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A folder of our own: what lies in the user's is not to be imported.
                cwd=self._home.path,
                env=inherited(self._key_ring.handed_down()),
                pass_fds=[lock],
                start_new_session=True,
            )
        except OSError as error:
            raise Refusal(
                500, "no_worker", f"cannot start a worker ({self._program[0]}): {error.strerror or error}"
            ) from error
        finally:
            os.close(log)
        # Somebody must wait for it, lest it stay a zombie as long as this process lives.
        threading.Thread(target=process.wait, name="worker", daemon=True).start()


def inherited(environ: dict[str, str]) -> dict[str, str]:
    """An environment for a process of this package that runs in another folder: paths in it mean the same, and the
    package is this very one."""
    paths = [str(Path(path).absolute()) for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    root = Path(__file__).parents[3]
    if root.name not in ("site-packages", "dist-packages"):
        paths = [str(root), *(path for path in paths if path != str(root))]
    if paths:
        environ = environ | {"PYTHONPATH": os.pathsep.join(paths)}
    models = environ.get(MODELS)
    if models:
        environ = environ | {MODELS: str(expanded(models).absolute())}
    return environ | {"PYTHONUNBUFFERED": "1"}
