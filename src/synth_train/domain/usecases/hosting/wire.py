"""What hosting knows, as the JSON objects of the wire contract.

Lists stand under every name that some client looks for (wire-contract §4.1).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import Job, ResultFile, SealedKey, StoredFile
from synth_train.domain.model.jobs import JobId
from synth_train.domain.model.replies import HAS_PAGE, TAKES_CONFIG
from synth_train.domain.usecases.hosting.jobs import Thinned
from synth_train.domain.usecases.hosting.vault import Attempt

Json = dict[str, object]

SEALED_BOX = "libsodium.sealedbox.v1"


def health(*, takes_config: bool, page: bool = False) -> Json:
    """Reply to `GET /health`.

    Args:
        page: whether browsers are shown jobs at the root of the server.
    """
    features = {TAKES_CONFIG: takes_config, HAS_PAGE: page}
    return {"status": "ok", "features": [name for name, has in features.items() if has]}


def file(stored: StoredFile) -> Json:
    """A file (§3.2)."""
    body: Json = {
        "id": stored.id,
        "file_id": stored.id,
        "object": "file",
        "filename": stored.filename,
        "purpose": stored.purpose,
        "bytes": stored.blob.size,
        "sha256": stored.blob.sha256,
        "status": stored.status.value,
        "created_at": int(stored.created_at),
    }
    if stored.detail:
        body["status_details"] = stored.detail
    return body


def files(stored: Sequence[StoredFile]) -> Json:
    """A list of files."""
    rows = [file(one) for one in stored]
    return {"object": "list", "files": rows, "data": rows, "items": rows}


def job(one: Job) -> Json:
    """A job (§2.5, §4.1)."""
    order = one.order
    body: Json = {
        "job_id": one.id,
        "id": one.id,
        "object": "job",
        "type": order.training_type,
        "training_type": order.training_type,
        "status": one.status.value,
        "started": one.started,
        "model": order.model,
        "model_id": order.model,
        "fine_tuned_model": one.fine_tuned_model,
        "created_at": int(one.created_at),
        "updated_at": int(one.updated_at),
    }
    optional: Json = {
        "name": order.name,
        "training_file": order.training_file,
        "validation_file": order.validation_file,
        "endpoint_base_url": order.task_url,
        "error": one.reason,
        "started_at": one.began_at and int(one.began_at),
        "ended_at": one.ended_at and int(one.ended_at),
        "model_deleted_at": one.model_removed_at and int(one.model_removed_at),
    }
    return body | {name: value for name, value in optional.items() if value}


def jobs(some: Sequence[Job]) -> Json:
    """A list of jobs."""
    rows = [job(one) for one in some]
    return {"object": "list", "jobs": rows, "data": rows, "results": rows}


def job_config(one: Job) -> Json:
    """What the job was asked with."""
    return {"job_id": one.id, "config": msgspec.json.decode(one.order.body)}


def with_message(one: Job) -> Json:
    """Reply to a start or a cancellation: the job, and a message to show."""
    return job(one) | {"message": f"Job {one.id} is {one.status.value}."}


def events(job_id: JobId, some: Sequence[Event]) -> Json:
    """A list of events (§4.2)."""
    rows = [event(job_id, one) for one in some]
    return {"object": "list", "events": rows, "data": rows, "results": rows}


def event(job_id: JobId, one: Event) -> Json:
    """An event."""
    return {
        "seq": one.seq,
        "event_id": f"{job_id}:{one.seq}",
        "job_id": job_id,
        "type": one.type,
        "level": one.level,
        "message": one.message,
        "data": dict(one.data),
        "created_at": one.created_at,
    }


def points(job_id: JobId, some: Sequence[Point]) -> Json:
    """A list of metric points (§4.3)."""
    return {"object": "list", "points": [point(job_id, one) for one in some]}


def thinned_points(job_id: JobId, some: Thinned) -> Json:
    """A list of metric points from which some were left out, and of how many steps each stretch is."""
    return points(job_id, some.points) | {"stretch": some.stretch}


def point(job_id: JobId, one: Point) -> Json:
    """A metric point."""
    return {
        "name": one.name,
        "step": one.step,
        "value": one.value,
        "phase": one.phase,
        "job_id": job_id,
        "created_at": one.created_at,
    }


def timeline(one: Job) -> Json:
    """The phases that a job has gone through (§4.4)."""
    moments = [("queued", one.created_at), ("running", one.began_at), ("cancelling", one.cancel_asked_at)]
    if one.status.over:
        moments.append((one.status.value, one.ended_at))
    rows = [{"phase": phase, "created_at": at, "job_id": one.id} for phase, at in moments if at is not None]
    return {"object": "list", "events": rows, "timeline": rows, "data": rows}


def results(files: Sequence[ResultFile]) -> Json:
    """A list of the files that a job has made: reply to `GET {jobs}/{id}/results`, below which each file has its name.
    The hosted backend has no such route."""
    rows = [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in files]
    return {"object": "list", "files": rows, "data": rows}


def public_key(key: bytes) -> Json:
    """Reply to `GET /crypto/public-key` (§5)."""
    return {"public_key": base64.b64encode(key).decode(), "alg": SEALED_BOX}


def stored_key(key: SealedKey) -> Json:
    """Reply to a stored environment key: nothing of it."""
    return {"id": key.id, "name": key.name, "updated_at": int(key.updated_at)}


def verification(attempts: Sequence[Attempt]) -> Json:
    """Reply to `POST /rl/verify_task_app` (§2.2). The candidates are hashes: no part of a key goes out."""
    body: Json = {
        "any_ok": any(attempt.ok for attempt in attempts),
        "candidates_first15": [attempt.candidate for attempt in attempts],
        "attempts": [
            {
                "status": attempt.status,
                "health_status": attempt.health.status or 0,
                "task_info_status": attempt.task_info.status or 0,
                "ok": attempt.ok,
                "error": attempt.error,
            }
            for attempt in attempts
        ],
    }
    if not attempts:
        body["detail"] = "no environment key is stored for this account"
    return body
