"""What hosting knows, in the words of the wire (wire-contract §2 to §5)."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import (
    Blob,
    FileStatus,
    Job,
    JobStatus,
    Order,
    Owner,
    ResultFile,
    SealedKey,
    StoredFile,
    WorkerId,
)
from synth_train.domain.model.jobs import FileId, FilePhase, JobId, Kind, Phase
from synth_train.domain.model.replies import (
    features_in,
    file_state_in,
    job_state_in,
    page_in,
    result_files_in,
    verification_in,
)
from synth_train.domain.model.task_app import Probe
from synth_train.domain.usecases.hosting import wire
from synth_train.domain.usecases.hosting.jobs import Thinned
from synth_train.domain.usecases.hosting.vault import Attempt

WE = Owner("we")
FILE = StoredFile(
    id=FileId("file_1"),
    owner=WE,
    filename="train.jsonl",
    purpose="fine-tune",
    blob=Blob(id="blob_1", sha256="0" * 64, size=3),
    status=FileStatus.READY,
    created_at=10.9,
)
JOB = Job(
    id=JobId("job_1"),
    owner=WE,
    order=Order(kind=Kind.RL, model="m", training_type="rl_online", task_url="http://task", body=b'{"a":1}'),
    created_at=10.0,
    updated_at=10.0,
    started=True,
)
RUNNING = JOB.claimed(WorkerId("w"), 20.0)


@pytest.mark.parametrize("takes_config", [True, False])
def test_features_are_read_as_they_are_written(takes_config: bool) -> None:
    assert features_in(wire.health(takes_config=takes_config), "b").takes_config is takes_config


@pytest.mark.parametrize("page", [True, False])
def test_a_page_is_read_as_it_is_written(page: bool) -> None:
    assert (page_in(wire.health(takes_config=True, page=page), "b", JobId("j")) is not None) is page


def test_a_file_has_every_name_that_clients_read() -> None:
    body = wire.file(FILE)
    assert body["id"] == body["file_id"] == "file_1"
    assert (body["bytes"], body["filename"], body["purpose"]) == (3, "train.jsonl", "fine-tune")
    assert (body["status"], body["created_at"]) == ("ready", 10)
    assert "status_details" not in body


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (FileStatus.PROCESSING, FilePhase.WAITING),
        (FileStatus.READY, FilePhase.READY),
        (FileStatus.REJECTED, FilePhase.REJECTED),
    ],
)
def test_a_files_status_is_understood_as_it_is_meant(status: FileStatus, phase: FilePhase) -> None:
    state = file_state_in(wire.file(replace(FILE, status=status, detail="why")), FILE.id)
    assert (state.phase, state.detail) == (phase, "why")


def test_lists_stand_under_every_name_that_clients_look_for() -> None:
    files, jobs = wire.files([FILE]), wire.jobs([JOB])
    assert files["files"] == files["data"] == files["items"] == [wire.file(FILE)]
    assert jobs["jobs"] == jobs["data"] == jobs["results"] == [wire.job(JOB)]


def test_a_new_job_says_what_it_is_and_not_what_it_has_not() -> None:
    body = wire.job(JOB)
    assert body["job_id"] == body["id"] == "job_1"
    assert (body["status"], body["type"], body["model"]) == ("queued", "rl_online", "m")
    assert body["endpoint_base_url"] == "http://task"
    assert body["fine_tuned_model"] is None
    assert not {"name", "training_file", "validation_file", "error", "started_at", "ended_at"} & set(body)


def test_an_sft_job_names_its_files() -> None:
    order = Order(
        kind=Kind.SFT,
        model="m",
        training_type="sft_offline",
        training_file=FileId("a"),
        validation_file=FileId("b"),
        name="mine",
    )
    body = wire.job(replace(JOB, order=order))
    assert (body["training_file"], body["validation_file"], body["name"]) == ("a", "b", "mine")


@pytest.mark.parametrize(
    ("status", "phase"),
    [(JobStatus.SUCCEEDED, Phase.SUCCEEDED), (JobStatus.FAILED, Phase.FAILED), (JobStatus.CANCELLED, Phase.CANCELLED)],
)
def test_a_jobs_end_is_understood_as_it_is_meant(status: JobStatus, phase: Phase) -> None:
    over = RUNNING.asked_to_cancel(25.0).ended(status, 30.5, reason="why", fine_tuned_model="ft:m:job_1")
    body = wire.job(over)
    assert (body["started_at"], body["ended_at"]) == (20, 30)
    state = job_state_in(body, JOB.id)
    assert (state.phase, state.reason, state.fine_tuned_model) == (phase, "why", "ft:m:job_1")


def test_a_start_or_a_cancellation_comes_with_a_message() -> None:
    assert wire.with_message(RUNNING)["message"] == "Job job_1 is running."


def test_the_request_of_a_job_can_be_read_back() -> None:
    assert wire.job_config(JOB) == {"job_id": "job_1", "config": {"a": 1}}


def test_events_have_a_cursor_of_both_kinds() -> None:
    event = Event(seq=3, type="rl.train.step", message="m", created_at=1.5, data={"step": 1})
    body = wire.events(JOB.id, [event])
    assert body["events"] == body["data"] == body["results"]
    assert wire.event(JOB.id, event) == {
        "seq": 3,
        "event_id": "job_1:3",
        "job_id": "job_1",
        "type": "rl.train.step",
        "level": "info",
        "message": "m",
        "data": {"step": 1},
        "created_at": 1.5,
    }


def test_points_that_are_a_selection_say_of_how_many_steps_each_stretch_is() -> None:
    some = [Point(name="train.loss", step=1, value=0.5, created_at=2.0)]
    body = wire.thinned_points(JOB.id, Thinned(points=tuple(some), stretch=4))
    assert body == wire.points(JOB.id, some) | {"stretch": 4}


def test_points_have_all_that_clients_read() -> None:
    body = wire.points(JOB.id, [Point(name="train.loss", step=1, value=0.5, created_at=2.0)])
    assert body["points"] == [
        {"name": "train.loss", "step": 1, "value": 0.5, "phase": None, "job_id": "job_1", "created_at": 2.0}
    ]


@pytest.mark.parametrize(
    ("job", "phases"),
    [
        (JOB, ["queued"]),
        (RUNNING, ["queued", "running"]),
        (RUNNING.asked_to_cancel(25.0), ["queued", "running", "cancelling"]),
        (RUNNING.ended(JobStatus.SUCCEEDED, 30.0), ["queued", "running", "succeeded"]),
        (JOB.asked_to_cancel(15.0), ["queued", "cancelled"]),
    ],
)
def test_a_timeline_has_the_phases_that_were(job: Job, phases: list[str]) -> None:
    body = wire.timeline(job)
    rows = body["timeline"]
    assert isinstance(rows, list)
    assert [row["phase"] for row in rows] == phases
    assert body["events"] == body["data"] == rows


def test_results_are_read_as_they_are_written() -> None:
    files = [ResultFile(name="a/b.json", size=3), ResultFile(name="c", size=0)]
    assert result_files_in(wire.results(files)) == files


def test_the_vault_gives_out_a_public_key_and_nothing_of_a_secret() -> None:
    assert wire.public_key(bytes(32)) == {
        "public_key": base64.b64encode(bytes(32)).decode(),
        "alg": "libsodium.sealedbox.v1",
    }
    key = SealedKey(id="key_1", owner=WE, name="K", sealed=b"sealed", updated_at=5.5)
    assert wire.stored_key(key) == {"id": "key_1", "name": "K", "updated_at": 5}


def test_a_verification_is_read_as_it_is_written() -> None:
    good, bad = Probe(url="http://t/health", status=200), Probe(url="http://t/task_info", status=401)
    attempts = [
        Attempt(candidate="aaaa", health=good, task_info=bad),
        Attempt(candidate="bbbb", health=good, task_info=good),
    ]
    body = wire.verification(attempts)
    verification = verification_in(200, body)
    assert (verification.ok, verification.candidates, verification.statuses) == (True, 2, (401, 200))
    assert body["attempts"] == [
        {
            "status": 401,
            "health_status": 200,
            "task_info_status": 401,
            "ok": False,
            "error": "http://t/task_info: 401",
        },
        {"status": 200, "health_status": 200, "task_info_status": 200, "ok": True, "error": None},
    ]
    assert "detail" not in body


def test_a_verification_without_keys_says_so() -> None:
    assert wire.verification([])["detail"] == "no environment key is stored for this account"


def test_all_of_it_is_json() -> None:
    json.dumps([wire.job(JOB), wire.file(FILE), wire.timeline(JOB)], allow_nan=False)
