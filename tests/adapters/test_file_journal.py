"""What the journal of files does on a real disk."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from synth_train.adapters.file_journal import FileJournal
from synth_train.domain.model.errors import LocalStateError
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind
from synth_train.domain.model.submission import Stage, Submission

ENTRY = Submission(
    id="0000000000001-aa",
    fingerprint="f" * 64,
    backend="https://backend.example",
    account="a" * 16,
    kind=Kind.RL,
    config="rl.toml",
    key=IdempotencyKey("key-1"),
    key_is_users=False,
)

HOLD_AND_WAIT = """
import sys, time
from pathlib import Path
import msgspec
from synth_train.adapters.file_journal import FileJournal
from synth_train.domain.model.submission import Submission
FileJournal(Path(sys.argv[1])).open(msgspec.json.decode(sys.argv[2], type=Submission))
print("held", flush=True)
time.sleep(60)
"""


def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "submissions"
    FileJournal(directory).open(ENTRY)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    import msgspec

    encoded = msgspec.json.encode(ENTRY).decode()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_WAIT, str(tmp_path), encoded], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert FileJournal(tmp_path).take_up(ENTRY.fingerprint) is None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert FileJournal(tmp_path).take_up(ENTRY.fingerprint) == ENTRY


def test_a_finished_entry_leaves_one_file_and_no_lock(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.open(ENTRY)
    done = replace(ENTRY, stage=Stage.HANDED_OVER)
    journal.advance(done)
    journal.release(done)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_file_that_cannot_be_read_stops_the_submission_it_may_belong_to(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.open(ENTRY)
    journal.release(ENTRY)
    (path,) = tmp_path.glob("*.json")
    path.write_text("{", encoding="utf-8")
    with pytest.raises(LocalStateError, match=path.name):
        FileJournal(tmp_path).take_up(ENTRY.fingerprint)
    assert FileJournal(tmp_path).take_up("0" * 64) is None


def test_a_status_that_cannot_be_noted_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    FileJournal(tmp_path).saw(JobId("job_1"), "running")
    assert (tmp_path / "broken.json").read_text(encoding="utf-8") == "{"


def test_an_entry_that_cannot_be_read_does_not_hide_the_jobs_of_others(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.open(replace(ENTRY, job_id=JobId("job_1")))
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert [entry.job_id for entry in journal.with_jobs()] == ["job_1"]
    assert FileJournal(tmp_path / "broken.json").with_jobs() == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(LocalStateError, match="submissions") as caught:
        FileJournal(tmp_path / "file" / "submissions").open(ENTRY)
    assert "SYNTH_AI_HOME" in caught.value.hint
