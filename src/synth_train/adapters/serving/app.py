"""The routes of wire-contract §2 to §5 over hosting, by Litestar, which also writes the OpenAPI document from them.

Every route is there under `/`, `/api` and `/api/v1`, and `/v1` as the bare form of the vault's: `Door` takes the prefix
away. What a request is about stands in its `Serving`, so the routes are built once for all servers of a process.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timezone
from functools import cache, partial, wraps
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

import msgspec
from anyio import to_thread
from litestar import Litestar, Request, Response, Router, delete, get, post
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Operation, SecurityScheme
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter, RawBody, SkipValidation
from litestar.response import Stream

from synth_train.adapters.serving import models, page, shapes
from synth_train.adapters.serving.door import BUG, Gone
from synth_train.adapters.serving.following import followed
from synth_train.adapters.serving.serving import Serving
from synth_train.adapters.serving.uploads import received
from synth_train.domain.model.events import Event
from synth_train.domain.model.hosting import JobFilter, Owner, Refusal
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind, idempotency_key
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting import wire
from synth_train.domain.usecases.hosting.chats import ChatRequest
from synth_train.domain.usecases.hosting.service import Hosting
from synth_train.version import own_version

LONGEST_LIST = 1000
"""Rows. A larger `limit` is taken for this one."""

DEEPEST_JSON = 100
"""Objects and lists within each other in a request body."""

_BLOCK = 1 << 20

_KINDS = {"rl": Kind.RL, "sft": Kind.SFT, "learning": Kind.SFT}
_FAMILIES = tuple(_KINDS)

_Request = Request[Any, Any, State]
_Host = SkipValidation[Hosting]
_Server = SkipValidation[Serving]
_Whose = SkipValidation[Owner]
_Text = FromQuery[str | None]
_Limit = Annotated[int, QueryParameter(ge=1, description=f"at most so many; more than {LONGEST_LIST} are never given")]
_Buckets = Annotated[
    int | None,
    QueryParameter(
        ge=1,
        description="give of each curve the lowest and highest value, and a gap, of about so many stretches, its first "
        f"and its last point, whatever `limit` says; more than {LONGEST_LIST} count as so many",
    ),
]
_Time = Annotated[str | None, QueryParameter(description="seconds since 1970, or an ISO time")]

T = TypeVar("T")


# What every route has in common

_REFUSALS = {
    400: "the request makes no sense",
    401: "no key came with the request",
    403: "the key is not known here",
    404: "there is no such thing, or no such route",
    408: "the rest of the request did not come",
    409: "it stands in the way of something else",
    410: "it is gone",
    411: "a request with a body needs a Content-Length",
    413: "the body is larger than is allowed here",
    416: "there is no such part of it",
    422: "a value of the request cannot be",
    429: "too much at once; try again later",
    431: "the headers are longer than is allowed here",
    500: "the backend has made a mistake",
    501: "what it takes is not installed here",
    503: "not yet, or not any more; try again later",
    507: "there is no space left",
}


def _replies(shape: type, status: int = 200, media_type: str = "application/json") -> dict[int, ResponseSpec]:
    refusals = {
        status: ResponseSpec(shapes.Refused, generate_examples=False, description=why)
        for status, why in _REFUSALS.items()
    }
    reply = ResponseSpec(shape, generate_examples=False, description=_first_line(shape), media_type=media_type)
    return {status: reply, **refusals}


def _first_line(shape: type) -> str:
    return (shape.__doc__ or "").partition("\n")[0] or "done"


def _taking(shape: type) -> type[Operation]:
    """An operation whose request body is read by hosting itself, documented all the same."""
    _, components = msgspec.json.schema_components([shape])
    schema = components[shape.__name__]

    class Taking(Operation):
        def to_schema(self) -> dict[str, Any]:
            body = {"required": True, "content": {"application/json": {"schema": schema}}}
            return {**super().to_schema(), "requestBody": body}

    return Taking


class _Upload(Operation):
    def to_schema(self) -> dict[str, Any]:
        form = {
            "type": "object",
            "required": ["purpose", "file"],
            "properties": {
                "purpose": {"type": "string", "description": "`fine-tune` for a dataset"},
                "file": {"type": "string", "format": "binary"},
            },
        }
        return {
            **super().to_schema(),
            "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": form}}},
        }


def _route(method: Any, paths: str | list[str], shape: type, *, status: int = 200, **more: Any) -> Callable[[Any], Any]:
    """Make a function a route.

    One that is not a coroutine runs in a thread: hosting waits for its database. (Litestar would see to that, too, but
    wraps a function once for each path that it stands under.)

    Args:
        shape: of the reply, for the document.
    """
    media_type = more.pop("media_type", "application/json")

    def register(function: Callable[..., Any]) -> Any:
        coroutine = function if iscoroutinefunction(function) else _in_a_thread(function)
        return method(paths, status_code=status, responses=_replies(shape, status, media_type), **more)(coroutine)

    return register


def _in_a_thread(function: Callable[..., T]) -> Callable[..., Awaitable[T]]:
    @wraps(function)
    async def run(**arguments: Any) -> T:
        return await to_thread.run_sync(partial(function, **arguments))

    return run


def _operation_id(handler: HTTPRouteHandler, method: Any, path: list[Any]) -> str:
    """Names an operation after its path."""
    words = [part if isinstance(part, str) else f"by-{part.name}" for part in path]
    return "-".join([str(method).lower(), *words]).replace("_", "-")


def _about(tail: str = "", *more: str) -> list[str]:
    """The paths of a route about one job, which has them in every family: clients ask for RL jobs as learning jobs."""
    return [f"/{family}/jobs/{{job_id:str}}{tail}" for family in (*_FAMILIES, *more)]


async def _let_in(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Find out who asks, before anything of the request is looked at.

    A coroutine, although it waits for nothing: Litestar would give a thread to anything else.
    """
    if "open" not in handler.opt:
        connection.state.owner = connection.state.serving.hosting.owner(_bearer(connection.headers))


