"""The server: routes that the client in tests/contracts does not use, and what should not be sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests

from support.serving import needs_the_server, serving
from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.hosting import Refusal

KEY = "fake-synth-key-0001-abcdefgh"
RL = {"data": {"model": "m", "endpoint_base_url": "http://task"}}
ROW = b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(clock: ManualClock) -> InMemoryHosting:
    return InMemoryHosting(clock=clock)


@pytest.fixture
def url(world: InMemoryHosting) -> Iterator[str]:
    with serving(world.hosting) as url:
        yield url


class Client:
    """One kept connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.address = (parts.hostname or "", parts.port or 0)
        self._connection = HTTPConnection(*self.address, timeout=5)
        self._sockets: set[object] = set()

    @property
    def connections(self) -> int:
        """How many it has needed."""
        return len(self._sockets)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, content, {"Authorization": f"Bearer {KEY}", **named})
        self._sockets.add(self._connection.sock)
        reply = self._connection.getresponse()
        assert reply.headers["Content-Type"] == "application/json"
        return reply.status, json.loads(reply.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    client = Client(url)
    yield client
    client.close()


def form(filename: str = "a.jsonl", *, purpose: str | None = "fine-tune", files: int = 1, last: bool = False) -> bytes:
    field = b'------b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n%s\r\n' % (purpose or "").encode()
    file = b'------b\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n' % (
        filename.encode(),
        ROW,
    )
    parts = [*([file] * files), *([] if purpose is None else [field])]
    return b"".join(parts if last else reversed(parts)) + b"------b--\r\n"


FORM = "multipart/form-data; boundary=----b"


def upload(client: Client, content: bytes, path: str = "/files") -> tuple[int, Any]:
    return client.ask("POST", path, content, Content_Type=FORM)


# Routes


@pytest.mark.parametrize("prefix", ["", "/api", "/api/v1", "/v1"])
def test_every_route_is_there_under_every_prefix(client: Client, prefix: str) -> None:
    assert client.ask("GET", f"{prefix}/health")[0] == 200
    assert client.ask("GET", f"{prefix}/crypto/public-key")[0] == 200
    assert client.ask("GET", f"{prefix}/env-keys/verify")[1] == {"present": False}
    assert client.ask("POST", f"{prefix}/rl/jobs", RL)[0] == 201


@pytest.mark.parametrize("path", ["/files", "/learning/files"])
def test_files_have_two_names(client: Client, path: str) -> None:
    status, file = upload(client, form(), path)
    assert status == 201
    assert client.ask("GET", f"{path}/{file['id']}")[1]["status"] == "ready"
    assert [row["id"] for row in client.ask("GET", f"{path}?purpose=fine-tune&limit=5")[1]["files"]] == [file["id"]]
    assert client.ask("GET", f"{path}?purpose=other")[1]["files"] == []
    assert client.ask("DELETE", f"{path}/{file['id']}")[1]["deleted"] is True
    assert client.ask("GET", f"{path}/{file['id']}")[0] == 404


def test_a_purpose_may_stand_behind_the_file(client: Client) -> None:
    assert upload(client, form(last=True))[1]["purpose"] == "fine-tune"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (form(purpose=None), "purpose"),
        (form(purpose=" "), "purpose"),
        (form(files=0), "no `file`"),
        (form(files=2), "more than one"),
        (form()[:-10], "breaks off"),
        (b"", "breaks off"),
    ],
)
def test_a_form_that_is_none_is_refused_and_not_kept(
    world: InMemoryHosting, client: Client, content: bytes, said: str
) -> None:
    status, body = upload(client, content)
    assert status == 400
    assert said in body["detail"]
    assert body["error"]["message"] == body["detail"]
    assert (world.store.all_files, world.blobs.contents) == ([], {})


