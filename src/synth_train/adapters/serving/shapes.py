"""What goes over the wire, as types: the OpenAPI document is written from them.

Replies are made by `domain.usecases.hosting.wire`, requests are read by hosting; tests hold both to these shapes.
Times are seconds since 1970.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType


class _Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Complaint(_Shape, frozen=True):
    """Why a request was refused, for programs and for people."""

    code: str
    message: str


class Refused(_Shape, frozen=True):
    """The one shape of every reply above 399."""

    detail: str
    error: Complaint


class Health(_Shape, frozen=True):
    """That the server is there, and what it takes beyond the hosted API."""

    status: str
    features: list[str]


# Files


class File(_Shape, frozen=True):
    """An uploaded file."""

    id: str
    file_id: str
    object: str
    filename: str
    purpose: str
    bytes: int
    sha256: str
    status: Annotated[str, Meta(description="processing, ready, rejected or deleted")]
    created_at: int
    status_details: str | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET


class Files(_Shape, frozen=True):
    """Files, newest first, the same rows under every name."""

    object: str
    files: list[File]
    data: list[File]
    items: list[File]


# Jobs


class Job(_Shape, frozen=True):
    """A job as it stands."""

    job_id: str
    id: str
    object: str
    type: str
    training_type: str
    status: Annotated[str, Meta(description="queued, running, cancelling, succeeded, failed or cancelled")]
    started: bool
    model: str
    model_id: str
    fine_tuned_model: str | None
    created_at: int
    updated_at: int
    name: str | UnsetType = UNSET
    training_file: str | UnsetType = UNSET
    validation_file: str | UnsetType = UNSET
    endpoint_base_url: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    started_at: int | UnsetType = UNSET
    ended_at: int | UnsetType = UNSET
    model_deleted_at: int | UnsetType = UNSET
    message: str | UnsetType = UNSET


class Jobs(_Shape, frozen=True):
    """Jobs, newest first, the same rows under every name."""

    object: str
    jobs: list[Job]
    data: list[Job]
    results: list[Job]


class JobConfig(_Shape, frozen=True):
    """What a job was asked with."""

    job_id: str
    config: dict[str, Any]


class Event(_Shape, frozen=True):
    """Something that happened to a job."""

    seq: Annotated[int, Meta(ge=1)]
    event_id: str
    job_id: str
    type: str
    level: str
    message: str
    data: dict[str, Any]
    created_at: float


class Events(_Shape, frozen=True):
    """Events, oldest first, the same rows under every name."""

    object: str
    events: list[Event]
    data: list[Event]
    results: list[Event]


class StreamedEvent(Struct, frozen=True, kw_only=True):
    """An event in a stream."""

    id: Annotated[str, Meta(description="`seq` of the event, for `Last-Event-ID`")]
    data: Annotated[str, Meta(description="the event, as JSON")]


class Point(_Shape, frozen=True):
    """The value of a metric at a step; null where it was no number."""

    name: str
    step: Annotated[int, Meta(ge=1)]
    value: float | None
    phase: str | None
    job_id: str
    created_at: float


class Points(_Shape, frozen=True):
    """Metric points, by step and name, whole steps."""

    object: str
    points: list[Point]
    stretch: Annotated[
        int | UnsetType,
        Meta(description="with `buckets`: steps of which only the lowest and highest values are given; 1: all are"),
    ] = UNSET


class Phase(_Shape, frozen=True):
    """A status that a job has taken on."""

    phase: str
    created_at: float
    job_id: str


class Timeline(_Shape, frozen=True):
    """The statuses of a job, in order, the same rows under every name."""

    object: str
    events: list[Phase]
    timeline: list[Phase]
    data: list[Phase]


class Result(_Shape, frozen=True):
    """A file of a model."""

    name: str
    bytes: int
    sha256: str


class Results(_Shape, frozen=True):
    """The files of the model that a job has made, the same rows under every name."""

    object: str
    files: list[Result]
    data: list[Result]


class Log(_Shape, frozen=True):
    """A stretch of what the libraries that train have written."""

    job_id: str
    text: str
    next: Annotated[int, Meta(description="`after` of the next request, in bytes")]


class Run(_Shape, frozen=True):
    """A job's run, in the words of a run history."""

    run_number: int
    id: str
    engine: str
    status: str
    created_at: int
    started_at: int | None
    ended_at: int | None
    duration_seconds: int | None


class Runs(_Shape, frozen=True):
    """The runs of a job, the same rows under every name."""

    object: str
    runs: list[Run]
    data: list[Run]


# Models


class Model(_Shape, frozen=True):
    """A model that a job has made."""

    id: str
    name: str
    object: str
    base_model: str
    base: str
    job_id: str
    status: str
    created_at: int
    deleted: bool | UnsetType = UNSET


class Models(_Shape, frozen=True):
    """Models, newest first, the same rows under every name."""

    object: str
    models: list[Model]
    data: list[Model]


class Choice(_Shape, frozen=True):
    """What a model has said."""

    index: int
    message: dict[str, Any]
    finish_reason: Annotated[str, Meta(description="stop, length or tool_calls")]
    logprobs: dict[str, Any] | None


class Usage(_Shape, frozen=True):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(_Shape, frozen=True):
    """A chat completion, as OpenAI words it."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage


class Checkpoint(_Shape, frozen=True):
    """A model that a job has made, as a checkpoint."""

    id: str
    object: str
    job_id: str
    step_number: int | None
    fine_tuned_model_checkpoint: str
    created_at: int


class Checkpoints(_Shape, frozen=True):
    """The checkpoints of a job that can be used: its model, once it has one."""

    object: str
    checkpoints: list[Checkpoint]
    data: list[Checkpoint]


# Environment keys


class PublicKey(_Shape, frozen=True):
    """What to seal an environment key with."""

    public_key: Annotated[str, Meta(description="32 bytes, base64")]
    alg: str


class StoredKey(_Shape, frozen=True):
    """A key that is kept. Nothing of it is told."""

    id: str
    name: str
    updated_at: int


class Presence(_Shape, frozen=True):
    """Whether a key is kept."""

    present: bool


class Attempt(_Shape, frozen=True):
    """One key tried on a task app; 0 is a route that could not be reached."""

    status: int
    health_status: int
    task_info_status: int
    ok: bool
    error: str | None


class Verification(_Shape, frozen=True):
    """All keys tried on a task app."""

    any_ok: bool
    candidates_first15: Annotated[list[str], Meta(description="a hash for each key that was tried")]
    attempts: list[Attempt]
    detail: str | UnsetType = UNSET


class Trainer(_Shape, frozen=True):
    """Where a trainer takes jobs."""

    training_start_url: str


# Requests


class NewRlJob(Struct, frozen=True, kw_only=True):
    """An RL job. `data` holds the task app's address, exactly one of `model` and `base_model`, and the config; what
    else there is, is kept."""

    data: dict[str, Any]
    job_type: str = "rl"
    compute: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class NewSftJob(Struct, frozen=True, kw_only=True):
    """An SFT job. What else there is, is kept."""

    model: Annotated[str, Meta(min_length=1)]
    training_file_id: Annotated[str, Meta(min_length=1, description="`training_file` is taken, too")]
    training_type: str = "sft_offline"
    hyperparameters: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class TaskApp(Struct, frozen=True, kw_only=True):
    """A task app to try the environment keys on."""

    endpoint_base_url: str


class NewKey(Struct, frozen=True, kw_only=True):
    """An environment key in a sealed box."""

    name: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
    ciphertext_b64: str