def _serving(request: _Request) -> Serving:
    return request.state.serving  # type: ignore[no-any-return]


def _hosting(request: _Request) -> Hosting:
    return request.state.serving.hosting  # type: ignore[no-any-return]


def _owner(request: _Request) -> Owner:
    return request.state.owner  # type: ignore[no-any-return]


def _on_refusal(_: _Request, no: Refusal) -> Response[wire.Json]:
    headers = {"Retry-After": "2"} if no.status in (429, 503) else {}
    if no.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(no.body, status_code=no.status, headers=headers)


def _on_no_route(request: _Request, error: HTTPException) -> Response[wire.Json]:
    """A refusal by Litestar itself, in our words."""
    if isinstance(error, ValidationException):
        problems = "; ".join(f"{one['key']}: {one['message']}" for one in error.extra or [] if isinstance(one, dict))
        return _on_refusal(request, Refusal(422, "invalid_request", problems or error.detail))
    what = f"{request.method} {request.scope['path']}"
    if error.status_code == 404:
        return _on_refusal(request, Refusal(404, "no_such_route", f"there is no route {what}"))
    if error.status_code == 405:
        reply = _on_refusal(request, Refusal(405, "no_such_method", f"there is no route {what}"))
        reply.headers.update(error.headers or {})
        return reply
    return _on_refusal(request, Refusal(error.status_code, "refused", HTTPStatus(error.status_code).phrase))


def _on_bug(request: _Request, error: Exception) -> Response[wire.Json]:
    if isinstance(error, Gone):
        raise error
    request.state.serving.bug(error)
    return _on_refusal(request, BUG)


# Whether it is there


@_route(get, "/health", shapes.Health, opt={"open": True}, security=[{}])
def health(hosting: _Host) -> wire.Json:
    """Whether the server is there, and what it takes."""
    return wire.health(takes_config=hosting.takes_config, page=True)


# Files


@_route(post, ["/files", "/learning/files"], shapes.File, status=201, operation_class=_Upload)
async def upload(request: _Request, serving: _Server, owner: _Whose) -> wire.Json:
    """Take a file. The same bytes for the same purpose are the same file."""
    _refuse_without_length(request)
    return wire.file(await received(request, serving, owner))


@_route(get, ["/files", "/learning/files"], shapes.Files)
def files(hosting: _Host, owner: _Whose, purpose: _Text = None, after: _Text = None, limit: _Limit = 20) -> wire.Json:
    """List files, newest first."""
    return wire.files(hosting.files.listed(owner, purpose=purpose, after=after, limit=_bounded(limit)))