def test_a_job_can_be_followed_over_every_route(client: Client, world: InMemoryHosting, clock: ManualClock) -> None:
    job_id = client.ask("POST", "/rl/jobs", RL)[1]["job_id"]
    clock.advance(world.executor.delay)
    for family in ("rl", "learning"):
        assert client.ask("GET", f"/{family}/jobs/{job_id}")[1]["status"] == "running"
        assert client.ask("GET", f"/{family}/jobs/{job_id}/status")[1]["status"] == "running"
    assert client.ask("GET", f"/rl/jobs/{job_id}/config")[1]["config"] == RL
    assert client.ask("POST", f"/rl/jobs/{job_id}/start", {})[1]["message"] == f"Job {job_id} is running."
    clock.advance(10)
    events = client.ask("GET", f"/rl/jobs/{job_id}/events?since_seq=1&limit=2")[1]["events"]
    assert [event["seq"] for event in events] == [2, 3]
    points = client.ask("GET", f"/rl/jobs/{job_id}/metrics?after_step=-1")[1]["points"]
    assert [(point["name"], point["step"]) for point in points] == [
        ("train.reward_mean", 1),
        ("train.reward_mean", 2),
    ]
    assert client.ask("GET", f"/rl/jobs/{job_id}/metrics?name=other")[1]["points"] == []
    assert client.ask("GET", f"/rl/jobs/{job_id}/metrics?buckets=9999") == (
        200,
        {"object": "list", "points": points, "stretch": 1},
    )
    assert client.ask("GET", f"/rl/jobs/{job_id}/metrics?buckets=1")[1]["stretch"] == 2
    assert client.ask("GET", f"/rl/jobs/{job_id}/metrics?buckets=0")[0] == 422
    assert client.ask("POST", f"/rl/jobs/{job_id}/cancel")[1]["status"] == "cancelling"
    timeline = client.ask("GET", f"/rl/jobs/{job_id}/timeline")[1]["events"]
    assert [row["phase"] for row in timeline] == ["queued", "running", "cancelling", "cancelled"]


def test_jobs_are_listed_by_family_and_filter(client: Client, clock: ManualClock) -> None:
    file_id = upload(client, form())[1]["id"]
    rl = client.ask("POST", "/rl/jobs", RL)[1]["id"]
    clock.advance(10)
    sft = client.ask("POST", "/sft/jobs", {"model": "m2", "training_file": file_id})[1]["id"]
    began = 1_700_000_000

    def ids(path: str) -> list[str]:
        return [row["id"] for row in client.ask("GET", path)[1]["jobs"]]

    assert ids("/learning/jobs") == [sft, rl]
    assert ids("/rl/jobs") == [rl]
    assert ids("/sft/jobs") == ids(f"/files/{file_id}/jobs") == ids(f"/sft/jobs?file_id={file_id}") == [sft]
    assert ids("/learning/jobs?limit=1") == ids("/learning/jobs?type=sft_offline") == [sft]
    assert ids(f"/learning/jobs?after={sft}") == ids("/learning/jobs?model=m") == [rl]
    assert ids(f"/learning/jobs?created_before={began + 5}") == [rl]
    assert ids("/learning/jobs?created_after=2023-11-14T22:13:25Z") == [sft]
    assert ids("/learning/jobs?created_after=2023-11-14T22:13:25") == [sft]
    assert client.ask("GET", "/files/file_0/jobs")[0] == 404


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=x", "limit=-1", "created_after=yesterday", "created_before=2023-99-99"]
)
def test_a_query_that_makes_no_sense_is_named(client: Client, query: str) -> None:
    status, body = client.ask("GET", f"/rl/jobs?{query}")
    assert status == 422
    assert query.split("=")[0] in body["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/nowhere"),
        ("GET", "/rl/jobs/x/y"),
        ("GET", "/api/api/health"),
        ("GET", "/rl/jobs/../jobs"),
    ],
)
def test_what_is_no_route_is_404(client: Client, method: str, path: str) -> None:
    status, body = client.ask(method, path)
    assert (status, body["error"]["code"]) == (404, "no_such_route")


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/rl/jobs/x"), ("POST", "/health"), ("HEAD", "/files")])
def test_what_is_no_method_of_a_route_is_405_and_names_those_there_are(url: str, method: str, path: str) -> None:
    reply = sent(url, f"{method} {path} HTTP/1.1\r\nConnection: close")
    assert status_of(reply) == 405
    assert b"\r\nallow: " in reply.lower()


@pytest.mark.parametrize("header", ["", "Basic abc", "Bearer ", "Bearer"])
def test_without_a_bearer_key_nothing_is_told(client: Client, header: str) -> None:
    assert client.ask("GET", "/files", Authorization=header)[0] == 401
    assert client.ask("GET", "/health", Authorization=header)[0] == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000])
