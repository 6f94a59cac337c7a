"""Workers as real processes: what becomes of jobs when they, or those who started them, are killed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from support.fake_worker import ObedientTrainer
from support.local import Local, alive, environment, until
from synth_train.adapters.file_lock import try_lock
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.local import worker
from synth_train.domain.model.errors import BackendRefused
from synth_train.domain.model.hosting import JobFilter, WorkerId
from synth_train.domain.model.jobs import JobId, Kind, Phase
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import ENVIRONMENT_KEY
from synth_train.domain.model.task_app import TaskAppKeys

KEY = Secret("q7vzhk3x9pwmtj5dbnrswxyz")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    local = Local(tmp_path / "local")
    yield local
    local.stop()


def messages(local: Local, job_id: JobId) -> list[str]:
    return [event.message for event in local.backend.events(Kind.RL, job_id)]


# All is well


def test_a_job_is_trained_in_a_process_of_its_own_session_and_leaves_its_folder(local: Local) -> None:
    job_id = local.ask(steps=2, say="what a library prints")
    assert local.ended(job_id).phase is Phase.SUCCEEDED
    [pid] = local.begun(job_id)
    assert pid != os.getpid()
    folder = local.folder(job_id)
    assert msgspec.json.decode(folder.config.read_bytes())["data"]["base_model"] == "tiny"
    assert folder.log.read_text() == "what a library prints\n"
    lines = [msgspec.json.decode(line) for line in folder.metrics.read_bytes().splitlines()]
    assert [line["value"] for line in lines if line.get("name") == "train.loss"] == [1.0, 0.5]
    assert [line["type"] for line in lines if "type" in line][-1] == "rl.job.completed"


def test_what_a_job_has_made_can_be_fetched(local: Local) -> None:
    job_id = local.ask()
    local.ended(job_id)
    [file] = local.backend.results(Kind.RL, job_id)
    assert (file.name, file.size) == ("config.json", 2)
    stream = local.backend.open_result(Kind.RL, job_id, "config.json")
    assert stream.read() == b"{}"
    stream.close()


def test_everything_is_for_its_owners_eyes_only(local: Local) -> None:
    before = os.umask(0o022)
    try:
        local.ended(local.ask())
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [local.home.path, *local.home.path.rglob("*")]}
    assert {path: mode for path, mode in modes.items() if mode & 0o077} == {}


def test_a_worker_drains_the_queue_and_ends(local: Local) -> None:
    jobs = [local.ask() for _ in range(3)]
    pid = local.begun(jobs[0])[0]
    until(lambda: not alive(pid))
    assert [local.see(job_id).phase for job_id in jobs] == [Phase.SUCCEEDED] * 3
    assert {pid for job_id in jobs for pid in local.begun(job_id)} == {pid}


def test_one_worker_lives_at_a_time_however_many_submit(local: Local) -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: local.ask(local.anew(), pause=0.05), range(16)))
    pids: list[int] = []
    for job_id in jobs:
        assert local.ended(job_id).phase is Phase.SUCCEEDED
        pids += local.begun(job_id)
    assert len(pids) == len(jobs)
    until(lambda: local.worker() is None)


def test_the_worker_outlives_the_command_that_started_it(local: Local, tmp_path: Path) -> None:
    ask = (
        "import sys; from pathlib import Path; from support.local import Local;"
        f"local = Local(Path({str(local.home.path)!r})); print(local.ask(steps=3, pause=0.2), flush=True);"
        "sys.stdin.read()"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", ask],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=os.pathsep.join(sys.path)),
        start_new_session=True,
    )
    assert command.stdin is not None
    assert command.stdout is not None
    job_id = JobId(command.stdout.readline().strip())
    local.begun(job_id)
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()
    assert local.ended(job_id).phase is Phase.SUCCEEDED
    assert len(local.begun(job_id)) == 1


def test_a_worker_that_is_started_beside_another_ends_at_once(local: Local) -> None:
    local.home.make()
    lock = try_lock(local.home.lock)
    assert lock is not None
    try:
        assert worker.main([str(local.home.path)]) == 0
    finally:
        os.close(lock)
    assert not local.home.database.exists()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let `worker.main` be called here, on a clock that does not wait."""
    monkeypatch.setattr(worker, "SystemClock", ManualClock)
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("in_this_process")
def test_a_job_that_comes_while_the_last_worker_is_about_to_end_is_not_left_behind(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: list[JobId] = []
    release = worker._Lock.release

    def somebody_submits_first(lock: worker._Lock) -> None:
        if not came:
            came.append(local.ask())  # finds the lock held, and leaves the job to its holder
        release(lock)

    monkeypatch.setattr(worker._Lock, "release", somebody_submits_first)
    local.home.make()
    assert worker.main([str(local.home.path)], trainer=ObedientTrainer) == 0
    assert local.begun(came[0]) == [os.getpid()]
    assert local.see(came[0]).phase is Phase.SUCCEEDED


@pytest.mark.usefixtures("in_this_process")
def test_a_worker_whose_database_refuses_ends_after_some_tries(local: Local, capfd: pytest.CaptureFixture[str]) -> None:
    local.home.make()
    local.home.database.write_text("no database, but long enough to have a header" * 10)
    assert worker.main([str(local.home.path)]) == 1
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == worker.TRIES
    assert lines[0].startswith(f"refused (1 of {worker.TRIES}): the database {local.home.database} cannot be used")


# What goes wrong in training


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("failed", "the loss is not a number"),
        ("bug", "the trainer broke (KeyError)"),
        ("space", "there is no space left on the disk of"),
    ],
)
def test_a_job_that_fails_says_why_and_the_next_one_has_its_turn(local: Local, error: str, reason: str) -> None:
    failing, after = local.ask(error=error), local.ask()
    state = local.ended(failing)
    assert state.phase is Phase.FAILED
    assert state.reason.startswith(reason)
    assert local.ended(after).phase is Phase.SUCCEEDED