@_route(get, ["/files/{file_id:str}", "/learning/files/{file_id:str}"], shapes.File)
def show_file(hosting: _Host, owner: _Whose, file_id: FromPath[str]) -> wire.Json:
    """Tell how far a file has come."""
    return wire.file(hosting.files.show(owner, FileId(file_id)))


@_route(delete, ["/files/{file_id:str}", "/learning/files/{file_id:str}"], shapes.File)
def remove_file(hosting: _Host, owner: _Whose, file_id: FromPath[str]) -> wire.Json:
    """Forget a file."""
    return wire.file(hosting.files.remove(owner, FileId(file_id))) | {"status": "deleted", "deleted": True}


@_route(get, "/files/{file_id:str}/jobs", shapes.Jobs)
def jobs_on_file(
    hosting: _Host, owner: _Whose, file_id: FromPath[str], after: _Text = None, limit: _Limit = 20
) -> wire.Json:
    """List the jobs that need a file, newest first."""
    hosting.files.show(owner, FileId(file_id))
    wanted = JobFilter(file_id=FileId(file_id), after=JobId(after) if after else None, limit=_bounded(limit))
    return wire.jobs(hosting.jobs.listed(owner, wanted))


# Jobs


def _creation(family: str) -> Any:
    kind = _KINDS[family]
    shape = shapes.NewRlJob if kind is Kind.RL else shapes.NewSftJob

    @_route(
        post,
        f"/{family}/jobs",
        shapes.Job,
        status=201,
        name=f"create {family}",
        summary=f"Take {'an' if family != 'learning' else 'a'} {family} job",
        operation_class=_taking(shape),
    )
    def create(
        request: _Request,
        hosting: _Host,
        owner: _Whose,
        body: RawBody,
        key: Annotated[
            str | None,
            HeaderParameter(name="Idempotency-Key", description="one job for this key, however often it is asked for"),
        ] = None,
    ) -> wire.Json:
        _refuse_without_length(request)
        _refuse_depth(body)
        taken = hosting.jobs.create(
            owner,
            kind,
            body,
            route=f"{family}/jobs",
            key=_idempotency_key(key),
            begins=family == "sft",  # whose clients have no call that starts a job
        )
        return wire.job(taken)

    return create


def _listing(family: str) -> Any:
    kind = None if family == "learning" else _KINDS[family]

    @_route(get, f"/{family}/jobs", shapes.Jobs, name=f"list {family}", summary="List jobs, newest first")
    def listing(
        hosting: _Host,
        owner: _Whose,
        status: _Text = None,
        type: _Text = None,
        model: _Text = None,
        file_id: _Text = None,
        created_after: _Time = None,
        created_before: _Time = None,
        after: _Text = None,
        limit: _Limit = 20,
    ) -> wire.Json:
        wanted = JobFilter(
            kind=kind,
            status=status,
            training_type=type,
            model=model,
            file_id=FileId(file_id) if file_id else None,
            created_after=_time("created_after", created_after),
            created_before=_time("created_before", created_before),
            after=JobId(after) if after else None,
            limit=_bounded(limit),
        )
        return wire.jobs(hosting.jobs.listed(owner, wanted))

    return listing