def test_what_is_no_json_object_is_400(client: Client, body: bytes) -> None:
    for path in ("/rl/jobs", "/rl/verify_task_app", "/env-keys"):
        assert client.ask("POST", path, body)[0] == 400


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "K"}, "ciphertext_b64"),
        ({"name": "K", "ciphertext_b64": "***"}, "base64"),
        ({"name": "K", "ciphertext_b64": "ü"}, "base64"),
        ({"name": 7, "ciphertext_b64": "AAAA"}, "name"),
    ],
)
def test_a_key_that_cannot_be_read_is_refused(client: Client, body: object, said: str) -> None:
    status, answer = client.ask("POST", "/env-keys", body)
    assert status == 422
    assert said in answer["detail"]


def test_an_idempotency_key_that_is_none_is_refused(client: Client) -> None:
    assert client.ask("POST", "/rl/jobs", RL, Idempotency_Key="x" * 256)[0] == 400


def test_a_connection_is_kept_over_replies_and_refusals(client: Client) -> None:
    for _ in range(3):
        assert client.ask("POST", "/nowhere", {"a": "b"})[0] == 404
        assert client.ask("GET", "/health")[0] == 200
    assert client.connections == 1


# What should not be sent


def sent(url: str, head: str, body: bytes = b"") -> bytes:
    """Send as it is; what comes back until the server closes."""
    address = Client(url).address
    with socket.create_connection(address, timeout=5) as connection:
        connection.sendall(
            f"{head}\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {FORM}\r\n\r\n".encode("latin-1") + body
        )
        received = b""
        while block := connection.recv(1 << 16):
            received += block
    return received


def status_of(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("lengths", "status"),
    [
        ("Content-Length: -1", 400),
        ("Content-Length: many", 400),
        ("Content-Length: +5", 400),
        ("Content-Length: ²", 400),
        ("Content-Length: 5\r\nContent-Length: 288", 400),
        ("Content-Length: 1000000000000", 413),
        ("Connection: close", 411),
    ],
)
def test_a_length_that_cannot_be_believed_is_refused_at_once_and_the_connection_closed(
    url: str, world: InMemoryHosting, lengths: str, status: int
) -> None:
    assert status_of(sent(url, f"POST /api/files HTTP/1.1\r\n{lengths}", form())) == status
    assert world.blobs.contents == {}


def test_a_body_in_chunks_is_refused_whether_they_can_be_read_or_not(url: str, world: InMemoryHosting) -> None:
    for chunks, status in ((b"%x\r\n%s\r\n0\r\n\r\n" % (len(form()), form()), 411), (form(), 400)):
        assert status_of(sent(url, "POST /api/files HTTP/1.1\r\nTransfer-Encoding: chunked", chunks)) == status
    assert world.blobs.contents == {}


def test_a_client_that_is_still_sending_hears_why_it_was_refused(url: str) -> None:
    assert status_of(sent(url, "POST /files HTTP/1.1\r\nContent-Length: 1000000000000", b"x" * (1 << 20))) == 413


def test_a_json_body_that_is_too_large_is_refused_unread(url: str) -> None:
    assert status_of(sent(url, "POST /rl/jobs HTTP/1.1\r\nContent-Length: 5000000", b"{")) == 413


def test_others_are_served_while_a_client_is_stuck(url: str, client: Client) -> None:
    with socket.create_connection(client.address, timeout=5) as stuck:
        stuck.sendall(
            f"POST /files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {FORM}\r\n".encode()
        )
        stuck.sendall(b"Content-Length: 1000\r\n\r\n" + form()[:50])
        assert upload(client, form())[0] == 201


def test_nothing_is_kept_of_a_body_that_is_shorter_than_announced(
    url: str, client: Client, world: InMemoryHosting
) -> None:
    with socket.create_connection(client.address, timeout=5) as short:
        short.sendall(
            f"POST /files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {FORM}\r\n".encode()
        )
        short.sendall(b"Content-Length: 1000\r\n\r\n" + form()[:150])
        short.shutdown(socket.SHUT_WR)
        assert short.recv(1000) == b""
    assert (world.store.all_files, world.blobs.contents) == ([], {})


