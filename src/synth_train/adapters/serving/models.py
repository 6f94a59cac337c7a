"""Models, checkpoints and runs: other words for what a job has come to (wire-contract §4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from synth_train.domain.model.hosting import Job, JobFilter, JobStatus, Owner
from synth_train.domain.model.jobs import Kind
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.wire import Json

_MOST = 100_000


def made(jobs: Jobs, owner: Owner, *, kind: Kind | None = None, base_model: str | None = None) -> list[Json]:
    """The models that jobs of an owner have made, newest first."""
    done = jobs.listed(owner, JobFilter(kind=kind, status=JobStatus.SUCCEEDED.value, model=base_model, limit=_MOST))
    return [model(job) for job in done if job.model]


def model(job: Job) -> Json:
    """The model that a job has made."""
    return {
        "id": job.fine_tuned_model,
        "name": job.order.name or job.fine_tuned_model,
        "object": "model",
        "base_model": job.order.model,
        "base": job.order.model,
        "job_id": job.id,
        "status": "ready",
        "created_at": int(job.ended_at or job.updated_at),
    }


def listed(rows: Sequence[Json]) -> Json:
    """A list of models."""
    return {"object": "list", "models": rows, "data": rows}


def checkpoints(job: Job) -> Json:
    """The checkpoints of a job that can be used: those to go on from after a crash are the worker's own."""
    rows: list[Json] = []
    if job.model:
        rows.append(
            {
                "id": f"checkpoint_{job.id}",
                "object": "checkpoint",
                "job_id": job.id,
                "step_number": None,
                "fine_tuned_model_checkpoint": job.model,
                "created_at": int(job.updated_at),
            }
        )
    return {"object": "list", "checkpoints": rows, "data": rows}


def runs(job: Job) -> Json:
    """The run of a job, once it has begun."""
    rows: list[Json] = []
    if job.began_at is not None:
        rows.append(
            {
                "run_number": 1,
                "id": f"{job.id}:1",
                "engine": "local",
                "status": job.status.value,
                "created_at": int(job.created_at),
                "started_at": int(job.began_at),
                "ended_at": None if job.ended_at is None else int(job.ended_at),
                "duration_seconds": None if job.ended_at is None else int(job.ended_at - job.began_at),
            }
        )
    return {"object": "list", "runs": rows, "data": rows}
