"""What a backend's replies mean."""

from __future__ import annotations

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
    features_in,
    file_id_in,
    file_state_in,
    job_id_in,
    job_state_in,
    refusal,
    says,
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


@pytest.mark.parametrize("body", [{"job_id": ""}, {"job_id": "  "}, {"job_id": 7}, {"job_id": None, "ok": True}])
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
