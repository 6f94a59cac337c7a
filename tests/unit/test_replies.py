"""What a backend's replies mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from synth_train.domain.model.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    KeyRefused,
    NotKnown,
    NotOffered,
    TrainingError,
    UnexpectedReply,
)
from synth_train.domain.model.jobs import FileId, FilePhase, JobId, Phase
from synth_train.domain.model.replies import (
    events_in,
    features_in,
    file_id_in,
    file_state_in,
    job_id_in,
    job_request_in,
    job_state_in,
    job_summaries_in,
    misses_route,
    page_in,
    points_in,
    refusal,
    result_files_in,
    says,
    time_in,
    verification_in,
)

JOB, FILE = JobId("job_1"), FileId("file_1")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BackendRefused),
        (401, KeyRefused),
        (403, KeyRefused),
        (404, NotKnown),
        (405, NotOffered),
        (408, BackendBusy),
        (409, BackendRefused),
        (410, NotKnown),
        (413, BackendRefused),
        (422, BackendRefused),
        (425, BackendBusy),
        (429, BackendBusy),
        (500, BackendBusy),
        (504, BackendBusy),
        (599, BackendBusy),
    ],
)
def test_a_status_becomes_the_error_that_says_whether_asking_again_may_help(
    status: int, kind: type[TrainingError]
) -> None:
    error = refusal(status, "what happened")
    assert type(error) is kind
    assert str(error) == "what happened"
    if isinstance(error, BackendError):
        assert error.status == status


def test_a_named_wait_goes_with_the_error() -> None:
    error = refusal(503, "busy", retry_after=2.5)
    assert isinstance(error, BackendBusy)
    assert error.retry_after == 2.5


@pytest.mark.parametrize(
    ("status", "wait", "next_step"),
    [
        (429, 120.0, "The backend asks for a wait of 120 s before the next try."),
        (503, None, "The backend is busy or in trouble: try again later."),
        (422, None, "Change what the backend names, then run the command again."),
    ],
)
def test_a_refusal_says_what_to_do_next_and_the_wait_that_was_asked_for(
    status: int, wait: float | None, next_step: str
) -> None:
    assert refusal(status, "what happened", retry_after=wait).hint == next_step


def test_a_conflict_with_a_wait_is_a_request_still_being_answered() -> None:
    assert isinstance(refusal(409, "in progress", retry_after=1.0), BackendBusy)


@pytest.mark.parametrize(
    ("body", "takes_config"),
    [
        ({"status": "ok", "features": ["metadata.config"]}, True),
        ({"features": ["something else"]}, False),
        ({"features": "metadata.config"}, False),
        ({}, False),
        (["metadata.config"], False),
        (None, False),
    ],
)
def test_a_backend_has_the_features_that_it_names(body: object, takes_config: bool) -> None:
    features = features_in(body, "https://b/api")
    assert (features.base, features.takes_config) == ("https://b/api", takes_config)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"message": "second", "detail": " first "}, "first"),
        ({"message": "second", "error": "third"}, "second"),
        ({"detail": "", "error": {"code": 7}}, '{"code":7}'),
        ({"other": "x"}, ""),
        ("text", ""),
    ],
)
def test_an_error_body_says_detail_message_or_error(body: object, said: str) -> None:
    assert says(body) == said


@pytest.mark.parametrize(
    ("body", "job_id"),
    [({"job_id": "a", "id": "b"}, "a"), ({"id": "b"}, "b"), ({"job_id": None, "id": "b"}, "b")],
)
def test_a_job_id_is_found_under_both_its_names(body: object, job_id: str) -> None:
    assert job_id_in(body) == job_id


def test_a_file_id_is_found_under_both_its_names() -> None:
    assert file_id_in({"id": "a", "file_id": "b"}) == "a"
    assert file_id_in({"file_id": "b"}) == "b"


@pytest.mark.parametrize(
    "body",
    [{"job_id": ""}, {"job_id": "  "}, {"job_id": ".."}, {"id": "."}, {"job_id": 7}, {"job_id": None, "ok": True}],
)
def test_without_an_id_the_keys_that_were_there_are_named(body: dict[str, object]) -> None:
    with pytest.raises(UnexpectedReply, match="no job id") as caught:
        job_id_in(body)
    assert all(key in str(caught.value) for key in body)


@pytest.mark.parametrize("body", [{}, [], None, "job_1"])
def test_without_anything_there_is_no_id(body: object) -> None:
    with pytest.raises(UnexpectedReply, match="no file id"):
        file_id_in(body)


@pytest.mark.parametrize(
    ("body", "word", "phase"),
    [
        ({"status": " Succeeded "}, "Succeeded", Phase.SUCCEEDED),
        ({"status": "FAILED"}, "FAILED", Phase.FAILED),
        ({"state": "canceled"}, "canceled", Phase.CANCELLED),
        ({"status": None, "state": "running"}, "running", Phase.LIVE),
        ({"status": "quantum_flux"}, "quantum_flux", Phase.UNKNOWN),
        ({"status": 7}, "7", Phase.UNKNOWN),
        ({"status": None}, "null", Phase.UNKNOWN),
        ({}, "null", Phase.UNKNOWN),
    ],
)
def test_a_job_is_in_the_phase_that_its_word_means(body: object, word: str, phase: Phase) -> None:
    state = job_state_in(body, JOB)
    assert (state.job_id, state.word, state.phase) == (JOB, word, phase)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"status": "failed", "error": "out of memory", "message": "m"}, "out of memory"),
        ({"status": "failed", "message": {"line": 3}}, '{"line":3}'),
        ({"status": "cancelled", "detail": "by hand"}, "by hand"),
        ({"status": "failed"}, ""),
        ({"status": "running", "message": "at step 3"}, ""),
    ],
)
def test_an_ended_job_gives_its_reason(body: object, reason: str) -> None:
    assert job_state_in(body, JOB).reason == reason


@pytest.mark.parametrize(("model", "known"), [("ft:x", "ft:x"), ("", None), (None, None), (7, None)])
def test_a_job_names_its_model_if_it_has_one(model: object, known: str | None) -> None:
    assert job_state_in({"status": "succeeded", "fine_tuned_model": model}, JOB).fine_tuned_model == known


@pytest.mark.parametrize("read", [lambda body: job_state_in(body, JOB), lambda body: file_state_in(body, FILE)])
@pytest.mark.parametrize("body", [[], None, "ready", 7])
def test_what_is_no_object_describes_nothing(read: object, body: object) -> None:
    assert callable(read)
    with pytest.raises(UnexpectedReply, match="no JSON object"):
        read(body)


@pytest.mark.parametrize(
    ("body", "word", "phase"),
    [
        ({"status": "READY"}, "READY", FilePhase.READY),
        ({"state": "uploaded"}, "uploaded", FilePhase.READY),
        ({"storage_state": "stored"}, "stored", FilePhase.READY),
        ({"processing_status": "INVALID_FORMAT"}, "INVALID_FORMAT", FilePhase.REJECTED),
        ({"status": "processing"}, "processing", FilePhase.WAITING),
        ({"status": "odd"}, "odd", FilePhase.UNKNOWN),
        ({"status": 7}, "7", FilePhase.UNKNOWN),
        ({"id": "file_1"}, "", FilePhase.READY),
    ],
)
def test_a_file_is_in_the_phase_that_its_word_means(body: object, word: str, phase: FilePhase) -> None:
    state = file_state_in(body, FILE)
    assert (state.file_id, state.word, state.phase) == (FILE, word, phase)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"status": "error", "status_details": "line 1273 is not JSON"}, "line 1273 is not JSON"),
        ({"status": "error", "validation_report": {"line": 1273}}, '{"line":1273}'),
        ({"status": "error", "error": ["a", "b"]}, '["a","b"]'),
        ({"status": "error"}, ""),
    ],
)
def test_a_file_gives_the_details_text_or_object(body: object, detail: str) -> None:
    assert file_state_in(body, FILE).detail == detail


def test_a_verification_counts_candidates_and_keeps_none() -> None:
    body = {
        "any_ok": True,
        "candidates_first15": ["sk-candidate-one", "sk-candidate-two"],
        "attempts": [{"status": 401}, {"status": 200}, {"status": True}, {"ok": True}, "odd"],
        "more": 1,
    }
    verification = verification_in(200, body)
    assert (verification.ok, verification.candidates, verification.statuses) == (True, 2, (401, 200))
    assert "candidate" not in verification.report
    assert '"more":1' in verification.report


@pytest.mark.parametrize(
    ("status", "body", "ok"),
    [
        (200, {"any_ok": 1}, True),
        (200, {"any_ok": False}, False),
        (200, {"candidates_first15": 3, "attempts": None}, False),
        (400, {"any_ok": True}, False),
    ],
)
def test_a_verification_is_ok_with_a_good_status_and_a_true_any_ok(status: int, body: object, ok: bool) -> None:
    assert verification_in(status, body).ok is ok


def test_a_verification_that_is_no_object_is_shown_whole() -> None:
    verification = verification_in(200, ["odd"])
    assert not verification.ok
    assert verification.report == '{"reply":["odd"]}'


# Lists


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: rows,
        lambda rows: {"jobs": rows, "data": "else"},
        lambda rows: {"jobs": None, "data": rows},
        lambda rows: {"results": rows},
    ],
)
def test_a_list_of_jobs_stands_under_any_of_its_names(wrap: Callable[[list[object]], object]) -> None:
    job = {"job_id": "job_1", "status": "queued", "model": "m", "fine_tuned_model": "ft:m:1"}
    [row] = job_summaries_in(wrap([job]))
    assert (row.job_id, row.kind, row.phase, row.model, row.created_at) == (JOB, None, Phase.LIVE, "m", None)
    assert row.fine_tuned_model == "ft:m:1"


@pytest.mark.parametrize("body", [None, {}, {"jobs": {}}, {"jobs": [1]}, {"jobs": [{"status": "queued"}]}])
def test_what_is_no_list_of_jobs_is_unexpected(body: object) -> None:
    with pytest.raises(UnexpectedReply):
        job_summaries_in(body)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1_700_000_000, 1.7e9),
        (1_700_000_000.5, 1_700_000_000.5),
        (1_700_000_000_500, 1_700_000_000.5),
        ("1700000000.5", 1_700_000_000.5),
        ("2023-11-14T22:13:20Z", 1.7e9),
        ("2023-11-14T22:13:20", 1.7e9),
        ("2023-11-14T23:13:20.25+01:00", 1_700_000_000.25),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000.123456),
        ("yesterday", None),
        ("0001-01-01T00:00:00+23:59", None),
        (True, None),
        (None, None),
        (-1, None),
        (1e300, None),
        (10**400, None),
        (float("nan"), None),
    ],
)
def test_a_time_comes_in_any_of_three_forms(value: object, seconds: float | None) -> None:
    assert time_in(value) == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


def test_events_come_by_number_each_once_under_whatever_names_their_parts_have() -> None:
    rows = [
        {
            "seq": "2",
            "event_type": "sft.loss",
            "msg": "loss 2",
            "severity": "WARN",
            "timestamp": "1970-01-01T00:00:07Z",
        },
        {"seq": 1.0, "type": "sft.created", "message": "made", "level": "error", "data": {"step": 1}, "created_at": 3},
        {"seq": 1, "type": "sft.created", "detail": "made again"},
    ]
    first, second = events_in({"results": rows})
    assert (first.seq, first.message, first.level, first.data, first.created_at) == (1, "made again", "info", {}, 0.0)
    assert (second.type, second.message, second.level, second.created_at) == ("sft.loss", "loss 2", "warning", 7.0)
    [only] = events_in([rows[1]])
    assert (only.level, only.data, only.created_at) == ("error", {"step": 1}, 3.0)


def test_an_event_without_words_says_its_type() -> None:
    assert events_in({"events": [{"seq": 1, "type": "rl.heartbeat"}]})[0].message == "rl.heartbeat"


@pytest.mark.parametrize("seq", [None, 0, -1, True, 1.5, "x", "9" * 30, [], {}])
def test_an_event_without_a_place_in_the_order_is_left_out(seq: object) -> None:
    assert events_in({"events": [{"seq": seq, "message": "?"}, "no event"]}) == []


def test_points_come_by_step_and_name_each_once() -> None:
    rows = [
        {"name": "val.loss", "step": 2, "value": 1, "phase": "eval", "created_at": 5},
        {"name": "train.loss", "step": "2", "value": 0.5},
        {"name": "train.loss", "step": 0, "value": 9.0, "phase": 7},
        {"name": "val.loss", "step": 2, "value": 2},
    ]
    points = points_in({"points": rows})
    assert [(p.step, p.name, p.value, p.phase, p.created_at) for p in points] == [
        (0, "train.loss", 9.0, None, 0.0),
        (2, "train.loss", 0.5, None, 0.0),
        (2, "val.loss", 2.0, None, 0.0),
    ]
    assert points_in(rows[:1])[0].phase == "eval"


def test_null_is_a_number_that_is_none() -> None:
    [point] = points_in({"points": [{"name": "a", "step": 1, "value": None}]})
    assert math.isnan(point.value)


@pytest.mark.parametrize(
    ("health", "page"),
    [
        ({"features": ["page", "other"]}, "http://h/#job=job_%23%2F"),
        ({"features": ["metadata.config"]}, None),
        ({"status": "ok"}, None),
        ("ok", None),
    ],
)
def test_a_backend_with_a_page_shows_each_job_at_an_address_of_its_own(health: object, page: str | None) -> None:
    assert page_in(health, "http://h", JobId("job_#/")) == page


@pytest.mark.parametrize(
    "row",
    [
        {"step": 1, "value": 1},
        {"name": "", "step": 1, "value": 1},
        {"name": "a", "value": 1},
        {"name": "a", "step": 1},
        {"name": "a", "step": 1, "value": True},
        {"name": "a", "step": 1, "value": "0.5"},
        {"name": "a", "step": 1, "value": 10**400},
    ],
)
def test_what_is_no_point_is_left_out(row: object) -> None:
    assert points_in({"points": [row]}) == []


def test_result_files_come_by_name() -> None:
    files = result_files_in({"data": [{"name": "b", "bytes": 2}, {"name": "a", "bytes": 1}]})
    assert [(file.name, file.size) for file in files] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("row", [None, {"bytes": 1}, {"name": "a"}, {"name": "a", "bytes": -1}])
def test_a_result_file_has_a_name_and_a_size(row: object) -> None:
    with pytest.raises(UnexpectedReply):
        result_files_in({"files": [row]})


@pytest.mark.parametrize(
    ("status", "body", "missing"),
    [
        (404, {"detail": "Not Found"}, True),
        (404, {"message": "no such route."}, True),
        (404, {"error": {"code": "no_such_route", "message": "there is no route GET /x"}, "detail": "x"}, True),
        (404, None, True),
        (405, {"detail": "Job job_1 not found"}, True),
        (501, None, True),
        (404, {"detail": "Job job_1 not found"}, False),
        (404, {"error": {"code": "unknown_job", "message": "no job"}}, False),
        (410, None, False),
        (200, None, False),
    ],
)
def test_a_missing_route_is_told_by_what_frameworks_say_of_one(status: int, body: object, missing: bool) -> None:
    assert misses_route(status, body) is missing


@pytest.mark.parametrize("body", [{}, {"config": None}, {"config": "{}"}])
def test_what_a_job_was_asked_with_is_an_object_or_the_reply_was_not_expected(body: object) -> None:
    assert job_request_in({"config": {"model": "tiny"}}) == b'{"model":"tiny"}'
    with pytest.raises(UnexpectedReply, match="asked with"):
        job_request_in(body)