def test_the_log_has_the_traceback_of_a_bug_without_the_keys(local: Local) -> None:
    backend = local.anew(environment(ENVIRONMENT_API_KEY=KEY.reveal()))
    backend.lend_environment_key(TaskAppKeys(KEY), name=ENVIRONMENT_KEY, file=None)
    job_id = local.ask(backend, error="bug")
    local.ended(job_id)
    log = local.folder(job_id).log.read_text()
    assert "Traceback" in log
    assert KEY.mask in log
    assert KEY.reveal() not in log


# Killed


def test_a_job_whose_worker_was_killed_goes_on_from_its_checkpoint_at_the_next_look(local: Local) -> None:
    job_id = local.ask(steps=6, pause=0.2)
    local.stepped(job_id, 2)
    [pid] = local.begun(job_id)
    os.killpg(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    assert len(local.begun(job_id, times=2)) == 2
    assert time.monotonic() - killed_at < 10
    assert local.ended(job_id).phase is Phase.SUCCEEDED
    assert "Training begins again, after its worker died (2 of 4)." in messages(local, job_id)
    assert [point.step for point in local.backend.points(Kind.RL, job_id)] == [1, 2, 3, 4, 5, 6]


def test_a_job_that_kills_its_workers_fails_after_three_more_tries(local: Local) -> None:
    job_id = local.ask(die_at=1)
    state = local.ended(job_id)
    assert (state.phase, state.reason) == (Phase.FAILED, "its worker died 4 times")
    assert len(local.begun(job_id)) == 4


def test_after_everything_was_killed_the_next_command_takes_all_jobs_up(local: Local) -> None:
    jobs = [local.ask(steps=3, pause=0.2) for _ in range(3)]
    local.stepped(jobs[0], 1)
    os.killpg(local.begun(jobs[0])[0], signal.SIGKILL)
    after = local.anew()
    assert [row.phase for row in after.list_jobs(JobFilter())] == [Phase.LIVE] * 3
    assert [local.ended(job_id).phase for job_id in jobs] == [Phase.SUCCEEDED] * 3
    assert [len(local.begun(job_id)) for job_id in jobs] == [2, 1, 1]


def test_half_a_checkpoint_does_not_count(local: Local) -> None:
    job_id = local.ask(steps=4, pause=0.2)
    local.stepped(job_id, 2)
    os.killpg(local.begun(job_id)[0], signal.SIGKILL)
    half = local.folder(job_id).checkpoints / "4.new"
    half.mkdir()
    (half / "state").write_text("4")
    assert local.ended(job_id).phase is Phase.SUCCEEDED
    assert [point.step for point in local.backend.points(Kind.RL, job_id)] == [1, 2, 3, 4]


# Cancelled


def test_a_cancelled_job_stops_soon_and_its_model_is_not_made(local: Local) -> None:
    job_id = local.ask(steps=1000, pause=0.1)
    local.stepped(job_id, 1)
    local.backend.cancel(Kind.RL, job_id)
    asked_at = time.monotonic()
    state = local.ended(job_id)
    assert (state.phase, state.reason) == (Phase.CANCELLED, "cancelled while it ran")
    assert time.monotonic() - asked_at < 10
    assert not local.folder(job_id).model.exists()


def test_a_worker_that_does_not_hear_ends_itself_with_all_it_has_started(local: Local) -> None:
    job_id, after = local.ask(deaf_at=2, steps=3, child=True), local.ask()
    local.stepped(job_id, 1)
    [pid] = local.begun(job_id)
    child = int((local.folder(job_id).path / "child").read_text())
    local.backend.cancel(Kind.RL, job_id)
    asked_at = time.monotonic()
    until(lambda: not alive(pid))
    assert time.monotonic() - asked_at < 10
    until(lambda: not alive(child), within=1)
    state = local.see(job_id)
    assert (state.phase, state.reason) == (
        Phase.CANCELLED,
        "cancelled while it ran; the step under way was cut off",
    )
    assert local.ended(after).phase is Phase.SUCCEEDED


def test_a_worker_that_is_stuck_altogether_is_killed_from_outside(local: Local) -> None:
    job_id, after = local.ask(steps=1000, pause=0.1), local.ask()
    local.stepped(job_id, 1)
    [pid] = local.begun(job_id)
    os.kill(pid, signal.SIGSTOP)
    local.backend.cancel(Kind.RL, job_id)
    asked_at = time.monotonic()
    state = local.ended(job_id)
    assert (state.phase, state.reason) == (Phase.CANCELLED, "killed: it did not stop when asked")
    assert time.monotonic() - asked_at < 10
    assert not alive(pid)
    assert local.ended(after).phase is Phase.SUCCEEDED


def test_nobody_is_killed_for_a_worker_that_has_ended(local: Local) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        local.ended(local.ask())
        until(lambda: local.worker() is None)
        executor = local.backend._workshop.jobs.executor
        local.home.lock.write_text(f"worker_{bystander.pid}_00")
        executor.kill(WorkerId(f"worker_{bystander.pid}_00"))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


# Removed by hand


def test_a_folder_that_was_removed_before_the_job_went_on_means_a_new_beginning(local: Local) -> None:
    job_id = local.ask(steps=4, pause=0.2)
    local.stepped(job_id, 2)
    os.killpg(local.begun(job_id)[0], signal.SIGKILL)
    shutil.rmtree(local.folder(job_id).path)
    assert local.ended(job_id).phase is Phase.SUCCEEDED
    assert len(local.begun(job_id)) == 1


def test_a_model_that_was_removed_is_said_to_be_gone(local: Local) -> None:
    job_id = local.ask()
    local.ended(job_id)
    shutil.rmtree(local.folder(job_id).path)
    with pytest.raises(BackendRefused, match="not there any more"):
        local.backend.results(Kind.RL, job_id)


def test_a_worker_whose_folder_was_removed_ends(local: Local) -> None:
    job_id = local.ask(steps=1000, pause=0.1)
    local.stepped(job_id, 1)
    [pid] = local.begun(job_id)
    # The worker may write while its folder is being removed, so removing it may take more than one try.
    until(lambda: not alive(pid), also=lambda: shutil.rmtree(local.home.path, ignore_errors=True))


# The environment key


def asked_with_key(local: Local, file: Path | None = None, **play: object) -> JobId:
    backend = local.anew()
    backend.lend_environment_key(TaskAppKeys(KEY), name=ENVIRONMENT_KEY, file=file)
    return local.ask(backend, tell_key=True, **play)


def test_the_environment_key_reaches_the_worker_and_stays_out_of_everything_that_is_kept(local: Local) -> None:
    job_id = asked_with_key(local)
    local.ended(job_id)
    assert "wxyz" in messages(local, job_id)
    command_lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    kept = b"".join(path.read_bytes() for path in local.home.path.rglob("*") if path.is_file())
    windows = [KEY.reveal()[at : at + 8].encode() for at in range(len(KEY.reveal()) - 7)]
    assert not [window for window in windows if window in kept or window in b"".join(command_lines)]


def test_the_api_key_does_not_reach_the_worker(local: Local) -> None:
    environ = environment(SYNTH_API_KEY="fake-synth-key-0000", ENVIRONMENT_API_KEY="k")
    job_id = local.ask(local.anew(environ), steps=50, pause=0.1)
    [pid] = local.begun(job_id)
    inherited = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"ENVIRONMENT_API_KEY=k" in inherited
    assert b"SYNTH_API_KEY" not in inherited


def test_a_job_whose_key_is_gone_waits_says_so_and_lets_others_pass(local: Local, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    before = local.ask(steps=1, pause=1)
    local.begun(before)
    job_id = asked_with_key(local, file)
    # The worker that runs was started without this key, as one of another day would be.
    until(lambda: local.worker() is None, also=lambda: local.see(before))
    waiting = local.backend.events(Kind.RL, job_id)[-1]
    assert (waiting.type, waiting.level) == ("rl.waiting", "warning")
    assert waiting.message == (
        f"Waits: its key is not in {file} any more; put ENVIRONMENT_API_KEY back there, or cancel the job."
    )
    after = local.ask()
    assert local.ended(after).phase is Phase.SUCCEEDED
    assert local.see(job_id).word == "queued"
    assert len(local.backend.events(Kind.RL, job_id)) == 2

    file.write_text(f"ENVIRONMENT_API_KEY={KEY.reveal()}\n")
    assert local.ended(job_id).phase is Phase.SUCCEEDED
    assert "wxyz" in messages(local, job_id)


def test_a_typed_key_that_died_with_its_worker_is_asked_for(local: Local) -> None:
    job_id = asked_with_key(local, steps=100, pause=0.1)
    local.stepped(job_id, 1)
    os.killpg(local.begun(job_id)[0], signal.SIGKILL)
    until(lambda: local.see(job_id).word == "queued")
    assert f"synth-ai jobs watch {job_id} --backend local" in messages(local, job_id)[-1]
    holder = local.anew(environment(ENVIRONMENT_API_KEY=KEY.reveal()))
    until(lambda: holder.job(Kind.RL, job_id).word == "running")
    holder.cancel(Kind.RL, job_id)
    local.ended(job_id)