@_route(get, [*_about(), *_about("/status"), "/orchestration/jobs/{job_id:str}"], shapes.Job)
def show_job(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """Tell how a job stands."""
    return wire.job(hosting.jobs.show(owner, JobId(job_id)))


@_route(post, _about("/start"), shapes.Job)
def start(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """Let a job begin."""
    return wire.with_message(hosting.jobs.start(owner, JobId(job_id)))


@_route(post, _about("/cancel"), shapes.Job)
def cancel(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """Ask a job to end."""
    return wire.with_message(hosting.jobs.cancel(owner, JobId(job_id)))


@_route(get, _about("/config"), shapes.JobConfig)
def config(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """Tell what a job was asked with."""
    return wire.job_config(hosting.jobs.show(owner, JobId(job_id)))


@_route(get, _about("/events", "orchestration"), shapes.Events)
def events(
    request: _Request,
    serving: _Server,
    owner: _Whose,
    job_id: FromPath[str],
    since_seq: FromQuery[int] = 0,
    after: Annotated[str | None, QueryParameter(description="the `event_id` or `seq` of the last one seen")] = None,
    since: _Time = None,
    limit: _Limit = 200,
) -> Response[Any]:
    """Tell what has happened to a job, oldest first; as a stream that goes on to the job's end when the request accepts
    `text/event-stream`."""
    cursor = max(since_seq, _seq(job_id, after))
    if "text/event-stream" in request.headers.get("accept", ""):
        return _followed(request, serving, owner, JobId(job_id), cursor)
    told = serving.hosting.jobs.events(owner, JobId(job_id), since=cursor, limit=_bounded(limit))
    return Response(wire.events(JobId(job_id), _later(told, _time("since", since))))


@_route(get, _about("/events/stream"), shapes.StreamedEvent, media_type="text/event-stream")
def event_stream(
    request: _Request, serving: _Server, owner: _Whose, job_id: FromPath[str], since_seq: FromQuery[int] = 0
) -> Response[Any]:
    """Tell what happens to a job as it happens, to the job's end."""
    return _followed(request, serving, owner, JobId(job_id), since_seq)


@_route(get, _about("/metrics"), shapes.Points)
def metrics(
    hosting: _Host,
    owner: _Whose,
    job_id: FromPath[str],
    after_step: FromQuery[int] = 0,
    name: _Text = None,
    limit: _Limit = 200,
    buckets: _Buckets = None,
) -> wire.Json:
    """Give the metric points of the steps after a step, whole steps at a time; or, with `buckets`, all those steps
    thinned to what a chart can show."""
    if buckets is not None:
        some = hosting.jobs.thinned_points(
            owner, JobId(job_id), buckets=_bounded(buckets), after_step=max(0, after_step), name=name
        )
        return wire.thinned_points(JobId(job_id), some)
    points = hosting.jobs.points(owner, JobId(job_id), after_step=after_step, limit=_bounded(limit), name=name)
    return wire.points(JobId(job_id), points)


@_route(get, _about("/timeline"), shapes.Timeline)
def timeline(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """Tell which statuses a job has taken on, and when."""
    return wire.timeline(hosting.jobs.show(owner, JobId(job_id)))


@_route(get, _about("/log"), shapes.Log)
def log(
    serving: _Server,
    owner: _Whose,
    job_id: FromPath[str],
    after: Annotated[int, QueryParameter(ge=0, description="bytes")] = 0,
) -> wire.Json:
    """Give a stretch of what the libraries that train have written."""
    serving.hosting.jobs.show(owner, JobId(job_id))
    text, end = serving.log_of(JobId(job_id), after)
    return {"job_id": job_id, "text": text, "next": end}


@_route(get, _about("/results"), shapes.Results)
def results(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """List the files of the model that a job has made."""
    return wire.results(hosting.results.listed(owner, JobId(job_id)))


@_route(get, _about("/results/{name:path}"), bytes, media_type="application/octet-stream")
def result(
    request: _Request, hosting: _Host, owner: _Whose, job_id: FromPath[str], name: FromPath[str]
) -> Response[Any]:
    """Give one of these files, from a byte on if the request names one (`Range: bytes=N-`)."""
    name = unquote(name.removeprefix("/"))
    sizes = {file.name: file.size for file in hosting.results.listed(owner, JobId(job_id))}
    content = hosting.results.open(owner, JobId(job_id), name)
    size, first = sizes[name], _first_byte(request, sizes[name])
    headers = {"Accept-Ranges": "bytes", "Content-Length": str(size - first)}
    if first:
        headers["Content-Range"] = f"bytes {first}-{size - 1}/{size}"

    def blocks() -> Iterator[bytes]:
        with closing(content):
            content.seek(first)
            yield from iter(lambda: content.read(_BLOCK), b"")

    status = 206 if first else 200
    return Stream(blocks(), status_code=status, headers=headers, media_type="application/octet-stream")


@_route(get, ["/jobs/{job_id:str}/runs", *_about("/runs")], shapes.Runs)
def runs(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """List the runs of a job; there is one, once it has begun."""
    return models.runs(hosting.jobs.show(owner, JobId(job_id)))


@_route(get, _about("/checkpoints"), shapes.Checkpoints)
def checkpoints(hosting: _Host, owner: _Whose, job_id: FromPath[str]) -> wire.Json:
    """List the checkpoints of a job that can be used."""
    return models.checkpoints(hosting.jobs.show(owner, JobId(job_id)))


# Models


@_route(get, ["/models", "/learning/models", "/learning/models/rl"], shapes.Models)
def all_models(
    request: _Request,
    hosting: _Host,
    owner: _Whose,
    base_model: _Text = None,
    source: Annotated[str | None, QueryParameter(description="id of the job that made the model")] = None,
    status: _Text = None,
    after: _Text = None,
    limit: _Limit = 20,
) -> wire.Json:
    """List the models that jobs have made, newest first."""
    made = models.made(
        hosting.jobs, owner, kind=Kind.RL if request.scope["path"].endswith("/rl") else None, base_model=base_model
    )
    rows = [row for row in made if source in (None, row["job_id"]) and status in (None, row["status"])]
    if after is not None:
        ids = [row["id"] for row in rows]
        rows = rows[ids.index(after) + 1 :] if after in ids else []
    return models.listed(rows[: _bounded(limit)])


@_route(get, ["/models/{model_id:path}", "/learning/models/{model_id:path}"], shapes.Model)
def show_model(hosting: _Host, owner: _Whose, model_id: FromPath[str]) -> Response[wire.Json]:
    """Tell of one model; with `/jobs` behind its id, list the job that made it."""
    # Ids hold slashes, which clients may or may not encode, so what stands behind one cannot be a route of its own.
    name = unquote(model_id.removeprefix("/"))
    of = name.removesuffix("/jobs")
    maker = hosting.results.maker(owner, of)
    return Response(models.model(maker) if of == name else wire.jobs([maker]))


@_route(delete, ["/models/{model_id:path}", "/learning/models/{model_id:path}"], shapes.Model)
def remove_model(hosting: _Host, owner: _Whose, model_id: FromPath[str]) -> wire.Json:
    """Forget a model and its files; the job that made it stays."""
    job = hosting.results.remove(owner, unquote(model_id.removeprefix("/")))
    return models.model(job) | {"status": "deleted", "deleted": True}


@_route(post, "/inference/v1/chat/completions", shapes.Completion, operation_class=_taking(ChatRequest))
def complete(request: _Request, hosting: _Host, owner: _Whose, body: RawBody) -> Response[bytes]:
    """Have a model answer: one that a job of the caller has made, or one that can be trained here."""
    _refuse_without_length(request)
    _refuse_depth(body)
    return Response(hosting.chats.complete(owner, body), media_type="application/json")


# Task apps and their keys


@_route(post, "/rl/verify_task_app", shapes.Verification, operation_class=_taking(shapes.TaskApp))
def verify_task_app(request: _Request, hosting: _Host, owner: _Whose, body: RawBody) -> wire.Json:
    """Try every environment key of the caller on a task app. No part of a key is told."""
    _refuse_without_length(request)
    return wire.verification(hosting.vault.try_task_app(owner, _text(_json(body), "endpoint_base_url")))


@_route(get, "/rl/services/{trainer_id:str}", shapes.Trainer)
def trainer(request: _Request, trainer_id: FromPath[str]) -> wire.Json:
    """Tell where a trainer takes jobs; all take them at the same place."""
    return {"training_start_url": f"{str(request.base_url).rstrip('/')}/rl/jobs"}


@_route(get, "/crypto/public-key", shapes.PublicKey)
def public_key(hosting: _Host) -> wire.Json:
    """Give the key to seal environment keys with."""
    return wire.public_key(hosting.vault.public_key())


@_route(post, "/env-keys", shapes.StoredKey, operation_class=_taking(shapes.NewKey))
def store_key(request: _Request, hosting: _Host, owner: _Whose, body: RawBody) -> wire.Json:
    """Keep an environment key, in a sealed box."""
    _refuse_without_length(request)
    key = _json(body)
    try:
        sealed = base64.b64decode(_text(key, "ciphertext_b64"), validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, "invalid_request", "ciphertext_b64: must be base64") from None
    return wire.stored_key(hosting.vault.store_key(owner, _text(key, "name"), sealed))


@_route(get, "/env-keys/verify", shapes.Presence)
def holds_key(hosting: _Host, owner: _Whose) -> wire.Json:
    """Tell whether the caller has an environment key here."""
    return {"present": hosting.vault.holds_key(owner)}


@cache
def routes() -> Litestar:
    """All routes. The `Serving` of a request is expected in its state."""
    return Litestar(
        [
            health,
            upload,
            files,
            show_file,
            remove_file,
            jobs_on_file,
            *map(_creation, _FAMILIES),
            *map(_listing, _FAMILIES),
            show_job,
            start,
            cancel,
            config,
            events,
            event_stream,
            metrics,
            timeline,
            log,
            results,
            result,
            runs,
            checkpoints,
            all_models,
            show_model,
            remove_model,
            complete,
            verify_task_app,
            trainer,
            public_key,
            store_key,
            holds_key,
            *page.HANDLERS,
        ],
        dependencies={
            "serving": Provide(_serving, sync_to_thread=False),
            "hosting": Provide(_hosting, sync_to_thread=False),
            "owner": Provide(_owner, sync_to_thread=False),
        },
        guards=[_let_in],
        exception_handlers={Refusal: _on_refusal, HTTPException: _on_no_route, Exception: _on_bug},
        openapi_config=OpenAPIConfig(
            title="synth-ai serve",
            version=own_version(),
            description="Training jobs of this machine. Every path is there under `/`, `/api` and `/api/v1`.",
            components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"key": []}],
            use_handler_docstrings=True,
            operation_id_creator=_operation_id,
            render_plugins=[JsonRenderPlugin(path="/openapi.json")],
            openapi_router=Router("/openapi", route_handlers=[], opt={"open": True}, include_in_schema=False),
        ),
        request_max_body_size=None,  # the door has looked at it
        logging_config=None,
        debug=False,
    )


# Reading requests


def _bearer(headers: Mapping[str, str]) -> Secret | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return Secret(key.strip()) if scheme.lower() == "bearer" else None


def _idempotency_key(given: str | None) -> IdempotencyKey | None:
    try:
        return None if given is None else idempotency_key(given)
    except ValueError as reason:
        raise Refusal(400, "invalid_idempotency_key", str(reason)) from None


def _refuse_without_length(request: _Request) -> None:
    if "content-length" not in request.headers:
        raise Refusal(411, "no_length", "the request needs a Content-Length")


def _refuse_depth(body: bytes) -> None:
    """A parser that follows every bracket goes as deep as it is sent."""
    if body.count(b"[") + body.count(b"{") <= DEEPEST_JSON:
        return  # most requests: they are not looked at byte by byte
    depth, inside, escaped = 0, False, False
    for byte in body:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte in b"[{":
            depth += 1
            if depth > DEEPEST_JSON:
                raise Refusal(400, "invalid_json", f"the request body is nested deeper than {DEEPEST_JSON}")
        elif byte in b"]}":
            depth -= 1


def _json(body: bytes) -> dict[str, object]:
    try:
        read = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Refusal(400, "invalid_json", "the request body is no JSON object")
    return read


def _text(body: dict[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise Refusal(422, "invalid_request", f"{name}: must be a text")
    return value


def _bounded(limit: int) -> int:
    return min(limit, LONGEST_LIST)


def _time(name: str, given: str | None) -> float | None:
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = _iso(given)
    if not math.isfinite(seconds):
        raise Refusal(422, "invalid_request", f"{name}: must be seconds since 1970 or an ISO time")
    return seconds


def _iso(given: str) -> float:
    try:
        time = datetime.fromisoformat(given.replace("Z", "+00:00"))
        return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def _seq(job_id: str, cursor: str | None) -> int:
    """The `seq` that an event is named by."""
    if cursor is None:
        return 0
    digits = cursor.removeprefix(f"{job_id}:")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise Refusal(422, "invalid_request", "after: must be the event_id or the seq of an event of this job")
    return int(digits)


def _later(events: list[Event], since: float | None) -> list[Event]:
    return events if since is None else [event for event in events if event.created_at > since]


def _first_byte(request: _Request, size: int) -> int:
    """Where the answer to a request for a file begins; what is no simple range counts as none."""
    unit, _, span = request.headers.get("range", "").partition("=")
    digits = span.strip().removesuffix("-")
    if unit.strip() != "bytes" or not span.strip().endswith("-") or not (digits.isascii() and digits.isdigit()):
        return 0
    first = int(digits)
    if first >= size:
        raise Refusal(416, "no_such_range", f"the file has {size} bytes")
    return first


def _followed(request: _Request, serving: Serving, owner: Owner, job_id: JobId, since: int) -> Response[Any]:
    last = request.headers.get("last-event-id")
    # Here, where a refusal can still be told: the stream itself has been accepted before its first event is looked for.
    serving.refuse_followers()
    serving.hosting.jobs.show(owner, job_id)
    return Stream(
        followed(serving, owner, job_id, max(since, _seq(job_id, last))),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )
