"""Jobs and how they change, names of files, owners."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from synth_train.domain.model.hosting import (
    Job,
    JobStatus,
    Order,
    Owner,
    Refusal,
    WorkerId,
    clean_filename,
    fine_tuned_id,
    owner_of,
)
from synth_train.domain.model.jobs import FileId, JobId, Kind, phase_of
from synth_train.domain.model.secret import Secret

WORKER = WorkerId("w")
ORDER = Order(kind=Kind.RL, model="Qwen/Qwen3-4B", training_type="rl_online")
QUEUED = Job(id=JobId("job_1"), owner=Owner("we"), order=ORDER, created_at=1.0, updated_at=1.0)
RUNNING = QUEUED.asked_to_start(2.0).claimed(WORKER, 3.0)
CANCELLING = RUNNING.asked_to_cancel(4.0)


def test_an_owner_is_told_by_the_key_and_does_not_tell_it() -> None:
    key = Secret("fake-synth-key-0001-abcdefgh")
    assert owner_of(key) == owner_of(Secret(key.reveal())) != owner_of(Secret("another"))
    assert key.reveal() not in owner_of(key)


def test_a_refusal_says_the_same_to_people_and_to_programs() -> None:
    refusal = Refusal(404, "unknown_job", "there is no job job_1")
    assert str(refusal) == refusal.body["detail"] == "there is no job job_1"
    assert refusal.body["error"] == {"code": "unknown_job", "message": "there is no job job_1"}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("train.jsonl", "train.jsonl"),
        ("../../escape.jsonl", "escape.jsonl"),
        ("/etc/passwd", "passwd"),
        ("C:\\data\\train.jsonl", "train.jsonl"),
        ("a\r\nX-Evil: 1\0.jsonl", "aX-Evil: 1.jsonl"),
        ("  train.jsonl ", "train.jsonl"),
        ("", "file"),
        (".", "file"),
        ("..", "file"),
        ("a/", "file"),
        ("\0", "file"),
        ("x" * 5000, "x" * 255),
        ("ünïcode.jsonl", "ünïcode.jsonl"),
    ],
)
def test_a_file_name_is_only_a_name(name: str, kept: str) -> None:
    assert clean_filename(name) == kept


def test_every_status_is_a_word_that_clients_understand() -> None:
    assert all(phase_of(status.value).over is status.over for status in JobStatus)
    assert [status for status in JobStatus if status.held] == [JobStatus.RUNNING, JobStatus.CANCELLING]


def test_a_claim_makes_it_the_workers_and_a_second_one_another_workers() -> None:
    assert (RUNNING.status, RUNNING.worker, RUNNING.claims, RUNNING.began_at, RUNNING.beat_at) == (
        JobStatus.RUNNING,
        WORKER,
        1,
        3.0,
        3.0,
    )
    again = RUNNING.claimed(WorkerId("other"), 9.0)
    assert (again.worker, again.claims, again.began_at, again.beat_at) == ("other", 2, 3.0, 9.0)


def test_a_sign_of_life_is_noted() -> None:
    assert RUNNING.heard_of(8.0) == replace(RUNNING, beat_at=8.0)


def test_cancelling_ends_what_waits_and_asks_what_runs() -> None:
    waiting = QUEUED.asked_to_cancel(5.0)
    assert (waiting.status, waiting.ended_at) == (JobStatus.CANCELLED, 5.0)
    assert (CANCELLING.status, CANCELLING.cancel_asked_at, CANCELLING.ended_at) == (JobStatus.CANCELLING, 4.0, None)


@pytest.mark.parametrize("status", [JobStatus.CANCELLED, JobStatus.SUCCEEDED, JobStatus.FAILED])
def test_a_job_that_is_asked_to_stop_may_end_in_any_way(status: JobStatus) -> None:
    assert CANCELLING.ended(status, 5.0).status is status


@pytest.mark.parametrize("status", [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED])
def test_a_job_that_is_over_does_not_change_any_more(status: JobStatus) -> None:
    over = CANCELLING.ended(status, 5.0)
    with pytest.raises(ValueError, match=f"a {status.value} job cannot become running"):
        over.claimed(WORKER, 6.0)
    with pytest.raises(ValueError):
        over.asked_to_cancel(6.0)
    with pytest.raises(ValueError):
        over.ended(status, 6.0)


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (QUEUED, JobStatus.SUCCEEDED),
        (QUEUED, JobStatus.FAILED),
        (RUNNING, JobStatus.CANCELLED),
        (CANCELLING, JobStatus.RUNNING),
    ],
)
def test_no_step_is_left_out(job: Job, status: JobStatus) -> None:
    with pytest.raises(ValueError, match="cannot become"):
        job.ended(status, 5.0)


@pytest.mark.parametrize(
    ("kind", "model", "named"),
    [
        (Kind.SFT, "Qwen/Qwen3-4B", "ft:Qwen/Qwen3-4B:job_1"),
        (Kind.RL, "Qwen/Qwen3-4B", "rl:Qwen/Qwen3-4B:job_1"),
        (Kind.RL, "ft:Qwen/Qwen3-4B:job_0", "rl:Qwen/Qwen3-4B:job_1"),
        (Kind.SFT, "tiny", "ft:tiny:job_1"),
        (Kind.SFT, "C:\\models\\mine", "ft:C:\\models\\mine:job_1"),
    ],
)
def test_a_made_model_is_named_after_its_base_and_its_job(kind: Kind, model: str, named: str) -> None:
    assert fine_tuned_id(replace(QUEUED, order=replace(ORDER, kind=kind, model=model))) == named


def test_an_order_knows_the_files_it_needs() -> None:
    assert ORDER.files == ()
    assert replace(ORDER, training_file=FileId("a")).files == ("a",)
    assert replace(ORDER, training_file=FileId("a"), validation_file=FileId("b")).files == ("a", "b")
