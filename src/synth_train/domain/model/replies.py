"""What a backend's replies mean: one reading, whether they came over HTTP or out of memory.

Bodies come in decoded. Whoever holds secrets redacts the text before it is decoded, so that nothing here can show one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TypeVar
from urllib.parse import quote

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
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import ResultFile
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

T = TypeVar("T")

TAKES_CONFIG = "metadata.config"
"""How a backend names, in `features` of its `GET /health`, that it reads what the hosted SFT wire drops."""

HAS_PAGE = "page"
"""How it names there that a browser is shown jobs at its root: one by its id behind `#job=`."""

_JOB_WORDS = ("status", "state")
_FILE_WORDS = ("status", "state", "storage_state", "processing_status")
_FILE_DETAILS = ("status_details", "validation_report", "error", "message", "detail")
REASONS = ("detail", "message", "error")
"""Where an error reply says what is wrong (wire-contract §1.3)."""
_END_REASONS = ("error", "message", "detail", "reason")
_NO_ROUTE = ("not found", "no such route")
"""What frameworks say of a path that they do not have, and never of a job."""
_LEVELS = {"warn": "warning", "critical": "error", "fatal": "error", "debug": "info"}
_FRACTION = re.compile(r"\.(\d+)")
_DECIMAL = re.compile(r"\s*\d{1,20}(?:\.\d*)?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*\d{1,18}\s*", re.ASCII)
_MILLISECONDS = 1e11
"""As seconds, a time in the year 5138; as milliseconds, one in 1973."""


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
        hint = (
            f"The backend asks for a wait of {retry_after:g} s before the next try."
            if retry_after is not None
            else "The backend is busy or in trouble: try again later."
        )
        return BackendBusy(what, hint=hint, status=status, retry_after=retry_after)
    if status in (400, 413, 422):
        return BackendRefused(what, hint="Change what the backend names, then run the command again.", status=status)
    return BackendRefused(what, status=status)


def misses_route(status: int, body: object) -> bool:
    """Whether a refusal is about the route, and not about the job or file that the route names.

    That cannot be told for sure. A framework answers an unknown path in its own few words, or with a page.

    Args:
        body: what came with it, decoded; None when it is no JSON.
    """
    if status in (405, 501):
        return True
    if status != 404:
        return False
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict) and error.get("code") == "no_such_route":
        return True
    return body is None or says(body).rstrip(".").lower() in _NO_ROUTE


def features_in(body: object, base: str) -> Features:
    """What the reply to `GET /health` says of a backend. One that says nothing has no features."""
    named = body.get("features") if isinstance(body, dict) else None
    return Features(base=base, takes_config=TAKES_CONFIG in _list(named))


def page_in(body: object, root: str, job_id: JobId) -> str | None:
    """Where a backend shows a job in a browser, by the reply to `GET /health`; None when it has no page."""
    named = body.get("features") if isinstance(body, dict) else None
    return f"{root}/#job={quote(job_id, safe='')}" if HAS_PAGE in _list(named) else None


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
        kind=_kind_in(reply),
    )


def job_summary_in(body: object) -> JobSummary:
    """One row of a list of jobs (wire-contract §4.1). Its kind is told by its type: `rl_online`, `sft_offline`, `sft`.

    Raises:
        UnexpectedReply: the row is no object, or has no id.
    """
    row = _object(body, "a job")
    word = _first(row, _JOB_WORDS)
    model = row.get("fine_tuned_model")
    return JobSummary(
        job_id=job_id_in(row),
        kind=_kind_in(row),
        word=_shown(word),
        phase=phase_of(word),
        model=_first_text(row, ("model_id", "model", "base_model")),
        name=_first_text(row, ("name",)),
        created_at=time_in(row.get("created_at")),
        fine_tuned_model=model if isinstance(model, str) and model else None,
    )


def job_summaries_in(body: object) -> list[JobSummary]:
    """A list of jobs, in the order in which it came.

    Raises:
        UnexpectedReply: there is no list, or a row is no job.
    """
    return [job_summary_in(row) for row in _rows(body, "jobs", ("jobs", "data", "results"))]


def events_in(body: object) -> list[Event]:
    """A list of events, by `seq`, each once (wire-contract §4.2). Those without a `seq` above 0 have no place in the
    order and are left out.

    Raises:
        UnexpectedReply: there is no list.
    """
    events = {
        event.seq: event for event in _each(_event_in, _rows(body, "events", ("events", "data", "results", "items")))
    }
    return [events[seq] for seq in sorted(events)]


def points_in(body: object) -> list[Point]:
    """A list of metric points, by step and name, each once (wire-contract §4.3). What is no point (no name, no step, no
    finite number) is left out; null is what JSON has for a number that is none, and stays one.

    Raises:
        UnexpectedReply: there is no list.
    """
    points = {
        (point.step, point.name): point
        for point in _each(_point_in, _rows(body, "metric points", ("points", "data", "metrics", "results")))
    }
    return [points[place] for place in sorted(points)]


def result_files_in(body: object) -> list[ResultFile]:
    """The files that a job has made, by name.

    Raises:
        UnexpectedReply: there is no list, or a row without name and size.
    """
    files = []
    for row in _rows(body, "files", ("files", "data")):
        name, size = _object(row, "a file").get("name"), _whole(_object(row, "a file").get("bytes"))
        if not isinstance(name, str) or size is None or size < 0:
            raise UnexpectedReply("the reply names a file without a name or a size")
        sha256 = _object(row, "a file").get("sha256")
        files.append(ResultFile(name=name, size=size, sha256=sha256.lower() if isinstance(sha256, str) else None))
    return sorted(files, key=lambda file: file.name)


def time_in(value: object) -> float | None:
    """Seconds since 1970, given as seconds, as milliseconds or as ISO time (UTC, where no zone is named); None when it
    is none of these."""
    if isinstance(value, str):
        number = float(value) if _DECIMAL.fullmatch(value) else _iso_time(value)
    else:
        number = _finite(value)
    if number is None or number < 0:
        return None
    seconds = number / 1000 if number >= _MILLISECONDS else number
    return seconds if seconds < _MILLISECONDS else None


def _iso_time(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(_FRACTION.sub(_microseconds, text.strip().replace("Z", "+00:00")))
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


def _microseconds(fraction: re.Match[str]) -> str:
    return f".{fraction[1]:0<6.6}"


def _kind_in(row: Mapping[object, object]) -> Kind | None:
    """The kind that a job's type tells of: `rl_online`, `sft_offline`, `sft`."""
    type_ = str(_first(row, ("training_type", "type", "job_type")) or "").lower()
    return next((kind for kind in Kind if type_.startswith(kind.value)), None)


