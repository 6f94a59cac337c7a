"""A job that exists already is found by its id."""

from __future__ import annotations

from typing import Any

import pytest

from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryBackends
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import BackendBusy, CredentialsError, KeyRefused, NotKnown, UsageError
from synth_train.domain.model.jobs import Features, IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.moments import ApiRootFound, BackendChosen, Noted, Retrying
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.find_job import FindJob, FoundJob

KEY = Secret("sk-in-memory-qvzjxkwy")
BASE = "https://backend.example"

RL = b'{"job_type":"rl","data":{"base_model":"Qwen/Qwen3-4B","endpoint_base_url":"https://t.example","config":{}}}'


class World:
    """The ports of `FindJob`, with one RL job on the backend."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = InMemoryBackend(api_key=KEY, clock=self.clock)
        self.backends = InMemoryBackends(self.backend)
        self.env = InMemoryEnv({"SYNTH_API_KEY": KEY.reveal()})
        self.prompt = ScriptedPrompt()
        self.progress = RecordedProgress()
        self.job_id = self.backend.create(Kind.RL, RL, IdempotencyKey("k")).job_id
        self.backend.calls.clear()

    def find(self, job_id: JobId | None = None, **options: Any) -> FoundJob:
        find = FindJob(
            env=self.env,
            prompt=self.prompt,
            backends=self.backends,
            patience=TenacityPatience(self.clock),
            progress=self.progress,
        )
        return find(job_id or self.job_id, **{"backend": BASE, **options})

    @property
    def asked(self) -> list[str]:
        return [call.name for call in self.backend.calls]


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_is_found_as_it_is(world: World) -> None:
    found = world.find(kind=Kind.RL)

    assert (found.kind, found.state.job_id, found.state.phase) == (Kind.RL, world.job_id, Phase.LIVE)
    assert world.backends.connected == [(BASE, KEY)]
    assert world.asked == ["features", "job"]
    assert world.progress.moments == [BackendChosen(base=BASE, key_mask="sk-...kwy")]


def test_without_a_kind_the_route_that_knows_every_job_is_asked_first_and_the_job_says_its_own(world: World) -> None:
    assert world.find().kind is Kind.RL, "as it says itself"
    assert world.asked == ["features", "job"]


def test_what_that_route_does_not_know_may_be_an_rl_job(world: World) -> None:
    world.backend.fail_next("job", NotKnown("no such job", status=404))

    assert world.find().kind is Kind.RL


def test_a_job_that_no_route_knows_is_not_there(world: World) -> None:
    with pytest.raises(NotKnown) as caught:
        world.find(JobId("job_none"))
    assert caught.value.status == 404
    assert caught.value.hint.startswith(f"`synth-ai jobs list --backend {BASE}` shows what there is.")
    assert world.asked == ["features", "job", "job", "list_jobs"]


@pytest.mark.parametrize("call", ["features", "job"])
def test_a_busy_backend_is_asked_again(world: World, call: str) -> None:
    world.backend.fail_next(call, BackendBusy("503", status=503))

    assert world.find().state.job_id == world.job_id
    assert [moment.error for moment in world.progress.of(Retrying)] == ["503"]


def test_an_api_root_below_the_base_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InMemoryBackend, "features", lambda self: Features(base=f"{self.base}/api"))
    world.find()

    assert world.progress.of(ApiRootFound) == [ApiRootFound(base=f"{BASE}/api")]


def test_the_base_may_come_from_the_variables_and_what_is_odd_about_it_is_noted(world: World) -> None:
    world.env.variables["BACKEND_BASE_URL"] = "https://user:fake-secret@other.example"
    world.find(backend=None)

    assert world.backends.connected[0][0] == "https://other.example"
    assert [moment.warning for moment in world.progress.of(Noted)] == [True]


def test_the_key_may_come_from_an_env_file(world: World) -> None:
    del world.env.variables["SYNTH_API_KEY"]
    path = world.env.put("keys.env", {"SYNTH_API_KEY": KEY.reveal()})

    assert world.find(env_files=[path]).state.job_id == world.job_id


def test_a_key_that_is_nowhere_is_missed_before_anything_is_asked(world: World) -> None:
    del world.env.variables["SYNTH_API_KEY"]
    world.prompt.somebody = False

    with pytest.raises(CredentialsError):
        world.find()
    assert world.backends.connected == []


def test_the_embedded_backend_takes_no_key(world: World) -> None:
    with pytest.raises(KeyRefused):
        world.find(backend="local")
    assert world.backends.connected == [("local", None)]


def test_plain_http_is_for_this_machine_unless_allowed(world: World) -> None:
    with pytest.raises(UsageError, match="unencrypted"):
        world.find(backend="http://far.example")

    assert world.find(backend="http://far.example", insecure_http=True).state.job_id == world.job_id
