"""The routes of wire-contract §2 to §5 over hosting, for whichever server reads the requests.

Every route is there under `/`, `/api` and `/api/v1`; `/v1` does too, as the bare form of the vault's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec import Struct

from synth_train.adapters.serving.multipart import Part, boundary_in, parts_in
from synth_train.domain.model.hosting import JobFilter, Owner, Refusal
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind, idempotency_key
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting import wire
from synth_train.domain.usecases.hosting.files import Label
from synth_train.domain.usecases.hosting.service import Hosting

LARGEST_JSON = 4 << 20
"""Bytes of a request body that is no upload."""

_FORM_AROUND_A_FILE = 1 << 20
"""Bytes that a form may have beside its file."""

_LONGEST_LIST = 1000

_KINDS = {"rl": Kind.RL, "sft": Kind.SFT, "learning": Kind.SFT}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request whose body has not been read yet."""

    method: str
    path: str
    """Percent-encoded as it came, without the query."""
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    length: int | None
    """Bytes of the body as announced; None when nothing was."""
    read: Callable[[int], bytes]
    """Gives at most so many bytes of the body, empty at its end."""

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The query; of a name given twice the last value counts."""
        return {name: values[-1] for name, values in parse_qs(self.query).items()}


class Reply(Struct, frozen=True, kw_only=True):
    """What is sent back, as JSON."""

    status: int
    body: wire.Json


def refused(no: Refusal) -> Reply:
    """The reply to a refused request."""
    return Reply(status=no.status, body=no.body)


class Routes:
    """Answers requests. Every refusal is a reply; only bugs come out."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    def __call__(self, request: Request) -> Reply:
        try:
            return self._answer(request, _segments(request.path))
        except Refusal as no:
            return refused(no)

    def _answer(self, request: Request, path: tuple[str, ...]) -> Reply:
        if path == ("health",) and request.method == "GET":
            return _ok(wire.health(takes_config=self._hosting.takes_config))
        owner = self._hosting.owner(_bearer(request))
        match (request.method, *path):
            case ("POST", "files") | ("POST", "learning", "files"):
                return self._upload(owner, request)
            case ("GET", "files") | ("GET", "learning", "files"):
                return self._files(owner, request)
            case ("GET", "files", id) | ("GET", "learning", "files", id):
                return _ok(wire.file(self._hosting.files.show(owner, FileId(id))))
            case ("DELETE", "files", id) | ("DELETE", "learning", "files", id):
                file = self._hosting.files.remove(owner, FileId(id))
                return _ok(wire.file(file) | {"status": "deleted", "deleted": True})
            case ("GET", "files", id, "jobs"):
                self._hosting.files.show(owner, FileId(id))
                return self._jobs(owner, request, file_id=FileId(id))
            case ("POST", "rl", "verify_task_app"):
                url = _text(_json(request), "endpoint_base_url")
                return _ok(wire.verification(self._hosting.vault.try_task_app(owner, url)))
            case (method, "rl" | "sft" | "learning" as family, "jobs", *rest):
                return self._about_jobs(owner, request, method, family, tuple(rest))
            case ("GET", "crypto", "public-key"):
                return _ok(wire.public_key(self._hosting.vault.public_key()))
            case ("POST", "env-keys"):
                return self._store_key(owner, request)
            case ("GET", "env-keys", "verify"):
                return _ok({"present": self._hosting.vault.holds_key(owner)})
            case _:
                raise _no_route(request, path)

    def _about_jobs(self, owner: Owner, request: Request, method: str, family: str, rest: tuple[str, ...]) -> Reply:
        jobs = self._hosting.jobs
        match (method, *rest):
            case ("POST",):
                body = _body(request)
                job = jobs.create(owner, _KINDS[family], body, route=f"{family}/jobs", key=_idempotency_key(request))
                return Reply(status=201, body=wire.job(job))
            case ("GET",):
                return self._jobs(owner, request, kind=None if family == "learning" else _KINDS[family])
            case ("GET", id) | ("GET", id, "status"):
                return _ok(wire.job(jobs.show(owner, JobId(id))))
            case ("GET", id, "config"):
                return _ok(wire.job_config(jobs.show(owner, JobId(id))))
            case ("GET", id, "events"):
                since, limit = _number(request, "since_seq", 0), _limit(request, 200)
                return _ok(wire.events(JobId(id), jobs.events(owner, JobId(id), since=since, limit=limit)))
            case ("GET", id, "metrics"):
                after, limit = _number(request, "after_step", 0), _limit(request, 200)
                name = request.parameters.get("name")
                points = jobs.points(owner, JobId(id), after_step=after, limit=limit, name=name)
                return _ok(wire.points(JobId(id), points))
            case ("GET", id, "timeline"):
                return _ok(wire.timeline(jobs.show(owner, JobId(id))))
            case ("POST", id, "start"):
                return _ok(wire.with_message(jobs.start(owner, JobId(id))))
            case ("POST", id, "cancel"):
                return _ok(wire.with_message(jobs.cancel(owner, JobId(id))))
            case _:
                raise _no_route(request, (family, "jobs", *rest))

    def _upload(self, owner: Owner, request: Request) -> Reply:
        boundary = boundary_in(request.headers.get("content-type", ""))
        _refuse_longer_than(self._hosting.files.largest + _FORM_AROUND_A_FILE, request)
        parts = parts_in(request.read, boundary)
        fields: dict[str, str] = {}

        def next_file() -> Part | None:
            for part in parts:
                if part.name == "file":
                    return part
                fields[part.name] = part.text()
            return None

        file = next_file()
        if file is None:
            raise Refusal(400, "no_file", "the form has no `file`")

        def label() -> Label:
            if next_file() is not None:
                raise Refusal(400, "two_files", "the form has more than one `file`")
            return Label(filename=file.filename, purpose=fields.get("purpose", ""))

        return Reply(status=201, body=wire.file(self._hosting.files.upload(owner, file.content, label)))

    def _files(self, owner: Owner, request: Request) -> Reply:
        given = request.parameters
        files = self._hosting.files.listed(
            owner, purpose=given.get("purpose"), after=given.get("after"), limit=_limit(request, 20)
        )
        return _ok(wire.files(files))

    def _jobs(
        self, owner: Owner, request: Request, *, kind: Kind | None = None, file_id: FileId | None = None
    ) -> Reply:
        given = request.parameters
        after, about = given.get("after"), given.get("file_id")
        wanted = JobFilter(
            kind=kind,
            status=given.get("status"),
            training_type=given.get("type"),
            model=given.get("model"),
            file_id=file_id or (FileId(about) if about else None),
            created_after=_time(request, "created_after"),
            created_before=_time(request, "created_before"),
            after=JobId(after) if after else None,
            limit=_limit(request, 20),
        )
        return _ok(wire.jobs(self._hosting.jobs.listed(owner, wanted)))

    def _store_key(self, owner: Owner, request: Request) -> Reply:
        body = _json(request)
        try:
            sealed = base64.b64decode(_text(body, "ciphertext_b64"), validate=True)
        except (binascii.Error, ValueError):
            raise Refusal(422, "invalid_request", "ciphertext_b64: must be base64") from None
        return _ok(wire.stored_key(self._hosting.vault.store_key(owner, _text(body, "name"), sealed)))


