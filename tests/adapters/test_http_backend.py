"""What is particular to the backend over HTTP; what it has in common with the others is in tests/contracts."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

import pytest

from cases.scripted_server import PAGE, Script, ScriptedServer
from cases.scripted_server import Reply as Scripted
from support.raw_server import RawServer, reply
from synth_train.adapters.http.backend import HttpBackend, HttpBackends
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnreachable,
    CredentialsError,
    InvalidDataset,
    KeyRefused,
    NotKnown,
    NotOffered,
    TrainingError,
    UnexpectedReply,
    UsageError,
)
from synth_train.domain.model.jobs import FileId, FilePhase, IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.secret import Secret
from synth_train.ports.backend import Upload

KEY = Secret("fake-synth-key-0001-abcdefgh")
IDEMPOTENCY = IdempotencyKey("K-77")
NOW = 1_700_000_000.0

Call = Callable[[HttpBackend], object]


def upload_of(content: bytes, filename: str = "train.jsonl") -> Upload:
    return Upload(filename=filename, purpose="fine-tune", size=len(content), open=lambda: io.BytesIO(content))


def create(backend: HttpBackend) -> object:
    return backend.create(Kind.SFT, b'{"model": "m"}', IDEMPOTENCY)


def upload(backend: HttpBackend) -> object:
    return backend.upload(upload_of(b"{}\n"))


def read_job(backend: HttpBackend) -> object:
    return backend.job(Kind.SFT, JobId("job_1"))


def read_file(backend: HttpBackend) -> object:
    return backend.file(FileId("file_1"))


def verify(backend: HttpBackend) -> object:
    return backend.verify_task_app("http://127.0.0.1:8001")


POSTS: list[tuple[str, Call]] = [
    ("POST /api/files", upload),
    ("POST /api/learning/jobs", create),
    ("POST /api/rl/verify_task_app", verify),
]
CALLS: list[tuple[str, Call]] = [
    *POSTS,
    ("GET /api/files/file_1", read_file),
    ("GET /api/learning/jobs/job_1", read_job),
]


def failure(call: Call, backend: HttpBackend) -> TrainingError:
    with pytest.raises(TrainingError) as caught:
        call(backend)
    error = caught.value
    for text in (str(error), repr(error), error.hint, str(error.__cause__)):
        assert "fake-syn" not in text
        assert "\n" not in text
    return error


def on(script: Script, call: Call, *, key: Secret | None = KEY) -> TrainingError:
    """What a call comes to on a backend that plays `script`."""
    with ScriptedServer(script) as server:
        return failure(call, HttpBackend(server.base, api_key=key, now=lambda: NOW))


# -- the base and the key


@pytest.mark.parametrize(
    ("base", "kept"),
    [
        ("https://api.example.com/", "https://api.example.com"),
        ("http://127.0.0.1:8000/api//", "http://127.0.0.1:8000/api"),
        ("http://user:fake-url-password@127.0.0.1:8000/api", "http://127.0.0.1:8000/api"),
    ],
)
def test_the_base_has_no_slash_at_its_end_and_no_login(base: str, kept: str) -> None:
    assert HttpBackends().connect(base, KEY).base == kept


@pytest.mark.parametrize("base", ["api.example.com", "ftp://x", "http://user:fake-url-password@", "http://h:x", "h\n"])
def test_what_is_no_base_is_refused(base: str) -> None:
    with pytest.raises(UsageError) as caught:
        HttpBackend(base, api_key=KEY)

    assert "backend URL" in str(caught.value)
    assert "fake-url-password" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("key", ["two\nlines", " at-front", "at-back ", "schlüssel", "\x7f"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(key: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        HttpBackend("http://127.0.0.1:1", api_key=Secret(key))

    assert key.strip() not in str(caught.value)
    assert "SYNTH_API_KEY" in str(caught.value)


def test_nothing_of_the_backend_shows_its_key() -> None:
    backend = HttpBackend("http://user:fake-url-password@127.0.0.1:1", api_key=KEY)

    shown = f"{backend!r} {backend} {vars(backend)}"
    assert "fake-syn" not in shown
    assert "fake-url" not in shown


def test_the_bearer_header_beats_a_login_in_the_url() -> None:
    with ScriptedServer({"GET /api/learning/jobs/*": [{"json": {"status": "running"}}]}) as server:
        read_job(HttpBackend(server.base.replace("//", "//user:fake-url-password@"), api_key=KEY))

    assert server.log[0].header("Authorization") == f"Bearer {KEY.reveal()}"


def test_a_backend_without_a_key_is_sent_none() -> None:
    with ScriptedServer({"GET /api/learning/jobs/*": [{"json": {"status": "running"}}]}) as server:
        read_job(HttpBackend(server.base, api_key=None))

    assert server.log[0].header("Authorization") is None


# -- what goes out


def test_a_job_request_goes_out_byte_for_byte_under_its_key() -> None:
    request = b'{ "a":1.0,\n"b": "\xc3\xa9" }'
    with ScriptedServer({"POST /api/rl/jobs": [{"status": 201, "json": {"job_id": "job_1"}}]}) as server:
        accepted = HttpBackend(server.base, api_key=KEY).create(Kind.RL, request, IDEMPOTENCY)

    [row] = server.log
    assert row.body == request
    assert row.header("Idempotency-Key") == "K-77"
    assert row.header("Content-Type") == "application/json"
    assert row.header("Content-Length") == str(len(request))
    assert (accepted.job_id, accepted.status, accepted.reply) == ("job_1", 201, '{"job_id":"job_1"}')


def test_an_upload_goes_out_as_a_form() -> None:
    with ScriptedServer({"POST /api/files": [{"json": {"id": "file_1"}}]}) as server:
        assert HttpBackend(server.base, api_key=KEY).upload(upload_of(b'{"a":1}\n', "t.jsonl")) == "file_1"

    [row] = server.log
    assert (row.header("Content-Type") or "").startswith("multipart/form-data; boundary=")
    assert row.header("Content-Length") == str(row.length)
    assert b'name="purpose"\r\n\r\nfine-tune\r\n' in row.body
    assert b'name="file"; filename="t.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n{"a":1}\n\r\n--' in row.body


def test_the_file_is_closed_whatever_comes_of_the_upload() -> None:
    opened: list[io.BytesIO] = []

    def open_() -> io.BytesIO:
        opened.append(io.BytesIO(b"x"))
        return opened[-1]

    given = Upload(filename="t.jsonl", purpose="fine-tune", size=1, open=open_)
    with ScriptedServer({"POST /api/files": [{"json": {"id": "file_1"}}, {"status": 500}]}) as server:
        backend = HttpBackend(server.base, api_key=KEY)
        backend.upload(given)
        failure(lambda backend: backend.upload(given), backend)
    failure(lambda backend: backend.upload(given), HttpBackend("http://127.0.0.1:1", api_key=KEY))

    assert [file.closed for file in opened] == [True] * 3


def test_a_file_that_shrinks_while_it_is_sent_is_not_the_networks_fault() -> None:
    shrunk = Upload(filename="t.jsonl", purpose="fine-tune", size=10, open=lambda: io.BytesIO(b"x"))
    with ScriptedServer({}) as server, pytest.raises(InvalidDataset, match="9 bytes are missing"):
        HttpBackend(server.base, api_key=KEY).upload(shrunk)


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("a/../b", "a%2F..%2Fb"),
        ("...", "..."),
        ("a b?c#d%", "a%20b%3Fc%23d%25"),
        ("ü", "%C3%BC"),
    ],
)
def test_an_id_is_one_segment_of_a_path_and_nothing_else(id: str, path: str) -> None:
    with ScriptedServer({"* /*": [{"json": {}}]}) as server:
        backend = HttpBackend(server.base, api_key=KEY)
        backend.job(Kind.RL, JobId(id))
        backend.file(FileId(id))
        backend.start(Kind.SFT, JobId(id))

    assert [row.target for row in server.log] == [
        f"/api/rl/jobs/{path}",
        f"/api/files/{path}",
        f"/api/learning/jobs/{path}/start",
    ]


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_that_can_be_no_segment_is_not_asked_for(id: str) -> None:
    with ScriptedServer({}) as server:
        error = failure(lambda backend: backend.job(Kind.RL, JobId(id)), HttpBackend(server.base, api_key=KEY))

    assert isinstance(error, NotKnown)
    assert server.log == []


# -- where the API is


@pytest.mark.parametrize(
    ("script", "root"),
    [
        ({"GET /health": [{"json": {}}]}, ""),
        ({"GET /api/health": [{"json": {}}]}, "/api"),
        ({"GET /api/health": [{"status": 401}]}, "/api"),
        ({"GET /health": [{"status": 401}], "GET /api/health": [{"json": {}}]}, ""),
        ({}, ""),
    ],
)
def test_a_bare_base_has_its_api_where_something_answers(script: Script, root: str) -> None:
    with ScriptedServer(script) as server:
        backend = HttpBackend(server.origin, api_key=KEY)
        features = backend.features()

        assert backend.base == features.base == f"{server.origin}{root}"


def test_a_base_with_a_path_is_used_as_it_is() -> None:
    with ScriptedServer({"GET /v2/api/health": [{"json": {}}]}) as server:
        assert HttpBackend(f"{server.origin}/v2", api_key=KEY).features().base == f"{server.origin}/v2"

    assert [row.path for row in server.log] == ["/v2/health"]


@pytest.mark.parametrize(
    "health",
    [PAGE, {"json": []}, {"status": 403}, {"status": 302, "headers": {"Location": "http://127.0.0.1:1/x"}}],
)
def test_a_health_page_that_says_nothing_is_no_error(health: Scripted) -> None:
    with ScriptedServer({"GET /api/health": [health]}) as server:
        assert not HttpBackend(server.base, api_key=KEY).features().takes_config


def test_a_backend_that_is_not_up_yet_is_busy() -> None:
    assert isinstance(on({"GET /api/health": [{"status": 503}]}, HttpBackend.features), BackendBusy)


# -- what comes back


@pytest.mark.parametrize(("route", "call"), CALLS)
def test_a_page_in_place_of_json_is_shown_and_said_to_be_none(route: str, call: Call) -> None:
    error = on({route: [PAGE]}, call)

    assert isinstance(error, UnexpectedReply)
    assert error.status == 200
    method, path = route.split()
    assert f"{method} http://127.0.0.1:" in str(error)
    assert f"{path}: 200, but the reply is no JSON (text/html): <!doctype html>" in str(error)
    assert "sign in to the network" in str(error)
    assert "--backend" in error.hint


@pytest.mark.parametrize("body", [{"ok": True}, [], {"job_id": None}, {"job_id": ""}, {"job_id": 7}, "job_1", None])
def test_a_job_without_an_id_is_no_job(body: object) -> None:
    error = on({"POST /api/learning/jobs": [{"status": 201, "json": body}]}, create)

    assert isinstance(error, UnexpectedReply)
    assert error.status == 201
    assert "/api/learning/jobs: 201: the reply has no job id" in str(error)


def test_json_of_another_type_is_json() -> None:
    answer = {"status": 201, "text": '{"id":"job_1"}', "headers": {"Content-Type": "text/plain"}}
    with ScriptedServer({"POST /api/learning/jobs": [answer]}) as server:
        accepted = HttpBackend(server.base, api_key=KEY).create(Kind.SFT, b"{}", IDEMPOTENCY)

    assert accepted.job_id == "job_1"


def test_a_reply_is_shown_as_one_line_without_secrets_and_control_characters() -> None:
    answer = {"status": 201, "json": {"id": "job_1", "echo": "{{AUTH}}", "note": "a\n\x1b[2J\x9b"}}
    with ScriptedServer({"POST /api/learning/jobs": [answer]}) as server:
        accepted = HttpBackend(server.base, api_key=KEY).create(Kind.SFT, b"{}", IDEMPOTENCY)

    assert accepted.reply == r'{"id":"job_1","echo":"Bearer fak...fgh","note":"a\n\u001b[2J\u009b"}'


def test_a_reply_without_end_is_unexpected() -> None:
    with RawServer((reply(b'"' + b"x" * (5 << 20) + b'"', status="201 Created"),)) as server:
        error = failure(create, HttpBackend(server.origin, api_key=KEY))

    assert isinstance(error, UnexpectedReply)
    assert "longer than 4 MiB" in str(error)
    assert error.status == 201


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BackendRefused),
        (401, KeyRefused),
        (403, KeyRefused),
        (404, NotOffered),
        (405, NotOffered),
        (408, BackendBusy),
        (409, BackendRefused),
        (410, NotOffered),
        (422, BackendRefused),
        (425, BackendBusy),
        (429, BackendBusy),
        (500, BackendBusy),
        (504, BackendBusy),
    ],
)
def test_every_status_has_its_error(status: int, kind: type[TrainingError]) -> None:
    error = on({"POST /api/learning/jobs": [{"status": status, "json": {"detail": "because"}}]}, create)

    assert type(error) is kind
    assert f"/api/learning/jobs: {status}: because" in str(error)
    assert not isinstance(error, BackendError) or error.status == status


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("call", [read_job, read_file])
def test_what_is_named_by_an_id_may_not_be_known(status: int, call: Call) -> None:
    assert type(on({"GET /api/*": [{"status": status, "json": {}}]}, call)) is NotKnown


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"json": {"detail": "because"}}, "because"),
        ({"json": {"message": "because"}}, "because"),
        ({"json": {"error": {"code": "x"}}}, '{"code":"x"}'),
        ({"json": {"detail": "because", "field": "model"}}, 'because {"field":"model"}'),
        ({"json": {"code": 7}}, '{"code":7}'),
        ({"json": ["because"]}, '["because"]'),
        ({"text": "because\nof \x1b[31mthat"}, "because of [31mthat"),
        ({"text": ""}, "(empty)"),
        ({"json": {"detail": "no", "got": "{{AUTH}}"}}, 'no {"got":"Bearer fak...fgh"}'),
        ({"text": "got {{AUTH}}"}, "got Bearer fak...fgh"),
    ],
)
def test_a_refusal_says_what_the_backend_says(body: Scripted, said: str) -> None:
    error = on({"POST /api/learning/jobs": [{"status": 400, **body}]}, create)

    assert str(error).endswith(f": 400: {said}")


def test_a_refusal_is_not_shown_without_end() -> None:
    assert len(str(on({"POST /api/files": [{"status": 400, "json": {"detail": "x" * 9000}}]}, upload))) < 600


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0), ("soon", None)],
)
def test_the_wait_that_a_busy_backend_asks_for_is_kept(header: str, seconds: float | None) -> None:
    busy = {"status": 429, "json": {}, "headers": {"Retry-After": header}}
    error = on({"POST /api/learning/jobs": [busy]}, create)

    assert isinstance(error, BackendBusy)
    assert error.retry_after == seconds


def test_a_conflict_that_names_a_wait_is_a_request_under_way() -> None:
    conflict = {"status": 409, "json": {}, "headers": {"Retry-After": "1"}}

    assert isinstance(on({"POST /api/learning/jobs": [conflict]}, create), BackendBusy)


# -- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(("route", "call"), POSTS)
def test_a_post_that_is_redirected_stops_and_names_the_better_base(status: int, route: str, call: Call) -> None:
    path = route.removeprefix("POST /api")
    script: Script = {
        route: [{"status": status, "headers": {"Location": f"https://new.example/v2{path}"}}],
        "GET /*": [{"json": {"id": "file_old"}}],
    }
    with ScriptedServer(script) as server:
        error = failure(call, HttpBackend(server.base, api_key=KEY))

    assert isinstance(error, UnexpectedReply)
    assert error.status == status
    assert f"{status}, moved to https://new.example/v2{path}, which is not followed" in str(error)
    assert "Change the backend URL (--backend) to https://new.example/v2," in error.hint
    assert [row.route for row in server.log] == [route]


def test_a_redirect_to_somewhere_else_altogether_names_no_base() -> None:
    login = {"status": 302, "headers": {"Location": "https://portal.example/login?t=1"}}
    error = on({"POST /api/learning/jobs": [login]}, create)

    assert "moved to https://portal.example/login?t=1" in str(error)
    assert error.hint.startswith("Change the backend URL (--backend), if")


def test_a_get_may_be_redirected_on_its_own_origin() -> None:
    script: Script = {
        "GET /api/learning/jobs/job_1": [{"status": 307, "headers": {"Location": "/api/v1/learning/jobs/job_1"}}],
        "GET /api/v1/learning/jobs/job_1": [{"json": {"status": "succeeded"}}],
    }
    with ScriptedServer(script) as server:
        state = HttpBackend(server.base, api_key=KEY).job(Kind.SFT, JobId("job_1"))

    assert state.phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("http://127.0.0.1:1/api/learning/jobs/job_1", "on another origin"),
        ("/api/learning/jobs/job_1", "one redirect too many"),
    ],
)
def test_a_get_that_leads_elsewhere_or_nowhere_is_unexpected(to: str, said: str) -> None:
    error = on({"GET /api/*": [{"status": 302, "headers": {"Location": to}}]}, read_job)

    assert isinstance(error, UnexpectedReply)
    assert said in str(error)


def test_a_status_that_is_no_answer_is_unexpected() -> None:
    assert "304, which is no answer" in str(on({"GET /api/*": [{"status": 304}]}, read_job))


# -- no reply


@pytest.mark.parametrize("call", [call for _, call in CALLS])
@pytest.mark.parametrize(
    ("base", "said", "remedy"),
    [
        ("http://127.0.0.1:1", "the connection was refused", "Nothing listens there"),
        ("http://nobody.invalid", "the host name cannot be resolved", "Check the host"),
    ],
)
def test_a_backend_that_is_not_there_is_said_not_to_be(call: Call, base: str, said: str, remedy: str) -> None:
    error = failure(call, HttpBackend(base, api_key=KEY))

    assert isinstance(error, BackendUnreachable)
    assert not error.sent
    assert f"{base}/" in str(error)
    assert said in str(error)
    assert remedy in error.hint


@pytest.mark.parametrize(("route", "call"), CALLS)
@pytest.mark.parametrize("drop", ["before_reply", "reset", "mid_body"])
def test_a_reply_that_is_cut_may_stand_for_something_done(route: str, call: Call, drop: str) -> None:
    error = on({route: [{"json": {"id": "x"}, "drop": drop}]}, call)

    assert isinstance(error, BackendUnreachable)
    assert error.sent
    assert "the connection was cut" in str(error)
    assert error.__cause__ is not None


def test_a_proxy_in_between_is_named_without_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:proxy-password-1234@127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    error = failure(read_job, HttpBackend("http://backend.invalid/api", api_key=KEY))

    assert isinstance(error, BackendUnreachable)
    assert "through the proxy http://127.0.0.1:1" in str(error)
    assert "NO_PROXY" in error.hint
    assert "proxy-password" not in f"{error} {error.__cause__}"


# -- starting


@pytest.mark.parametrize("answer", [{"json": {}}, {"status": 201, "text": "ok"}, {"status": 404}, {"status": 405}])
def test_a_job_begins_by_itself_where_there_is_no_start(answer: Scripted) -> None:
    with ScriptedServer({"POST /api/learning/jobs/job_1/start": [answer]}) as server:
        HttpBackend(server.base, api_key=KEY).start(Kind.SFT, JobId("job_1"))

    assert server.log[0].body == b"{}"


@pytest.mark.parametrize(("status", "kind"), [(400, BackendRefused), (503, BackendBusy), (302, UnexpectedReply)])
def test_a_start_that_fails_is_said_to(status: int, kind: type[TrainingError]) -> None:
    script = {"POST /api/*": [{"status": status, "json": {}}]}

    assert isinstance(on(script, lambda backend: backend.start(Kind.SFT, JobId("job_1"))), kind)


# -- files


def test_a_file_without_a_status_is_ready() -> None:
    with ScriptedServer({"GET /api/files/file_1": [{"json": {"id": "file_1"}}]}) as server:
        assert HttpBackend(server.base, api_key=KEY).file(FileId("file_1")).phase is FilePhase.READY


# -- the task app, as the backend sees it


def test_a_verification_is_read_without_its_candidates() -> None:
    report = {
        "any_ok": False,
        "candidates_first15": ["sk_env_12345678", "x"],
        "attempts": [{"status": 401}],
        "n": "{{AUTH}}",
    }
    with ScriptedServer({"POST /api/rl/verify_task_app": [{"json": report}]}) as server:
        found = HttpBackend(server.base, api_key=KEY).verify_task_app("http://127.0.0.1:8001/")

    assert (found.ok, found.candidates, found.statuses) == (False, 2, (401,))
    assert "sk_env" not in found.report
    assert "fake-syn" not in found.report
    assert server.log[0].body == b'{"endpoint_base_url":"http://127.0.0.1:8001/"}'


@pytest.mark.parametrize("answer", [{"json": {"detail": "no keys"}}, {"text": "no keys"}])
def test_a_verification_that_is_refused_has_failed(answer: Scripted) -> None:
    with ScriptedServer({"POST /api/rl/verify_task_app": [{"status": 422, **answer}]}) as server:
        found = HttpBackend(server.base, api_key=KEY).verify_task_app("http://127.0.0.1:8001")

    assert not found.ok
    assert found.report.endswith("/api/rl/verify_task_app: 422: no keys")


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotOffered), (405, NotOffered), (401, KeyRefused), (503, BackendBusy)]
)
def test_a_verification_that_did_not_happen_is_an_error(status: int, kind: type[TrainingError]) -> None:
    assert type(on({"POST /api/*": [{"status": status, "json": {}}]}, verify)) is kind


# -- the vault


PUBLIC = base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize("base", ["", "/api", "/api/v1"])
@pytest.mark.parametrize("root", ["/api/v1", "/v1"])
def test_the_vault_hangs_on_the_root_under_either_name(base: str, root: str) -> None:
    script: Script = {
        f"GET {root}/crypto/public-key": [{"json": {"public_key": PUBLIC, "alg": "libsodium.sealedbox.v1"}}],
        f"GET {root}/env-keys/verify": [{"json": {"present": True}}],
        f"POST {root}/env-keys": [{"status": 201, "text": "stored"}],
    }
    with ScriptedServer(script) as server:
        backend = HttpBackend(f"{server.origin}{base}", api_key=KEY)
        assert backend.public_key() == bytes(range(32))
        assert backend.holds_environment_key()
        backend.store_environment_key(b"sealed")

    [stored] = server.seen(f"POST {root}/env-keys")
    assert stored.body == b'{"name":"ENVIRONMENT_API_KEY","ciphertext_b64":"c2VhbGVk"}'


def store(backend: HttpBackend) -> None:
    backend.store_environment_key(b"sealed")


@pytest.mark.parametrize("call", [HttpBackend.public_key, HttpBackend.holds_environment_key, store])
@pytest.mark.parametrize("status", [404, 405])
def test_a_backend_may_have_no_vault(call: Call, status: int) -> None:
    assert type(on({"* /*": [{"status": status, "json": {}}]}, call)) is NotOffered


@pytest.mark.parametrize("body", [{}, [], {"present": None}, {"present": "yes"}])
def test_a_vault_that_does_not_say_is_not_taken_to_be_empty(body: object) -> None:
    error = on({"GET /api/v1/env-keys/verify": [{"json": body}]}, HttpBackend.holds_environment_key)

    assert isinstance(error, UnexpectedReply)
    assert "does not say whether" in str(error)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "no public key of 32 bytes"),
        ([], "no public key of 32 bytes"),
        ({"public_key": "c2hvcnQ="}, "no public key of 32 bytes"),
        ({"public_key": f"{PUBLIC}*"}, "no public key of 32 bytes"),
        ({"public_key": 7}, "no public key of 32 bytes"),
        ({"public_key": "é"}, "no public key of 32 bytes"),
        ({"public_key": PUBLIC, "alg": "rsa"}, "for rsa"),
        ({"public_key": PUBLIC, "alg": None}, "for None"),
    ],
)
def test_only_a_whole_key_for_the_known_algorithm_will_do(body: object, said: str) -> None:
    error = on({"GET /api/v1/crypto/public-key": [{"json": body}]}, HttpBackend.public_key)

    assert isinstance(error, UnexpectedReply)
    assert said in str(error)


def test_an_algorithm_that_is_not_named_is_the_usual_one() -> None:
    with ScriptedServer({"GET /api/v1/crypto/public-key": [{"json": {"public_key": PUBLIC}}]}) as server:
        assert len(HttpBackend(server.base, api_key=KEY).public_key()) == 32
