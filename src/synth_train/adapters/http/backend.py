"""A training service over HTTP: every port of `ports/backend.py`, one request each (wire-contract §2, §3, §5)."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from synth_train.adapters.http.body import Body, Form
from synth_train.adapters.http.reading import decoded, excerpt, one_line, retry_after
from synth_train.adapters.http.session import LARGEST_REPLY, Download, NoReply, Reply, Session
from synth_train.domain.model.addresses import address, same_origin, without_credentials
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendRefused,
    BackendUnreachable,
    CredentialsError,
    NotKnown,
    NotOffered,
    TrainingError,
    UnexpectedReply,
    UsageError,
)
from synth_train.domain.model.events import Event, Point
from synth_train.domain.model.hosting import JobFilter, ResultFile
from synth_train.domain.model.jobs import (
    Accepted,
    Features,
    FileId,
    FileState,
    IdempotencyKey,
    JobId,
    JobState,
    JobSummary,
    Kind,
    Phase,
    Verification,
    phase_of,
)
from synth_train.domain.model.replies import (
    REASONS,
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
    verification_in,
)
from synth_train.domain.model.secret import Secret, redact
from synth_train.domain.model.settings import ENVIRONMENT_KEY
from synth_train.domain.model.showing import plain
from synth_train.domain.model.task_app import Trouble
from synth_train.ports.backend import Backend, BackendsPort, Upload
from synth_train.ports.streams import Readable

T = TypeVar("T")

GET_TIME = 30.0
POST_TIME = 60.0
"""Seconds that a request may take, all in all (wire-contract §1.3)."""

MOST_REDIRECTS = 10

_BLOCK = 1 << 20

LONGEST_SAYING = 500
"""Characters of a server's error text that a message shows."""

_SEALED_BOX = "libsodium.sealedbox.v1"
_KEY_SIZE = 32
_API_SUFFIX = re.compile(r"/api(?:/v1)?$")
_IN_A_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")

_WRONG_BACKEND = "Something other than a training backend seems to answer there. Check the backend URL (--backend)."
_NO_ROUTE = "Check the backend URL (--backend): many backends have their routes below /api."
_REMEDIES = {
    Trouble.NAME: "Check the host in the backend URL (--backend), and the network.",
    Trouble.REFUSED: "Nothing listens there. Check host and port of the backend URL (--backend), and that it runs.",
    Trouble.TLS: "If it is the scheme or the port of the backend URL that is wrong, mend it (--backend). If the "
    "certificate is of an authority of your own, name its file in REQUESTS_CA_BUNDLE or SSL_CERT_FILE.",
    Trouble.PROXY: "Check HTTP_PROXY and HTTPS_PROXY, or name the host in NO_PROXY to ask it directly.",
}
_TRY_AGAIN = "Check the network and the backend URL (--backend), then run the same command again."