def _event_in(row: Mapping[object, object]) -> Event | None:
    seq = _whole(row.get("seq"))
    if seq is None or seq < 1:
        return None
    level = _first_text(row, ("level", "severity")).lower() or "info"
    data = row.get("data")
    type_ = _first_text(row, ("type", "event_type"))
    return Event(
        seq=seq,
        type=type_,
        message=_first_text(row, ("message", "msg", "detail")) or type_,
        created_at=time_in(_first(row, ("created_at", "timestamp"))) or 0.0,
        level=_LEVELS.get(level, level),
        data={str(key): value for key, value in data.items()} if isinstance(data, dict) else {},
    )


def _point_in(row: Mapping[object, object]) -> Point | None:
    name, step, value, phase = row.get("name"), _whole(row.get("step")), _finite(row.get("value")), row.get("phase")
    if row.get("value", "") is None:
        value = math.nan
    if not isinstance(name, str) or not name or step is None or value is None:
        return None
    return Point(
        name=name,
        step=step,
        value=value,
        created_at=time_in(row.get("created_at")) or 0.0,
        phase=phase if isinstance(phase, str) else None,
    )


def job_request_in(body: object) -> bytes:
    """What a job was asked with, from the reply to `GET {jobs}/{id}/config`.

    Raises:
        UnexpectedReply: there is no such object in it.
    """
    config = _object(body, "a job").get("config")
    if not isinstance(config, dict):
        raise UnexpectedReply("the reply does not tell what the job was asked with")
    return msgspec.json.encode(config)


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


def _rows(body: object, what: str, names: tuple[str, ...]) -> list[object]:
    """The rows of a list, which may be wrapped under any of `names`."""
    if isinstance(body, list):
        return body
    reply = _object(body, f"a list of {what}")
    found = next((reply[name] for name in names if isinstance(reply.get(name), list)), None)
    if found is None:
        raise UnexpectedReply(f"the reply has no list of {what}")
    return _list(found)


def _each(meaning: Callable[[Mapping[object, object]], T | None], rows: Sequence[object]) -> list[T]:
    """The rows that mean something."""
    meant = (meaning(row) for row in rows if isinstance(row, dict))
    return [one for one in meant if one is not None]


def _whole(value: object) -> int | None:
    """A whole number, also when it comes as `7.0` or `"7"`."""
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: object) -> float | None:
    """A number that is one: no bool, no nan, no infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _id_in(body: object, what: str, names: tuple[str, ...]) -> str:
    reply: Mapping[object, object] = body if isinstance(body, dict) else {}
    for name in names:
        found = reply.get(name)
        # No URL can have the other two for a segment, so that nothing could ever be asked of what has them for an id.
        if isinstance(found, str) and found.strip() not in ("", ".", ".."):
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
