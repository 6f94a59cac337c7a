"""The OpenAPI document is true: schemathesis asks every operation in many ways, good and bad, and checks each reply
against it; and what hosting replies has the documented shapes, down to the last field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import requests

from support.backends import OUR_KEY, rl_request, sft_request, upload_of
from support.serving import needs_the_server, serving
from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.hosting import owner_of
from synth_train.domain.model.jobs import IdempotencyKey, Kind

schemathesis = pytest.importorskip("schemathesis", reason="needs the group `web`: pip install --group web")
needs_the_server()

from hypothesis import HealthCheck, given, settings  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

from synth_train.adapters.serving import shapes  # noqa: E402
from synth_train.adapters.serving.app import routes  # noqa: E402

EXAMPLES = 12
"""For each operation, twice: with ids that are nobody's, and with those of a finished job, its file and its model."""

SCHEMA = schemathesis.openapi.from_dict(routes().openapi_schema.to_schema())
OPERATIONS = {operation.label: operation for operation in (found.ok() for found in SCHEMA.get_all_operations())}
LABELS = sorted(OPERATIONS)
"""Litestar writes the paths of a handler in another order every time."""

ABOUT_TIMES = {"created_after", "created_before", "since", "after"}
"""Texts whose meaning no schema tells: a day of February, an event of this job."""

HEADERS = {"Authorization": f"Bearer {OUR_KEY.reveal()}"}


@pytest.fixture(scope="module")
def world() -> InMemoryHosting:
    """Hosting with one finished job of each kind."""
    clock = ManualClock()
    world = InMemoryHosting(clock=clock, owners=frozenset({owner_of(OUR_KEY)}))
    backend = InMemoryBackend(world=world, api_key=OUR_KEY)
    file_id = backend.upload(upload_of(b"row\n"))
    job_id = backend.create(Kind.SFT, sft_request(file_id), IdempotencyKey("K-1")).job_id
    backend.start(Kind.SFT, job_id)
    rl = backend.create(Kind.RL, rl_request(), IdempotencyKey("K-2")).job_id
    for _ in range(4):
        clock.advance(60)
        backend.job(Kind.RL, rl)
    world.results.made[job_id] = {"config.json": b"{}"}
    return world


@pytest.fixture(scope="module")
def url(world: InMemoryHosting) -> Iterator[str]:
    with serving(world.hosting) as url:
        yield url


@pytest.fixture(scope="module")
def known(world: InMemoryHosting) -> dict[str, str]:
    job = world.store.all_jobs[0]
    return {
        "job_id": job.id,
        "file_id": world.store.all_files[0].id,
        "model_id": job.fine_tuned_model or "",
        "name": "config.json",
        "trainer_id": "any",
    }


@pytest.mark.parametrize("ids", ["nobody's", "known"])
@pytest.mark.parametrize("label", LABELS)
def test_every_operation_keeps_to_the_document(url: str, known: dict[str, str], label: str, ids: str) -> None:
    if ids == "known" and ("{" not in label or label.startswith("DELETE")):
        pytest.skip("has no id, or would take away what the others ask about")
    operation = OPERATIONS[label]

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        if ids == "known":
            case.path_parameters = {name: known[name] for name in case.path_parameters}
        by_meaning = case.method == "POST" or ABOUT_TIMES & set(case.query or {})
        case.call_and_validate(
            base_url=url, headers=HEADERS, timeout=10, excluded_checks=[positive_data_acceptance] if by_meaning else []
        )

    ask()


REPLIES = {
    "/health": shapes.Health,
    "/files": shapes.Files,
    "/files/{file_id}": shapes.File,
    "/files/{file_id}/jobs": shapes.Jobs,
    "/learning/jobs": shapes.Jobs,
    "/learning/jobs/{job_id}": shapes.Job,
    "/learning/jobs/{job_id}/config": shapes.JobConfig,
    "/learning/jobs/{job_id}/events": shapes.Events,
    "/learning/jobs/{job_id}/metrics": shapes.Points,
    "/learning/jobs/{job_id}/timeline": shapes.Timeline,
    "/learning/jobs/{job_id}/log": shapes.Log,
    "/learning/jobs/{job_id}/results": shapes.Results,
    "/learning/jobs/{job_id}/runs": shapes.Runs,
    "/learning/jobs/{job_id}/checkpoints": shapes.Checkpoints,
    "/models": shapes.Models,
    "/models/{model_id}": shapes.Model,
    "/crypto/public-key": shapes.PublicKey,
    "/env-keys/verify": shapes.Presence,
    "/rl/services/{trainer_id}": shapes.Trainer,
}


@pytest.mark.parametrize("path", REPLIES)
def test_a_reply_has_every_documented_field_and_no_other(url: str, known: dict[str, str], path: str) -> None:
    reply = requests.get(url + path.format(**known), headers=HEADERS, timeout=5)
    assert reply.status_code == 200
    told = msgspec.json.decode(reply.content, type=REPLIES[path])
    rows = [value for value in msgspec.structs.asdict(told).values() if isinstance(value, list)]
    assert all(rows) or path == "/health"


def test_the_document_is_there_for_everybody_and_names_how_to_come_in(url: str) -> None:
    document = requests.get(f"{url}/api/openapi/openapi.json", timeout=5).json()
    assert document["components"]["securitySchemes"]["key"] == {"type": "http", "scheme": "bearer"}
    assert set(document["paths"]) >= set(REPLIES)
