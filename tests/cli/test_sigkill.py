"""The real command, killed for good at many moments of a submission, then run again: one job, never two, never none.

The backend is hosting itself behind a socket. A kill comes at a request (before it has an effect, after its effect
but before its reply, or after its reply), at a stage of the journal, or at a line of the transcript.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cases.harness import ENV_KEY, SYNTH_KEY, Ran, Workspace
from cases.scripted_server import RL_GOES_WELL, ScriptedServer
from support.serving import needs_the_server
from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.sealer import ReadableSealer, ReadableUnsealer
from synth_train.adapters.system_clock import SystemClock
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.submission import Stage, Submission
from synth_train.domain.usecases.hosting.vault import ENVIRONMENT_KEY

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")


@dataclass
class Victim:
    """The run that is to be killed, known to the server before it is asked anything by it."""

    process: subprocess.Popen[bytes] | None = None
    started: threading.Event = field(default_factory=threading.Event)
    killed: bool = False

    def kill(self) -> None:
        if self.killed or not self.started.wait(20):
            return
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.killed = True


@dataclass(frozen=True)
class Moment:
    """When to kill: `how` is `before`, `effect` or `reply` (of a request to the backend), `task-app` (a request to it),
    `file` or `stage` (of the journal), or `line` (of the transcript)."""

    how: str
    what: str

    def __str__(self) -> str:
        return f"{self.how} {self.what}"


def at_requests(*routes: str) -> list[Moment]:
    return [Moment(how, route) for route in routes for how in ("before", "effect", "reply")]


STAGES = [stage.value for stage in (Stage.INTENT, Stage.UPLOADED, Stage.CREATING, Stage.CREATED, Stage.HANDED_OVER)]

JOURNAL = [
    Moment("file", ".lock"),
    Moment("file", ".json"),
    *(Moment("stage", stage) for stage in STAGES[:-1]),
]

SFT_MOMENTS = [
    *at_requests("POST /files", "GET /files/", "POST /learning/jobs", "/start"),
    *JOURNAL,
    *(
        Moment("line", start)
        for start in (
            "Backend base", "Dataset OK", "Uploading", "File ready", "POST ", "Payload preview", "Response 201",
        )
    ),
]  # fmt: skip

RL_MOMENTS = [
    *at_requests("GET /health", "POST /rl/verify_task_app", "POST /rl/jobs"),
    Moment("task-app", "GET /health"),
    Moment("task-app", "GET /task_info"),
    *JOURNAL,
    *(
        Moment("line", start)
        for start in (
            "Using env file", "Backend base", "Verification OK", "Task app healthy", "POST ", "Payload preview",
            "Response 201", "Polling",
        )
    ),
]  # fmt: skip


class Killing:
    """An ASGI app that kills the victim at one moment of a request to the app behind it, once."""

    def __init__(self, app: Any, victim: Victim, moment: Moment) -> None:
        self._app, self._victim, self._moment = app, victim, moment

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        fits = self._moment.what in f"{scope['method']} {scope['path']}" and not self._victim.killed

        async def send_after_the_kill(message: Any) -> None:
            if fits and self._moment.how == "effect" and message["type"] == "http.response.start":
                await asyncio.to_thread(self._victim.kill)
            await send(message)

        if fits and self._moment.how == "before":
            await asyncio.to_thread(self._victim.kill)
            await send({"type": "http.response.start", "status": 503, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
        else:
            await self._app(scope, receive, send_after_the_kill)


@dataclass
class World:
    """A backend, a task app, and a place to run the command in."""

    workspace: Workspace
    hosting: InMemoryHosting
    url: str
    task_url: str
    victim: Victim

    @property
    def jobs(self) -> list[str]:
        return [job.id for job in self.hosting.store.all_jobs]

    def command(self, kind: Kind, *more: str) -> tuple[str, ...]:
        task = ("--task-url", self.task_url) if kind is Kind.RL else ()
        return (
            "train", "--config", f"{kind.value}.toml", "--backend", self.url, "--env-file", ".env",
            "--poll-interval", "0.1", *task, *more,
        )  # fmt: skip

    def entries(self) -> list[Submission]:
        folder = self.workspace.home / ".synth-ai" / "submissions"
        return [msgspec.json.decode(path.read_bytes(), type=Submission) for path in sorted(folder.glob("*.json"))]


@contextmanager
def world(root: Path, moment: Moment) -> Iterator[World]:
    workspace = Workspace(root)
    workspace.sft()
    workspace.put("common/rl.toml")
    hosting = InMemoryHosting(clock=SystemClock())
    hosting.executor.delay, hosting.trainer.lasts = 0.0, 0.2
    owner = hosting.hosting.owner(Secret(SYNTH_KEY))
    sealed = ReadableSealer().seal(ReadableUnsealer().public_key(), Secret(ENV_KEY))
    hosting.hosting.vault.store_key(owner, ENVIRONMENT_KEY, sealed)
    victim = Victim()

    def replied(line: str) -> None:
        if moment.how == "reply" and moment.what in line:
            victim.kill()

    needs_the_server()
    from synth_train.adapters.serving.server import ServerThread

    with (
        ServerThread(hosting.hosting, log=replied, around=lambda app: Killing(app, victim, moment)) as server,
        ScriptedServer({route: RL_GOES_WELL[route] for route in ("GET /health", "GET /task_info")}) as app,
    ):
        if moment.how == "task-app":
            threading.Thread(target=kill_at_request, args=(app, moment.what, victim), daemon=True).start()
        yield World(workspace, hosting, server.url, app.origin, victim)


def kill_at_request(app: ScriptedServer, route: str, victim: Victim) -> None:
    app.wait_for(route)
    victim.kill()


def run_to_its_death(world: World, kind: Kind, moment: Moment) -> str:
    """Run until the moment has come; gives the transcript so far."""
    running = world.workspace.start(*world.command(kind))
    world.victim.process = running.process
    world.victim.started.set()
    if moment.how in ("stage", "file"):
        folder = world.workspace.home / ".synth-ai" / "submissions"
        while running.process.poll() is None and not world.victim.killed:
            if moment.how == "file":
                come = any(folder.glob(f"*{moment.what}"))
            else:  # or a later one: a stage may pass between two looks
                come = any(entry.stage.value in STAGES[STAGES.index(moment.what) :] for entry in world.entries())
            if come:
                world.victim.kill()
            time.sleep(0.0005)
    transcript = []
    assert running.process.stdout
    for line in running.process.stdout:
        transcript.append(line.decode())
        if moment.how == "line" and transcript[-1].startswith(moment.what):
            world.victim.kill()
    running.process.communicate()
    return "".join(transcript)


def submit_killed_and_again(root: Path, kind: Kind, moment: Moment) -> None:
    with world(root, moment) as here:
        transcript = run_to_its_death(here, kind, moment)
        assert here.victim.killed, f"the moment never came: {transcript}"
        assert here.victim.process
        assert here.victim.process.returncode == -signal.SIGKILL
        before = here.jobs
        assert len(before) <= 1
        handed_over = [entry.job_id for entry in here.entries() if not entry.open]

        again = here.workspace.run(*here.command(kind))

        assert again.code == 0, again.err
        if handed_over:
            # The first run had done all it was asked to but watch: its job is known, and the second is a new one.
            assert str(handed_over[0]) in transcript
            assert here.jobs[0] == handed_over[0]
            assert len(here.jobs) == 2
        else:
            assert len(here.jobs) == 1
            assert here.jobs[0] in again.out
            assert before in ([], here.jobs)
        assert {job.status.value for job in here.hosting.store.all_jobs} == {"succeeded"}
        assert all(not entry.open for entry in here.entries())


def test_there_are_25_moments_of_each_kind() -> None:
    assert len(SFT_MOMENTS) == len(set(SFT_MOMENTS)) == 25
    assert len(RL_MOMENTS) == len(set(RL_MOMENTS)) == 25


@pytest.mark.parametrize("moment", SFT_MOMENTS, ids=str)
def test_an_sft_submission_killed_and_run_again_is_one_job(tmp_path: Path, moment: Moment) -> None:
    submit_killed_and_again(tmp_path, Kind.SFT, moment)


@pytest.mark.parametrize("moment", RL_MOMENTS, ids=str)
def test_an_rl_submission_killed_and_run_again_is_one_job(tmp_path: Path, moment: Moment) -> None:
    submit_killed_and_again(tmp_path, Kind.RL, moment)


@pytest.mark.parametrize("kind", list(Kind))
def test_one_idempotency_key_run_three_times_is_one_job(tmp_path: Path, kind: Kind) -> None:
    with world(tmp_path, Moment("never", "")) as here:
        runs: list[Ran] = [here.workspace.run(*here.command(kind, "--idempotency", "K-1")) for _ in range(3)]

        assert [run.code for run in runs] == [0, 0, 0], [run.err for run in runs]
        (job,) = here.jobs
        assert all(job in run.out for run in runs)


@pytest.mark.parametrize("kind", list(Kind))
def test_two_runs_at_once_are_two_submissions_and_neither_takes_over_the_other(tmp_path: Path, kind: Kind) -> None:
    with world(tmp_path, Moment("never", "")) as here:
        both = [here.workspace.start(*here.command(kind)) for _ in range(2)]
        ran = [one.end() for one in both]

        assert [one.code for one in ran] == [0, 0], [one.err for one in ran]
        assert len(here.jobs) == 2
