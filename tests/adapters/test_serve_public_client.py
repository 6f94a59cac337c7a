"""Requests byte for byte as the public `synth-ai` 0.2.16 sends them (docs/compatibility.md), by its two HTTP libraries.

The server knows no client by its name: what is taken here is taken from anyone.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.serving import needs_the_server, serving
from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.usecases.hosting.events import QUIET

needs_the_server()

KEY = "fake-synth-key-0001-abcdefgh"
ROW = b'{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n'
REQUESTS = (
    "Host: {host}\r\nUser-Agent: python-requests/2.34.2\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
    f"Connection: keep-alive\r\nAuthorization: Bearer {KEY}\r\n"
)
AIOHTTP = (
    f"Host: {{host}}\r\nauthorization: Bearer {KEY}\r\n{{more}}Accept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
    "User-Agent: Python/3.11 aiohttp/3.14.5\r\n"
)


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


def said(url: str, line: str, head: str, content: bytes = b"", kind: str = "") -> tuple[int, Any]:
    """Send it as it stands, and read the reply as these clients do: as JSON if it says that it is."""
    parts = urlsplit(url)
    head = head.replace("{host}", parts.netloc).replace("{more}", "")
    if kind:
        head += f"Content-Length: {len(content)}\r\nContent-Type: {kind}\r\n"
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5) as connection:
        connection.sendall(f"{line} HTTP/1.1\r\n{head}\r\n".encode() + content)
        reply = HTTPResponse(connection)
        reply.begin()
        assert reply.headers["Content-Type"].startswith("application/json")
        return reply.status, json.loads(reply.read())


def posted(url: str, path: str, body: object, *, key: str = "", head: str = AIOHTTP) -> tuple[int, Any]:
    named = f"Idempotency-Key: {key}\r\n" if key else ""
    content = json.dumps(body).encode()
    return said(url, f"POST {path}", head.replace("{more}", named), content, "application/json")


def got(url: str, path: str) -> Any:
    status, body = said(url, f"GET {path}", AIOHTTP)
    assert status == 200
    return body


def by_requests(filename: str) -> tuple[str, bytes]:
    form = (
        b'--b0\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
        b'--b0\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n'
        b"Content-Type: application/jsonl\r\n\r\n%b\r\n--b0--\r\n"
    )
    return REQUESTS, form % (filename.encode(), ROW)


def by_aiohttp(filename: str) -> tuple[str, bytes]:
    form = (
        b'--b0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n'
        b"fine-tune\r\n--b0\r\nContent-Type: application/jsonl\r\n"
        b'Content-Disposition: form-data; name="file"; filename="%b"\r\n\r\n%b\r\n--b0--\r\n'
    )
    return AIOHTTP, form % (filename.encode(), ROW)


@pytest.mark.parametrize(
    ("path", "sent", "filename"),
    [
        ("/api/files", by_requests("rows.jsonl"), "rows.jsonl"),
        ("/api/files", by_requests("zürich 1.jsonl"), "zürich 1.jsonl"),
        ("/api/learning/files", by_aiohttp("rows.jsonl"), "rows.jsonl"),
        ("/api/files", by_aiohttp("z%C3%BCrich%201.jsonl"), "zürich 1.jsonl"),
    ],
    ids=["train command", "train command, not ASCII", "learning clients", "typed client, not ASCII"],
)
def test_a_file_of_every_client_is_ready_under_its_name(
    url: str, path: str, sent: tuple[str, bytes], filename: str
) -> None:
    head, form = sent
    status, file = said(url, f"POST {path}", head, form, "multipart/form-data; boundary=b0")
    assert (status, file["filename"], file["purpose"], file["bytes"]) == (201, filename, "fine-tune", len(ROW))
    assert got(url, f"{path}/{file['id']}")["status"] == "ready"


def file_on(url: str) -> str:
    head, form = by_aiohttp("rows.jsonl")
    file_id: str = said(url, "POST /api/files", head, form, "multipart/form-data; boundary=b0")[1]["id"]
    return file_id


def test_the_train_command_creates_and_starts_a_job(url: str) -> None:
    file_id = file_on(url)
    body = {
        "model": "Qwen/Qwen3-0.6B",
        "hyperparameters": {"n_epochs": 1, "parallelism": {"bf16": True}, "evaluation_strategy": "steps"},
        "training_type": "sft_offline",
        "metadata": {
            "effective_config": {
                "compute": {"gpu_type": "H100", "gpu_count": 1},
                "data": {"topology": {}, "validation_files": [file_id]},
                "training": {"mode": "full", "validation": {"enabled": True}},
            }
        },
        "training_file_id": file_id,
    }
    status, job = posted(url, "/api/learning/jobs", body, head=REQUESTS + "{more}")
    assert (status, job["started"], job["validation_file"]) == (201, False, file_id)
    status, started = posted(url, f"/api/learning/jobs/{job['job_id']}/start", {}, head=REQUESTS + "{more}")
    assert (status, started["started"]) == (200, True)


def test_a_job_of_the_typed_client_begins_although_that_client_starts_none(url: str) -> None:
    body = {
        "model": "Qwen/Qwen3-0.6B",
        "hyperparameters": {"n_epochs": 1},
        "metadata": {"a": 1},
        "integrations": {"wandb": {"project": "p"}},
        "suffix": "mine",
        "training_file": file_on(url),
    }
    status, job = posted(url, "/api/sft/jobs", body, key="sft-1")
    assert (status, job["started"], job["name"]) == (201, True, "mine")
    assert posted(url, "/api/sft/jobs", body, key="sft-1") == (201, job)
    assert posted(url, "/api/sft/jobs", {**body, "suffix": "other"}, key="sft-1")[0] == 409


@pytest.mark.parametrize("training_type", ["sft_offline", "fft", "qft"])
def test_the_learning_client_may_say_which_weights_are_trained(url: str, training_type: str) -> None:
    body = {
        "model": "Qwen/Qwen3-0.6B",
        "hyperparameters": {"n_epochs": 1},
        "training_type": training_type,
        "training_file_id": file_on(url),
    }
    status, job = posted(url, "/api/learning/jobs", body)
    assert (status, job["training_type"]) == (201, training_type)


@pytest.mark.parametrize(
    "body",
    [
        {"job_type": "rl", "data": {"model": "m", "endpoint_base_url": "http://task", "trainer": {"batch_size": 1, "group_size": 2}}},  # noqa: E501
        {"model": "m", "endpoint_base_url": "http://task", "trainer_id": "t", "config": {}, "metadata": {}},
    ],
    ids=["library client", "typed client"],
)  # fmt: skip
def test_an_rl_job_that_waits_keeps_its_follower(
    world: InMemoryHosting, clock: ManualClock, url: str, body: dict[str, Any]
) -> None:
    world.executor.delay = float("inf")
    job_id = posted(url, "/api/rl/jobs", body)[1]["job_id"]
    events = f"/api/learning/jobs/{job_id}/events?since_seq="
    assert [event["seq"] for event in got(url, f"{events}0&limit=200")["events"]] == [1]
    clock.advance(2 * QUIET)  # five polls, two seconds each: with nothing new in any of them the client gives up
    assert [(event["seq"], event["type"]) for event in got(url, f"{events}1&limit=200")["events"]] == [
        (2, "rl.heartbeat")
    ]
    assert got(url, f"/api/learning/jobs/{job_id}/metrics?after_step=-1&limit=200")["points"] == []


def test_models_are_asked_for_by_ids_that_hold_slashes(url: str) -> None:
    status, refused = said(url, "GET /api/models/ft:Qwen/Qwen3-0.6B:job_1/jobs?limit=20", AIOHTTP)
    assert (status, refused["error"]["code"]) == (404, "unknown_model")
    assert got(url, "/api/learning/models")["data"] == []
