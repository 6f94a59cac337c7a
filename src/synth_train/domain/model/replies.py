"""What a backend's replies mean: one reading, whether they came over HTTP or out of memory.

Bodies come in decoded. Whoever holds secrets redacts the text before it is decoded, so that nothing here can show one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from synth_train.domain.model.errors import (
    BackendBusy,
    BackendRefused,
    KeyRefused,
    NotKnown,
    NotOffered,
    TrainingError,
    UnexpectedReply,
)
from synth_train.domain.model.jobs import (
    Features,
    FileId,
    FileState,
    JobId,
    JobState,
    JobSummary,
    Kind,
    Verification,
    file_phase_of,
    phase_of,
)

TAKES_CONFIG = "metadata.config"
"""How a backend names, in `features` of its `GET /health`, that it reads what the hosted SFT wire drops."""

_JOB_WORDS = ("status", "state")
_FILE_WORDS = ("status", "state", "storage_state", "processing_status")
_FILE_DETAILS = ("status_details", "validation_report", "error", "message", "detail")
REASONS = ("detail", "message", "error")
"""Where an error reply says what is wrong (wire-contract §1.3)."""
_END_REASONS = ("error", "message", "detail", "reason")


def refusal(status: int, what: str, *, retry_after: float | None = None) -> TrainingError:
    """The error for an HTTP status of 400 and above (design §4, Retries).

    A 409 is final, unless the server names a wait with it: then the same request is still being answered.

    Args:
        what: what happened, for showing: method, URL, status and what the server says.
        retry_after: seconds that the server asked us to wait, if it named a wait that could be read.
    """
    if status in (401, 403):
        return KeyRefused(what, hint="Check SYNTH_API_KEY: this backend does not accept it.")
    if status in (404, 410):
        return NotKnown(what, status=status)
    if status == 405:
        return NotOffered(what, status=status)
    if status in (408, 425, 429) or status >= 500 or (status == 409 and retry_after is not None):
        return BackendBusy(what, status=status, retry_after=retry_after)
    return BackendRefused(what, status=status)


def features_in(body: object, base: str) -> Features:
    """What the reply to `GET /health` says of a backend. One that says nothing has no features."""
    named = body.get("features") if isinstance(body, dict) else None
    return Features(base=base, takes_config=TAKES_CONFIG in _list(named))


def says(body: object) -> str:
    """What an error body says, for showing: its `detail`, `message` or `error`, text or object (wire-contract §1.3).

    Empty when it says none of these.
    """
    return _first_text(body, REASONS)


def job_id_in(body: object) -> JobId:
    """The id of a job in the reply to its creation: `job_id`, else `id`.

    Raises:
        UnexpectedReply: neither is a text with something in it.
    """
    return JobId(_id_in(body, "job", ("job_id", "id")))


def file_id_in(body: object) -> FileId:
    """The id of a file in the reply to its upload: `id`, else `file_id`.

    Raises:
        UnexpectedReply: neither is a text with something in it.
    """
    return FileId(_id_in(body, "file", ("id", "file_id")))


def job_state_in(body: object, job_id: JobId) -> JobState:
    """The state of a job. An absent or odd status is an unknown word, not an error.

    Raises:
        UnexpectedReply: the body is no object.
    """
    reply = _object(body, "a job")
    word = _first(reply, _JOB_WORDS)
    phase = phase_of(word)
    model = reply.get("fine_tuned_model")
    return JobState(
        job_id=job_id,
        word=_shown(word),
        phase=phase,
        reason=_first_text(reply, _END_REASONS) if phase.over else "",
        fine_tuned_model=model if isinstance(model, str) and model else None,
    )


def job_summary_in(body: object) -> JobSummary:
    """One row of a list of jobs (wire-contract §4.1). Its kind is told by its type: `rl_online`, `sft_offline`, `sft`.

    Raises:
        UnexpectedReply: the row is no object, or has no id.
    """
    row = _object(body, "a job")
    word = _first(row, _JOB_WORDS)
    type_ = str(_first(row, ("training_type", "type")) or "").lower()
    created_at = row.get("created_at")
    model = row.get("fine_tuned_model")
    return JobSummary(
        job_id=job_id_in(row),
        kind=next((kind for kind in Kind if type_.startswith(kind.value)), None),
        word=_shown(word),
        phase=phase_of(word),
        model=_first_text(row, ("model_id", "model", "base_model")),
        name=_first_text(row, ("name",)),
        created_at=created_at if isinstance(created_at, (int, float)) else None,
        fine_tuned_model=model if isinstance(model, str) and model else None,
    )


def file_state_in(body: object, file_id: FileId) -> FileState:
    """The state of an uploaded file. No status at all counts as ready (wire-contract §3.3).

    Raises:
        UnexpectedReply: the body is no object.
    """
    reply = _object(body, "a file")
    word = _first(reply, _FILE_WORDS)
    return FileState(
        file_id=file_id,
        word=_shown(word) if word is not None else "",
        phase=file_phase_of(word),
        detail=_first_text(reply, _FILE_DETAILS),
    )


def verification_in(status: int, body: object) -> Verification:
    """The backend's report on a task app (wire-contract §2.2): ok only with a status under 400 and a true `any_ok`.

    The candidates may hold parts of keys, so they are counted and left out of the report.
    """
    reply: Mapping[object, object] = body if isinstance(body, dict) else {"reply": body}
    return Verification(
        ok=status < 400 and bool(reply.get("any_ok")),
        candidates=len(_list(reply.get("candidates_first15"))),
        statuses=tuple(
            attempt["status"]
            for attempt in _list(reply.get("attempts"))
            if isinstance(attempt, dict) and type(attempt.get("status")) is int
        ),
        report=_json({key: value for key, value in reply.items() if key != "candidates_first15"}),
    )


def _object(body: object, what: str) -> Mapping[object, object]:
    if not isinstance(body, dict):
        raise UnexpectedReply(f"the reply is no JSON object, so it does not describe {what}")
    return body


def _id_in(body: object, what: str, names: tuple[str, ...]) -> str:
    reply: Mapping[object, object] = body if isinstance(body, dict) else {}
    for name in names:
        found = reply.get(name)
        if isinstance(found, str) and found.strip():
            return found
    there = f"only: {', '.join(map(str, reply))}" if reply else "no keys at all"
    raise UnexpectedReply(f"the reply has no {what} id ({there})")


def _first(reply: Mapping[object, object], names: tuple[str, ...]) -> object:
    return next((reply[name] for name in names if reply.get(name) is not None), None)


def _first_text(body: object, names: tuple[str, ...]) -> str:
    if not isinstance(body, dict):
        return ""
    return next((_shown(body[name]) for name in names if body.get(name)), "")


def _shown(value: object) -> str:
    return value.strip() if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