@pytest.mark.parametrize(
    "name", ["../../escape.jsonl", "/etc/passwd", "..", ".", "", "a%0D%0AX-Evil: 1.jsonl", "a\0b.jsonl", "x" * 5000]
)
def test_a_file_name_goes_nowhere(url: str, client: Client, world: InMemoryHosting, name: str) -> None:
    status, body = upload(client, form(name))
    assert status == 201
    [file] = world.store.all_files
    assert body["filename"] == file.filename
    assert not {"/", "\\", "\r", "\n", "\0"} & set(file.filename)
    assert 0 < len(file.filename) <= 255


def test_a_bug_is_told_as_one_and_its_traceback_only_to_the_log(world: InMemoryHosting) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret detail")

    world.executor.wake = broken  # type: ignore[method-assign]
    needs_the_server()
    from synth_train.adapters.serving.server import ServerThread

    lines: list[str] = []
    with ServerThread(world.hosting, log=lines.append) as server:
        client = Client(server.url)
        status, body = client.ask("POST", "/rl/jobs", RL)
        client.close()
    assert (status, body["error"]["code"]) == (500, "bug")
    assert "ZeroDivisionError" in lines[0]
    assert "secret" not in str(body)
    assert lines[1] == "POST /rl/jobs 500"


def test_a_client_that_stalls_is_told_so(world: InMemoryHosting) -> None:
    with serving(world.hosting, stall=0.1) as url:
        assert status_of(sent(url, "POST /files HTTP/1.1\r\nContent-Length: 1000", form()[:50])) == 408
    assert world.blobs.contents == {}


def test_a_refusal_has_one_shape() -> None:
    assert set(Refusal(400, "code", "message").body) == {"detail", "error"}


def test_a_head_that_does_not_come_to_its_end_is_given_up(world: InMemoryHosting) -> None:
    with serving(world.hosting, head=0.1) as url:
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(Client(url).address, timeout=5) as slow:
                slow.sendall(begun)
                assert status_of(slow.recv(1000)) == 408
                assert slow.recv(1000) == b""


def test_a_head_that_is_too_long_is_refused(url: str) -> None:
    for length, status in ((40_000, 431), (400_000, 400)):
        assert status_of(sent(url, f"GET /files HTTP/1.1\r\nConnection: close\r\nX-Long: {'x' * length}")) == status


def test_json_that_is_nested_too_deeply_is_refused_and_brackets_in_texts_are_not(client: Client) -> None:
    deep = {"data": {**RL["data"], "config": {"a": json.loads("[" * 99 + "]" * 99)}}}
    assert client.ask("POST", "/rl/jobs", deep)[1]["error"]["code"] == "invalid_json"
    text = {"data": {**RL["data"], "config": {"a": '[{"\\' * 200}}}
    assert client.ask("POST", "/rl/jobs", text)[0] == 201