def _segments(path: str) -> tuple[str, ...]:
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
    for prefix in ("api", "v1"):
        if segments[0] == prefix and len(segments) > 1:
            segments = segments[1:]
    return tuple(segments)


def _ok(body: wire.Json) -> Reply:
    return Reply(status=200, body=body)


def _no_route(request: Request, path: tuple[str, ...]) -> Refusal:
    return Refusal(404, "no_such_route", f"there is no route {request.method} /{'/'.join(path)}")


def _bearer(request: Request) -> Secret | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return Secret(key.strip()) if scheme.lower() == "bearer" else None


def _idempotency_key(request: Request) -> IdempotencyKey | None:
    given = request.headers.get("idempotency-key")
    try:
        return None if given is None else idempotency_key(given)
    except ValueError as reason:
        raise Refusal(400, "invalid_idempotency_key", str(reason)) from None


def _refuse_longer_than(largest: int, request: Request) -> None:
    if request.length is None:
        raise Refusal(411, "no_length", "the request needs a Content-Length")
    if request.length > largest:
        raise Refusal(413, "too_large", f"the request body is larger than the {largest} bytes allowed here")


def _body(request: Request) -> bytes:
    _refuse_longer_than(LARGEST_JSON, request)
    return b"".join(_blocks(request))


def _blocks(request: Request) -> Iterator[bytes]:
    return iter(lambda: request.read(LARGEST_JSON), b"")


def _json(request: Request) -> dict[str, object]:
    try:
        body = msgspec.json.decode(_body(request))
    except (msgspec.DecodeError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refusal(400, "invalid_json", "the request body is no JSON object")
    return body


def _text(body: dict[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise Refusal(422, "invalid_request", f"{name}: must be a text")
    return value


def _number(request: Request, name: str, default: int) -> int:
    given = request.parameters.get(name)
    try:
        return default if given is None else int(given)
    except ValueError:
        raise Refusal(422, "invalid_request", f"{name}: must be an integer") from None


def _limit(request: Request, default: int) -> int:
    limit = _number(request, "limit", default)
    if limit < 1:
        raise Refusal(422, "invalid_request", "limit: must be at least 1")
    return min(limit, _LONGEST_LIST)


def _time(request: Request, name: str) -> float | None:
    given = request.parameters.get(name)
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(given.replace("Z", "+00:00"))
    except ValueError:
        raise Refusal(422, "invalid_request", f"{name}: must be seconds since 1970 or an ISO time") from None
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