class HttpBackend(Backend):
    """The backend at `base`, for the holder of `api_key`.

    The key goes to the origin of `base` and nowhere else. A user name and password in `base` are not used.

    Raises:
        UsageError: `base` is no http(s) URL.
        CredentialsError: `api_key` cannot stand in a header.
    """

    def __init__(self, base: str, *, api_key: Secret | None, now: Callable[[], float] = time.time) -> None:
        try:
            found = address(base)
        except ValueError as error:
            shown = plain(without_credentials(base))
            raise UsageError(f"the backend URL {shown!r} {error}", hint="It looks like https://host/api.") from None
        if api_key is not None and not _IN_A_HEADER.fullmatch(api_key.reveal()):
            raise CredentialsError(
                "SYNTH_API_KEY has characters in it that no key has: a line end, a blank at an end, or a letter "
                "that is not ASCII",
                hint="Copy the key again.",
            )
        self._base = found.url
        self._key = api_key
        self._secrets = tuple(secret for secret in (api_key, found.password) if secret)
        self._now = now
        self._session = Session()

    @property
    def base(self) -> str:
        """See `BackendPort.base`."""
        return self._base

    # -- files and jobs

    def features(self) -> Features:
        """See `BackendPort.features`."""
        reply = self._get(f"{self._base}/health")
        if reply.status == 404 and not urlsplit(self._base).path:
            below = self._get(f"{self._base}/api/health")
            if below.status != 404:
                self._base, reply = f"{self._base}/api", below
        try:
            body = self._body(reply)
        except BackendBusy:
            raise
        except TrainingError:
            body = None
        return features_in(body, self._base)

    def upload(self, upload: Upload) -> FileId:
        """See `BackendPort.upload`."""
        url = f"{self._base}/files"
        with closing(Form({"purpose": upload.purpose}, upload.filename, upload.open(), upload.size)) as form:
            headers = self._headers(content_type=form.content_type)
            reply = self._told("POST", url, lambda: self._session.upload(url, headers, Body(form, form.size)))
        return self._read(reply, file_id_in)

    def file(self, file_id: FileId) -> FileState:
        """See `BackendPort.file`."""
        reply = self._get(f"{self._base}/files/{_segment(file_id)}")
        return self._read(reply, lambda body: file_state_in(body, file_id), by_id=True)

    def create(self, kind: Kind, request: bytes, key: IdempotencyKey) -> Accepted:
        """See `BackendPort.create`."""
        reply = self._post(f"{self._base}/{kind.route}", request, idempotency_key=key)
        return self._read(
            reply, lambda body: Accepted(job_id=job_id_in(body), status=reply.status, reply=one_line(body))
        )

    def start(self, kind: Kind, job_id: JobId) -> None:
        """See `BackendPort.start`."""
        reply = self._post(f"{self._base}/{kind.route}/{_segment(job_id)}/start", b"{}")
        if reply.status not in (404, 405):
            self._check(reply)

    def job(self, kind: Kind, job_id: JobId) -> JobState:
        """See `BackendPort.job`."""
        reply = self._get(f"{self._base}/{kind.route}/{_segment(job_id)}")
        return self._read(reply, lambda body: job_state_in(body, job_id), by_id=True)

    # -- what has happened to jobs, and what can be done about them

    def events(self, kind: Kind, job_id: JobId, *, after: int = 0, limit: int = 200) -> Sequence[Event]:
        """See `JobFeed.events`."""
        events = self._about(kind, job_id, "events", {"since_seq": after, "limit": limit}, events_in)
        return [event for event in events if event.seq > after][:limit]

    def points(self, kind: Kind, job_id: JobId, *, after_step: int = 0, limit: int = 200) -> Sequence[Point]:
        """See `JobFeed.points`."""
        query = {"after_step": after_step, "limit": limit}
        points = [p for p in self._about(kind, job_id, "metrics", query, points_in) if p.step > after_step]
        steps = sorted({point.step for point in points})
        if len(points) < limit or len(steps) < 2:
            return points
        # The last step may have been cut by the limit; it comes whole when it is asked for as the first one.
        return [point for point in points if point.step < steps[-1]]

    def list_jobs(self, wanted: JobFilter) -> Sequence[JobSummary]:
        """See `JobAdmin.list_jobs`. What a backend does not filter is filtered here, as far as its page goes."""
        all_kinds = f"{self._base}/learning/jobs?{_query(wanted, iso_times=True)}"
        if wanted.kind is None:
            reply = self._get(all_kinds)
        else:
            reply = self._get(f"{self._base}/{wanted.kind.value}/jobs?{_query(wanted)}")
            if reply.status in (404, 405):
                reply = self._get(all_kinds)
        rows = self._read(reply, job_summaries_in)
        ids = [row.job_id for row in rows]
        if wanted.after in ids:  # this backend takes no cursor
            rows = rows[ids.index(wanted.after) + 1 :]
        return [row for row in rows if _admits(wanted, row)][: wanted.limit]

    def cancel(self, kind: Kind, job_id: JobId) -> JobState:
        """See `JobAdmin.cancel`. A reply that does not say how the job stands makes it a second request."""
        reply = self._post(f"{self._base}/{kind.route}/{_segment(job_id)}/cancel", b"{}")
        self._check(reply, by_id=not self._misses_route(reply))
        try:
            body = decoded(reply.content, self._secrets)
            if isinstance(body, dict):
                body.pop("message", None)  # it is about the request, and no reason for how the job stands
            state = job_state_in(body, job_id)
        except (ValueError, UnexpectedReply):
            return self.job(kind, job_id)
        return state if state.phase is not Phase.UNKNOWN else self.job(kind, job_id)

    def request_of(self, kind: Kind, job_id: JobId) -> bytes:
        """See `JobAdmin.request_of`."""
        return self._about(kind, job_id, "config", {}, job_request_in)

    def results(self, kind: Kind, job_id: JobId) -> Sequence[ResultFile]:
        """See `JobAdmin.results`. The hosted backend has no such route."""
        return self._about(kind, job_id, "results", {}, result_files_in)

    def open_result(self, kind: Kind, job_id: JobId, name: str, *, start: int = 0) -> Readable:
        """See `JobAdmin.open_result`. A server without ranges gives all of it, and the beginning is passed over."""
        path = "/".join(map(_segment, name.split("/")))
        url = f"{self._base}/{kind.route}/{_segment(job_id)}/results/{path}"
        headers = self._headers() | {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        got = self._told("GET", url, lambda: self._session.download(url, headers, within=GET_TIME))
        if isinstance(got, Reply):
            self._check(got, by_id=not self._misses_route(got))
            raise UnexpectedReply(f"{_place(got)}, which is no file", hint=_WRONG_BACKEND, status=got.status)
        stream = _Fetched(got, url, self._told)
        if got.first > start:
            stream.close()
            raise UnexpectedReply(f"GET {url}: asked for byte {start}, and got byte {got.first}", hint=_WRONG_BACKEND)
        stream.pass_over(start - got.first)
        return stream

    def page(self, job_id: JobId) -> str | None:
        """See `JobAdmin.page`. What does not say that it has one has none."""
        reply = self._get(f"{self._base}/health")
        try:
            body = self._body(reply)
        except BackendBusy:
            raise
        except TrainingError:
            return None
        return page_in(body, _API_SUFFIX.sub("", self._base), job_id)

    def _about(
        self, kind: Kind, job_id: JobId, what: str, query: Mapping[str, int], meaning: Callable[[object], T]
    ) -> T:
        """Read what a backend keeps about a job. Some keep it for RL jobs below the route of SFT jobs only."""
        tail = f"{_segment(job_id)}/{what}" + (f"?{urlencode(query)}" if query else "")
        reply = self._get(f"{self._base}/{kind.route}/{tail}")
        if kind is Kind.RL and self._misses_route(reply):
            reply = self._get(f"{self._base}/{Kind.SFT.route}/{tail}")
        return self._read(reply, meaning, by_id=not self._misses_route(reply))

    def _misses_route(self, reply: Reply) -> bool:
        if reply.status < 400:
            return False
        try:
            return misses_route(reply.status, decoded(reply.content, self._secrets))
        except ValueError:
            return misses_route(reply.status, None)

    # -- the task app and its key

    def verify_task_app(self, task_url: str) -> Verification:
        """See `TaskAppVerifier.verify_task_app`."""
        reply = self._post(f"{self._base}/rl/verify_task_app", msgspec.json.encode({"endpoint_base_url": task_url}))
        try:
            body = self._body(reply)
        except NotOffered:
            raise
        except BackendRefused as error:
            return Verification(ok=False, candidates=0, statuses=(), report=str(error))
        return verification_in(reply.status, body)

    def holds_environment_key(self) -> bool:
        """See `EnvKeyVault.holds_environment_key`."""
        return self._read(self._vault("env-keys/verify"), _presence_in)

    def public_key(self) -> bytes:
        """See `EnvKeyVault.public_key`."""
        return self._read(self._vault("crypto/public-key"), _public_key_in)

    def store_environment_key(self, sealed: bytes) -> None:
        """See `EnvKeyVault.store_environment_key`."""
        self._check(
            self._vault(
                "env-keys",
                msgspec.json.encode({"name": ENVIRONMENT_KEY, "ciphertext_b64": base64.b64encode(sealed).decode()}),
            )
        )

    def _vault(self, route: str, content: bytes | None = None) -> Reply:
        """Ask a route of wire-contract §5, which hangs on the root and not on the base, under either of its names."""
        root = _API_SUFFIX.sub("", self._base)

        def ask(prefix: str) -> Reply:
            url = f"{root}/{prefix}/{route}"
            return self._get(url) if content is None else self._post(url, content)

        reply = ask("api/v1")
        return ask("v1") if reply.status in (404, 405) else reply

    # -- one request

    def _get(self, url: str) -> Reply:
        headers = self._headers()
        return self._told(
            "GET", url, lambda: self._session.get(url, headers, within=GET_TIME, redirects=MOST_REDIRECTS)
        )

    def _post(self, url: str, content: bytes, *, idempotency_key: str | None = None) -> Reply:
        headers = self._headers(content_type="application/json", idempotency_key=idempotency_key)
        return self._told("POST", url, lambda: self._session.post(url, headers, content, within=POST_TIME))

    def _headers(self, *, content_type: str | None = None, idempotency_key: str | None = None) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {self._key.reveal()}" if self._key else None,
            "Content-Type": content_type,
            "Idempotency-Key": idempotency_key,
        }
        return {name: value for name, value in headers.items() if value is not None}

    def _told(self, method: str, url: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except NoReply as error:
            detail = f" ({plain(redact(error.detail, self._secrets))})" if error.detail else ""
            through = f", through the proxy {error.proxy}" if error.proxy else ""
            remedy = _REMEDIES.get(error.trouble, _TRY_AGAIN)
            raise BackendUnreachable(
                f"{method} {url}: {error.trouble.value}{detail}{through}", hint=remedy, sent=error.sent
            ) from error.__cause__

    # -- one reply

    def _read(self, reply: Reply, meaning: Callable[[object], T], *, by_id: bool = False) -> T:
        """What a good reply means to one of the readers in `domain.model.replies`."""
        body = self._body(reply, by_id=by_id)
        try:
            return meaning(body)
        except UnexpectedReply as error:
            raise UnexpectedReply(f"{_place(reply)}: {error}", hint=_WRONG_BACKEND, status=reply.status) from None

    def _body(self, reply: Reply, *, by_id: bool = False) -> object:
        """The JSON of a good reply. `by_id` tells that the URL names a file or a job, which may be what is missing."""
        self._check(reply, by_id=by_id)
        if reply.cut:
            raise UnexpectedReply(
                f"{_place(reply)}: the reply is longer than {LARGEST_REPLY >> 20} MiB",
                hint=_WRONG_BACKEND,
                status=reply.status,
            )
        try:
            return decoded(reply.content, self._secrets)
        except ValueError:
            kind = plain(reply.content_type) or "no content type"
            shown = excerpt(reply.content, self._secrets) or "(empty)"
            raise UnexpectedReply(
                f"{_place(reply)}, but the reply is no JSON ({kind}): {shown}",
                hint=_WRONG_BACKEND,
                status=reply.status,
            ) from None

    def _check(self, reply: Reply, *, by_id: bool = False) -> None:
        if reply.status >= 400:
            what = f"{_place(reply)}: {self._saying(reply)}"
            if reply.status in (404, 405, 410) and not by_id:
                raise NotOffered(what, hint=_NO_ROUTE, status=reply.status)
            raise refusal(reply.status, what, retry_after=retry_after(reply.retry_after, self._now()))
        if reply.status >= 300:
            raise self._redirected(reply)

    def _saying(self, reply: Reply) -> str:
        """What an error reply says, in its own words if it has some, with whatever else it holds behind them."""
        try:
            body = decoded(reply.content, self._secrets)
        except ValueError:
            return excerpt(reply.content, self._secrets) or "(empty)"
        said = says(body)
        rest = {k: v for k, v in body.items() if k not in REASONS} if isinstance(body, dict) else body
        if not said:
            return plain(one_line(body), longest=LONGEST_SAYING)
        return plain(f"{said} {one_line(rest)}" if rest else said, longest=LONGEST_SAYING)

    def _redirected(self, reply: Reply) -> UnexpectedReply:
        """A redirect that was not followed, and the base that would make it needless."""
        if reply.location is None:
            return UnexpectedReply(f"{_place(reply)}, which is no answer", hint=_WRONG_BACKEND, status=reply.status)
        to = plain(redact(reply.location, self._secrets))
        if reply.method == "POST":
            why = "which is not followed, as no POST is"
        elif same_origin(self._base, reply.location):
            why = f"which is one redirect too many after {MOST_REDIRECTS}"
        else:
            why = "which is not followed: it is on another origin"
        route = reply.url.removeprefix(self._base)
        better = f" to {to.removesuffix(route)}" if to.endswith(route) else ""
        hint = f"Change the backend URL (--backend){better}, if that is the place where your key should go."
        if to == reply.url:
            hint = "That is the same address again: whoever runs this backend has to mend it."
        return UnexpectedReply(f"{_place(reply)}, moved to {to}, {why}", hint=hint, status=reply.status)


class _Fetched(Readable):
    """A download whose trouble is told as the backend's."""

    def __init__(self, download: Download, url: str, told: Callable[[str, str, Callable[[], bytes]], bytes]) -> None:
        self._download = download
        self._url = url
        self._told = told

    def read(self, size: int = -1, /) -> bytes:
        return self._told("GET", self._url, lambda: self._download.read(size))

    def pass_over(self, count: int) -> None:
        """Read so many bytes for nothing, or all that there are."""
        while count and (block := self.read(min(count, _BLOCK))):
            count -= len(block)

    def close(self) -> None:
        self._download.close()


class HttpBackends(BackendsPort):
    """Backends by their URL."""

    def connect(self, base: str, api_key: Secret | None) -> Backend:
        """See `BackendsPort.connect`."""
        return HttpBackend(base, api_key=api_key)


def _place(reply: Reply) -> str:
    return f"{reply.method} {reply.url}: {reply.status}"


def _segment(id: str) -> str:
    """An id as one segment of a path.

    Raises:
        NotKnown: it would be another path, however it is encoded.
    """
    if id in ("", ".", ".."):
        raise NotKnown(f"{id!r} is no id of a file or a job")
    return quote(id, safe="")


def _query(wanted: JobFilter, *, iso_times: bool = False) -> str:
    """A filter as a query; each route takes times in its own form (wire-contract §4.1)."""

    def time_of(seconds: float | None) -> object:
        if seconds is None or not iso_times:
            return seconds
        return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat()

    given = {
        "status": wanted.status,
        "type": wanted.training_type,
        "model": wanted.model,
        "file_id": wanted.file_id,
        "created_after": time_of(wanted.created_after),
        "created_before": time_of(wanted.created_before),
        "after": wanted.after,
        "limit": wanted.limit,
    }
    return urlencode({name: value for name, value in given.items() if value is not None})


def _admits(wanted: JobFilter, row: JobSummary) -> bool:
    """Whether a row is one of those wanted, as far as it tells."""
    at = row.created_at
    return (
        wanted.kind in (None, row.kind or wanted.kind)
        and (wanted.status is None or _same_status(wanted.status, row))
        and (wanted.created_after is None or at is None or at > wanted.created_after)
        and (wanted.created_before is None or at is None or at < wanted.created_before)
    )


def _same_status(word: str, row: JobSummary) -> bool:
    phase = phase_of(word)
    return row.word.lower() == word.strip().lower() or (phase.over and phase is row.phase)


def _presence_in(body: object) -> bool:
    present = body.get("present") if isinstance(body, dict) else None
    if not isinstance(present, bool):
        # To take this for "no" would replace a key that others may use.
        raise UnexpectedReply("the reply does not say whether a key is present")
    return present


def _public_key_in(body: object) -> bytes:
    reply = body if isinstance(body, dict) else {}
    algorithm = reply.get("alg", _SEALED_BOX)
    if algorithm != _SEALED_BOX:
        raise UnexpectedReply(f"the key is for {plain(str(algorithm))}, and only {_SEALED_BOX} is known here")
    try:
        key = base64.b64decode(reply.get("public_key", ""), validate=True)
    except (TypeError, ValueError):
        key = b""
    if len(key) != _KEY_SIZE:
        raise UnexpectedReply(f"the reply has no public key of {_KEY_SIZE} bytes in base64")
    return key