def test_more_uploads_at_once_than_there_is_room_for_are_told_to_come_back(
    world: InMemoryHosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_the_server()
    monkeypatch.setattr("synth_train.adapters.serving.serving.UPLOADS_AT_ONCE", 1)
    with serving(world.hosting) as url:
        client = Client(url)
        with socket.create_connection(client.address, timeout=5) as slow:
            slow.sendall(
                f"POST /files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {FORM}\r\n".encode()
            )
            slow.sendall(b"Content-Length: 1000\r\n\r\n" + form()[:150])
            statuses = [upload(client, form())[0] for _ in range(20)]
            assert statuses[-1] == 429
        client.close()


# Following


def streamed(url: str, path: str, **headers: str) -> list[Any]:
    with requests.get(
        f"{url}{path}",
        headers={"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream", **headers},
        timeout=10,
    ) as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        return [json.loads(line.removeprefix("data: ")) for line in reply.text.splitlines() if line.startswith("data:")]


def test_events_are_streamed_to_the_end_of_a_job_from_where_one_was(client: Client, url: str) -> None:
    job_id = client.ask("POST", "/rl/jobs", RL)[1]["job_id"]
    client.ask("POST", f"/rl/jobs/{job_id}/cancel")
    assert [event["seq"] for event in streamed(url, f"/rl/jobs/{job_id}/events")] == [1, 2]
    assert [event["seq"] for event in streamed(url, f"/learning/jobs/{job_id}/events/stream?since_seq=1")] == [2]
    for cursor in ("1", f"{job_id}:1"):
        headers = {"Last-Event-ID": cursor}
        assert [event["seq"] for event in streamed(url, f"/rl/jobs/{job_id}/events", **headers)] == [2]
        assert [row["seq"] for row in client.ask("GET", f"/rl/jobs/{job_id}/events?after={cursor}")[1]["events"]] == [2]


def test_a_stream_of_a_job_that_is_not_there_is_a_refusal_like_any_other(client: Client) -> None:
    assert client.ask("GET", "/rl/jobs/job_0/events", Accept="text/event-stream")[0] == 404
    assert client.ask("GET", "/rl/jobs/job_0/events/stream")[0] == 404


def test_events_of_a_time_are_those_after_it(client: Client, clock: ManualClock) -> None:
    job_id = client.ask("POST", "/rl/jobs", RL)[1]["job_id"]
    now = clock.now()
    clock.advance(1)
    client.ask("POST", f"/rl/jobs/{job_id}/cancel")
    assert [row["seq"] for row in client.ask("GET", f"/rl/jobs/{job_id}/events?since={now}")[1]["events"]] == [2]
    assert client.ask("GET", f"/rl/jobs/{job_id}/events?since=yesterday")[0] == 422
    assert client.ask("GET", f"/rl/jobs/{job_id}/events?after=job_1:1")[0] == 422


# Models and runs


def test_what_a_job_has_made_has_many_names(client: Client, world: InMemoryHosting, clock: ManualClock) -> None:
    job_id = client.ask("POST", "/rl/jobs", RL)[1]["job_id"]
    assert client.ask("GET", f"/jobs/{job_id}/runs")[1]["runs"] == []
    assert client.ask("GET", f"/sft/jobs/{job_id}/checkpoints")[1]["data"] == []
    for seconds in (world.executor.delay, world.trainer.lasts):
        clock.advance(seconds)
        client.ask("GET", f"/rl/jobs/{job_id}")
    model = f"rl:m:{job_id}"
    for path in (
        "/models",
        "/learning/models",
        "/learning/models/rl",
        f"/models?source={job_id}",
        "/models?base_model=m",
    ):
        assert [row["id"] for row in client.ask("GET", path)[1]["models"]] == [model], path
    for path in (f"/models?after={model}", "/models?after=other", "/models?base_model=other", "/models?status=x"):
        assert client.ask("GET", path)[1]["data"] == []
    assert client.ask("GET", f"/models/{model}")[1]["job_id"] == job_id
    assert client.ask("GET", f"/learning/models/{model}")[1]["base"] == "m"
    assert client.ask("GET", f"/models/{model}/jobs")[1]["jobs"][0]["id"] == job_id
    assert client.ask("GET", "/models/other")[0] == 404
    [run] = client.ask("GET", f"/jobs/{job_id}/runs")[1]["runs"]
    assert (run["run_number"], run["status"], run["duration_seconds"]) == (1, "succeeded", int(world.trainer.lasts))
    [checkpoint] = client.ask("GET", f"/sft/jobs/{job_id}/checkpoints")[1]["data"]
    assert checkpoint["fine_tuned_model_checkpoint"] == model
    assert client.ask("GET", f"/orchestration/jobs/{job_id}/events")[1]["events"][0]["seq"] == 1
    assert client.ask("GET", "/rl/services/any")[1]["training_start_url"].endswith("/rl/jobs")
    assert client.ask("GET", f"/rl/jobs/{job_id}/log")[1] == {"job_id": job_id, "text": "", "next": 0}


HELLO = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "thinking_budget": 256}


@pytest.mark.parametrize("prefix", ["", "/api", "/api/v1"])
def test_a_model_is_spoken_to(client: Client, world: InMemoryHosting, prefix: str) -> None:
    status, reply = client.ask("POST", f"{prefix}/inference/v1/chat/completions", HELLO)
    assert (status, reply["object"]) == (200, "chat.completion")
    assert reply["choices"][0]["message"]["content"] == world.speaker.answer


def test_a_model_that_cannot_be_spoken_to_is_refused_in_the_one_shape(client: Client, world: InMemoryHosting) -> None:
    path = "/inference/v1/chat/completions"
    assert client.ask("POST", path, HELLO | {"model": "none"})[1]["error"]["code"] == "unknown_model"
    assert client.ask("POST", path, HELLO | {"stream": True})[0] == 400
    assert client.ask("POST", path, b"[" * 101)[1]["error"]["code"] == "invalid_json"
    for status in (429, 501, 503):
        world.speaker.refusal = Refusal(status, "busy", "later")
        assert client.ask("POST", path, HELLO) == (status, world.speaker.refusal.body)


@pytest.mark.parametrize("status", [429, 503])
def test_who_is_to_come_back_is_told_when(url: str, world: InMemoryHosting, status: int) -> None:
    world.speaker.refusal = Refusal(status, "busy", "later")
    bearer = {"Authorization": f"Bearer {KEY}"}
    reply = requests.post(f"{url}/inference/v1/chat/completions", json=HELLO, headers=bearer, timeout=5)
    assert (reply.status_code, reply.headers["Retry-After"]) == (status, "2")


@pytest.mark.parametrize("family", ["/models", "/learning/models", "/api/v1/models"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_model_is_deleted_and_its_job_tells_so(
    client: Client, world: InMemoryHosting, clock: ManualClock, family: str, encoded: bool
) -> None:
    request = {"data": {"model": "Qwen/Qwen3-0.6B", "endpoint_base_url": "http://task"}}
    job_id = client.ask("POST", "/rl/jobs", request)[1]["job_id"]
    for seconds in (world.executor.delay, world.trainer.lasts):
        clock.advance(seconds)
        client.ask("GET", f"/rl/jobs/{job_id}")
    model = f"rl:Qwen/Qwen3-0.6B:{job_id}"
    path = f"{family}/{quote(model, safe='') if encoded else model}"
    user = client.ask("POST", "/rl/jobs", {"data": {"model": model, "endpoint_base_url": "http://task"}})[1]["job_id"]
    status, body = client.ask("DELETE", path)
    assert (status, body["error"]["code"]) == (409, "model_in_use")
    assert client.ask("GET", path)[0] == 200
    client.ask("POST", f"/rl/jobs/{user}/cancel")
    status, body = client.ask("DELETE", path)
    assert (status, body["id"], body["status"], body["deleted"]) == (200, model, "deleted", True)
    for method in ("GET", "DELETE"):
        assert client.ask(method, path)[0] == 404
    assert client.ask("GET", "/models")[1]["data"] == []
    assert client.ask("GET", f"/rl/jobs/{job_id}")[1]["model_deleted_at"] == int(clock.now())
    assert client.ask("GET", f"/rl/jobs/{job_id}/checkpoints")[1]["data"] == []
    status, body = client.ask("GET", f"/rl/jobs/{job_id}/results")
    assert (status, body["detail"]) == (410, f"the model of job {job_id} was deleted")


def test_a_file_of_a_model_can_be_fetched_from_a_byte_on(
    url: str, client: Client, world: InMemoryHosting, clock: ManualClock
) -> None:
    job_id = client.ask("POST", "/rl/jobs", RL)[1]["job_id"]
    for seconds in (world.executor.delay, world.trainer.lasts):
        clock.advance(seconds)
        client.ask("GET", f"/rl/jobs/{job_id}")
    world.results.made[job_id] = {"merged/model.bin": b"0123456789"}
    path = f"{url}/rl/jobs/{job_id}/results/merged/model.bin"

    def fetch(span: str) -> requests.Response:
        return requests.get(path, headers={"Authorization": f"Bearer {KEY}", "Range": span}, timeout=5)

    assert (fetch("bytes=4-").status_code, fetch("bytes=4-").content) == (206, b"456789")
    for span in ("bytes=0-", "bytes=2-4", "lines=4-", "bytes=-3"):
        assert (fetch(span).status_code, fetch(span).content) == (200, b"0123456789")
    assert fetch("bytes=10-").status_code == 416
    assert client.ask("GET", f"/rl/jobs/{job_id}/results/other")[0] == 404


def test_small_replies_are_sent_at_once() -> None:
    needs_the_server()
    from synth_train.adapters.serving.server import listening

    with listening("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # asyncio looks at it before it switches Nagle's algorithm off


def test_a_server_that_is_told_to_end_before_it_has_begun_leaves_no_socket_behind(world: InMemoryHosting) -> None:
    from synth_train.adapters.serving.server import Server, listening

    server = Server(world.hosting, listening("127.0.0.1", 0))
    server.stop()
    server.run()

    assert server.listener.fileno() == -1
