"""The embedded backend with real processes, and a trainer that does as the job says."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from support import fake_worker
from support.backends import TASK_URL
from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.backend import LocalBackend, LocalBackends, workshop_in
from synth_train.adapters.local.home import JobFolder, LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.domain.model.jobs import IdempotencyKey, JobId, JobState, Kind

PROGRAM = (sys.executable, fake_worker.__file__)

PATIENCE = 30.0
"""Seconds after which a test stops waiting; nothing takes that long unless it is broken."""


def environment(**more: str) -> dict[str, str]:
    """What a worker needs to find its Python and to be counted, and no key."""
    return {name: value for name, value in os.environ.items() if name.startswith(("PATH", "COVERAGE_"))} | more


class Local:
    """The embedded backend in a folder. `stop` ends the worker that may be left."""

    def __init__(self, folder: Path) -> None:
        self.home = LocalHome(folder)
        self.backend = self.anew()
        self._asked = 0

    def anew(self, environ: Mapping[str, str] | None = None) -> LocalBackend:
        """The backend as another process would see it."""
        environ = environment() if environ is None else environ
        key_ring = KeyRing(environ, DotenvEnv(environ).read)
        return LocalBackend(workshop_in(self.home, key_ring, program=PROGRAM), key_ring)

    def backends(self) -> LocalBackends:
        """The way to it."""
        return LocalBackends(self.home.path, environment(), program=PROGRAM, needed=())

    def ask(self, backend: LocalBackend | None = None, **play: object) -> JobId:
        """A job that plays so."""
        self._asked += 1
        return (backend or self.backend).create(Kind.RL, rl_play(**play), IdempotencyKey(f"K-{self._asked}")).job_id

    def see(self, job_id: JobId) -> JobState:
        """The job as it is, which also wakes whoever should be at work."""
        return self.backend.job(Kind.RL, job_id)

    def folder(self, job_id: JobId) -> JobFolder:
        return self.home.job(job_id)

    def ended(self, job_id: JobId) -> JobState:
        """The job when it has ended, looked at all the time."""
        until(lambda: self.see(job_id).phase.over)
        return self.see(job_id)

    def begun(self, job_id: JobId, times: int = 1) -> list[int]:
        """The processes that have begun the job, when there are that many."""
        pids = self.folder(job_id).path / "pids"
        until(lambda: pids.exists() and len(pids.read_text().splitlines()) >= times, also=lambda: self.see(job_id))
        return [int(line) for line in pids.read_text().splitlines()]

    def stepped(self, job_id: JobId, step: int) -> None:
        """Return when the job has done a step."""
        until(lambda: any(point.step >= step for point in self.backend.points(Kind.RL, job_id)))

    def worker(self) -> int | None:
        """The process that works, if another than this one does."""
        with suppress(FileNotFoundError, IndexError):
            pid = int(self.home.lock.read_text().split("_")[1])
            return pid if pid != os.getpid() and alive(pid) else None
        return None

    def stop(self) -> None:
        """End the worker, and wait until it is gone: its folder is about to be removed."""
        pid = self.worker()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            until(lambda: not alive(pid))


def rl_play(**play: object) -> bytes:
    """The body of an RL job that plays so."""
    data = {"endpoint_base_url": TASK_URL, "config": {"play": play}, "base_model": "tiny"}
    return msgspec.json.encode({"job_type": "rl", "data": data})


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        # Between the two looks it may go, and then its file cannot even be read.
        return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(true: Callable[[], bool], *, also: Callable[[], object] = lambda: None, within: float = PATIENCE) -> None:
    """Return as soon as something is so; other processes bring it about."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        also()
        time.sleep(0.02)
