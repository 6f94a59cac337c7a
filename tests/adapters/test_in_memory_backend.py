"""How the in-memory backend is arranged and inspected. What it promises is in tests/contracts/test_backend.py."""

from __future__ import annotations

import pytest

from support.backends import OTHER_K, OUR_KEY, THEIR_KEY, K, rl_request, sft_request, upload_of
from synth_train.adapters.in_memory.backend import Call, InMemoryBackend, InMemoryBackends
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.errors import BackendRefused, BackendUnreachable, KeyRefused, NotOffered
from synth_train.domain.model.hosting import JobStatus
from synth_train.domain.model.jobs import JobId, Kind


@pytest.fixture
def backend() -> InMemoryBackend:
    return InMemoryBackend()


def test_a_call_can_fail_before_it_has_any_effect(backend: InMemoryBackend) -> None:
    backend.fail_next("create", BackendUnreachable("refused", sent=False))
    with pytest.raises(BackendUnreachable):
        backend.create(Kind.RL, rl_request(), K)
    assert backend.jobs == []
    backend.create(Kind.RL, rl_request(), K)


def test_a_call_can_lose_its_reply_after_its_effect(backend: InMemoryBackend) -> None:
    backend.fail_next("create", BackendUnreachable("cut"), after_effect=True)
    with pytest.raises(BackendUnreachable):
        backend.create(Kind.RL, rl_request(), K)
    [job] = backend.jobs
    assert backend.create(Kind.RL, rl_request(), K).job_id == job.id


def test_outages_come_in_the_order_they_were_arranged(backend: InMemoryBackend) -> None:
    backend.fail_next("create", BackendUnreachable("first"), times=2)
    backend.fail_next("create", KeyboardInterrupt("second"))
    backend.fail_next("job", BackendUnreachable("another call"))
    for text in ("first", "first"):
        with pytest.raises(BackendUnreachable, match=text):
            backend.create(Kind.RL, rl_request(), K)
    with pytest.raises(KeyboardInterrupt):
        backend.create(Kind.RL, rl_request(), K)
    backend.create(Kind.RL, rl_request(), K)


def test_a_refusal_counts_before_an_outage_that_follows_the_effect(backend: InMemoryBackend) -> None:
    backend.fail_next("create", BackendUnreachable("cut"), after_effect=True)
    with pytest.raises(BackendRefused):
        backend.create(Kind.RL, b"{}", K)


def test_every_call_is_remembered_with_what_it_was_about(backend: InMemoryBackend) -> None:
    file_id = backend.upload(upload_of(b"row\n", filename="a.jsonl"))
    request = sft_request(file_id)
    job_id = backend.create(Kind.SFT, request, K).job_id
    backend.start(Kind.SFT, job_id)
    assert backend.calls == [
        Call("upload", "a.jsonl"),
        Call("create", request, K),
        Call("start", job_id),
    ]
    assert backend.called("create") == [Call("create", request, K)]


def test_requests_keep_the_refused_ones_too(backend: InMemoryBackend) -> None:
    with pytest.raises(BackendRefused):
        backend.create(Kind.RL, b"{}", K)
    backend.create(Kind.RL, rl_request(), OTHER_K)
    assert backend.requests == [b"{}", rl_request()]


def test_files_can_be_read_back(backend: InMemoryBackend) -> None:
    file_id = backend.upload(upload_of(b"row\n"))
    [file] = backend.files
    assert (file.id, backend.content(file)) == (file_id, b"row\n")


def test_looking_at_jobs_from_outside_does_not_move_them() -> None:
    clock = ManualClock()
    backend = InMemoryBackend(clock=clock)
    backend.create(Kind.RL, rl_request(), K)
    clock.advance(3600)
    assert [job.status for job in backend.jobs] == [JobStatus.QUEUED]


def test_a_backend_may_have_no_vault(backend: InMemoryBackend) -> None:
    backend.vault = False
    for call in (backend.public_key, backend.holds_environment_key, lambda: backend.store_environment_key(b"")):
        with pytest.raises(NotOffered):
            call()


def test_a_base_loses_the_slashes_at_its_end() -> None:
    assert InMemoryBackend(base="https://b/api//").base == "https://b/api"


def test_what_is_connected_shares_everything_but_base_and_holder() -> None:
    backends = InMemoryBackends()
    ours, theirs = backends.connect("https://a/", OUR_KEY), backends.connect("https://b", THEIR_KEY)
    backends.backend.fail_next("create", BackendUnreachable("cut"))
    with pytest.raises(BackendUnreachable):
        ours.create(Kind.RL, rl_request(), K)
    assert ours.create(Kind.RL, rl_request(), K).job_id != theirs.create(Kind.RL, rl_request(), K).job_id
    assert len(backends.backend.jobs) == 2
    assert [call.name for call in backends.backend.calls] == ["create"] * 3
    assert (ours.base, theirs.base) == ("https://a", "https://b")
    assert backends.connected == [("https://a/", OUR_KEY), ("https://b", THEIR_KEY)]


def test_a_killed_worker_is_replaced() -> None:
    clock = ManualClock()
    backend = InMemoryBackend(clock=clock)
    executor = backend.world.executor
    first = backend.create(Kind.RL, rl_request(), K).job_id
    clock.advance(executor.delay)
    backend.job(Kind.RL, first)
    [job] = backend.jobs
    assert job.worker is not None
    executor.kill(job.worker)
    executor.kill(job.worker)
    clock.advance(120)
    assert backend.job(Kind.RL, first).word == "running"
    assert backend.jobs[0].claims == 2


def test_a_start_that_is_refused_for_the_key_is_no_missing_route() -> None:
    with pytest.raises(KeyRefused):
        InMemoryBackend(api_key=None).start(Kind.SFT, JobId("job_0"))
