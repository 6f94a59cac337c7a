"""The preflight of an RL job, on hosting in memory and a clock that moves only when slept on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.in_memory.sealer import ReadableSealer
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendUnreachable,
    KeyRefused,
    NotOffered,
    TaskAppUnhealthy,
)
from synth_train.domain.model.jobs import Verification
from synth_train.domain.model.moments import Noted, Retrying, TaskAppHealthy, TaskAppVerified
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys, Trouble
from synth_train.domain.usecases.check_task_app import CheckTaskApp
from synth_train.domain.usecases.mint import publish_environment_key
from synth_train.ports.task_app import PROBE_TIME

URL = "https://task.example"
OURS = Secret("ours-5f1c2a9e7b3d4f60-001")
THEIRS = Secret("theirs-9c0d1e2f3a4b5c6d-002")
KEYS = TaskAppKeys(OURS)


class Sequence(InMemoryTaskApp):
    """A task app whose `/health` answers in turn, and takes `seconds` of the clock for each answer.

    A step is a status with a body, a trouble, or None for the answer of a healthy app.
    """

    def __init__(self, clock: ManualClock, *steps: tuple[int, object] | Trouble | None, seconds: float = 0.0) -> None:
        super().__init__()
        self._clock, self._steps, self._seconds = clock, list(steps), seconds
        self.given: list[float] = []

    def health(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        self.given.append(within)
        self._clock.advance(min(within, self._seconds))
        step = self._steps.pop(0) if self._steps else None
        self.trouble = step if isinstance(step, Trouble) else None
        self.replies = {"health": step} if isinstance(step, tuple) else {}
        return super().health(task_url, keys, within=within)


class OneHeader(InMemoryTaskApp):
    """An app that compares `X-API-Keys` as a whole, so that no list of keys ever fits."""

    def _accepts(self, keys: TaskAppKeys) -> bool:
        return not keys.aliases and super()._accepts(keys)


class Stage:
    """A backend that holds `held`, the task app as it and we see it, and the check itself."""

    def __init__(
        self,
        *,
        app: InMemoryTaskApp | None = None,
        seen_by_backend: InMemoryTaskApp | None = None,
        held: Secret | None = OURS,
        base: str = "https://backend.example",
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.app = app or InMemoryTaskApp(keys={OURS})
        world = InMemoryHosting(clock=self.clock, task_app=seen_by_backend or InMemoryTaskApp(keys={OURS}))
        self.backend = InMemoryBackend(base=base, world=world)
        self.progress = RecordedProgress()
        self.published: list[Secret] = []
        if held:
            publish_environment_key(self.backend, ReadableSealer(), held)
        self.check = CheckTaskApp(
            backend=self.backend,
            task_app=self.app,
            patience=TenacityPatience(self.clock),
            clock=self.clock,
            progress=self.progress,
        )

    def publish(self, key: Secret = OURS) -> None:
        self.published.append(key)
        publish_environment_key(self.backend, ReadableSealer(), key)

    def refused(
        self, keys: TaskAppKeys = KEYS, *, url: str = URL, publish: Callable[[], None] | None = None
    ) -> TaskAppUnhealthy:
        with pytest.raises(TaskAppUnhealthy) as caught:
            self.check(url, keys, publish=publish)
        assert self.progress.of(TaskAppHealthy) == []
        return caught.value

    @property
    def routes(self) -> list[str]:
        return [url for url, _ in self.app.asked]


def test_the_backend_looks_first_and_then_we_do() -> None:
    stage = Stage()

    stage.check(URL, KEYS)

    assert stage.progress.moments == [
        TaskAppVerified(candidates=1, statuses=(200,)),
        TaskAppHealthy(task_url=URL),
    ]
    assert [call.name for call in stage.backend.calls][-1] == "verify_task_app"
    assert stage.routes == [f"{URL}/health", f"{URL}/task_info"]


def test_a_check_without_progress_is_silent() -> None:
    stage = Stage()

    CheckTaskApp(backend=stage.backend, task_app=stage.app, patience=TenacityPatience(stage.clock), clock=stage.clock)(
        URL, KEYS
    )


# -- our own look


def test_an_app_that_is_not_healthy_is_named_with_what_it_says() -> None:
    stage = Stage()
    stage.app.replies["health"] = (200, {"healthy": False, "detail": "model not loaded"})

    error = stage.refused()

    assert str(error) == f"task app not healthy: GET {URL}/health: 200, but healthy is false: model not loaded"
    assert "log" in error.hint
    assert stage.routes == [f"{URL}/health"]


def test_task_info_must_answer_too() -> None:
    stage = Stage()
    stage.app.replies["task_info"] = (404, {"detail": "not found"})

    assert f"{URL}/task_info: 404: not found" in str(stage.refused())


def test_a_failure_that_may_pass_is_tried_again() -> None:
    clock = ManualClock()
    stage = Stage(app=Sequence(clock, (503, None), Trouble.REFUSED, None), clock=clock)

    stage.check(URL, KEYS)

    assert [moment.what for moment in stage.progress.of(Retrying)] == ["look at the task app"] * 2
    assert "503" in stage.progress.of(Retrying)[0].error
    assert len(clock.slept) == 2


def test_it_is_tried_three_times_at_most() -> None:
    clock = ManualClock()
    stage = Stage(app=Sequence(clock, *[(500, {"detail": f"try {n}"}) for n in (1, 2, 3, 4)]), clock=clock)

    assert "500: try 3" in str(stage.refused())


def test_an_app_that_hangs_is_given_up_after_thirty_seconds_in_all() -> None:
    clock = ManualClock()
    app = Sequence(clock, *[Trouble.TIMED_OUT] * 4, seconds=1000.0)
    stage = Stage(app=app, clock=clock)

    assert "no reply in time" in str(stage.refused())
    assert app.given[:2] == [10.0, 10.0]
    assert clock.monotonic() == pytest.approx(30.0)


def test_a_slow_health_leaves_task_info_at_least_a_second() -> None:
    clock = ManualClock()
    app = Sequence(clock, Trouble.TIMED_OUT, Trouble.TIMED_OUT, None, seconds=1000.0)
    given: list[float] = []

    def task_info(task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        given.append(within)
        return Probe(url=f"{task_url}/task_info", status=200, body={})

    app.task_info = task_info  # type: ignore[method-assign]
    Stage(app=app, clock=clock).check(URL, KEYS)

    assert given == [1.0]


def test_what_will_not_pass_is_not_tried_again() -> None:
    clock = ManualClock()
    stage = Stage(app=Sequence(clock, Trouble.TLS, None), clock=clock)

    assert "TLS" in str(stage.refused())
    assert clock.slept == []


# -- keys


def test_a_key_that_the_app_refuses_is_what_the_message_is_about() -> None:
    stage = Stage(app=InMemoryTaskApp(keys={THEIRS}))

    error = stage.refused()

    assert str(error).endswith("401: unauthorised (asked with our...001)")
    assert "ENVIRONMENT_API_KEY" in error.hint


def test_without_a_fitting_alias_the_remedy_stays_the_general_one() -> None:
    stage = Stage(app=InMemoryTaskApp(keys={THEIRS}))

    error = stage.refused(TaskAppKeys(OURS, (Secret("third-77a1b2c3d4e5f607-003"),)))

    assert "Set ENVIRONMENT_API_KEY to the key that the app was started with" in error.hint


@pytest.mark.parametrize(
    ("accepted", "name"),
    [(OURS, "our...001 (ENVIRONMENT_API_KEY)"), (THEIRS, "the...002 (one of ENVIRONMENT_API_KEY_ALIASES)")],
)
def test_the_key_that_fits_alone_is_pointed_out(accepted: Secret, name: str) -> None:
    stage = Stage(app=OneHeader(keys={accepted}))

    error = stage.refused(TaskAppKeys(OURS, (THEIRS,)))

    assert f"accepts {name}" in error.hint


def test_any_of_the_keys_opens_an_app_that_reads_all_headers() -> None:
    stage = Stage(app=InMemoryTaskApp(keys={THEIRS}))

    stage.check(URL, TaskAppKeys(OURS, (THEIRS,)))

    assert stage.progress.of(TaskAppHealthy)


# -- the backend's look


@pytest.mark.parametrize("error", [BackendUnreachable("cut"), BackendBusy("502", status=502)])
def test_the_backend_is_asked_again_when_it_could_not_answer(error: Exception) -> None:
    stage = Stage()
    stage.backend.fail_next("verify_task_app", error)

    stage.check(URL, KEYS)

    assert [moment.what for moment in stage.progress.of(Retrying)] == ["let the backend verify the task app"]


@pytest.mark.parametrize("error", [KeyRefused("401"), BackendUnreachable("down")])
def test_a_backend_that_cannot_be_asked_is_its_own_error(error: Exception) -> None:
    stage = Stage()
    stage.backend.fail_next("verify_task_app", error, times=5)

    with pytest.raises(type(error)):
        stage.check(URL, KEYS)

    assert stage.routes == []


def test_without_a_verification_our_own_look_counts_and_that_is_said() -> None:
    stage = Stage()
    stage.backend.fail_next("verify_task_app", NotOffered("404", status=404))

    stage.check(URL, KEYS)

    [note] = stage.progress.of(Noted)
    assert "does not verify task apps" in note.text
    assert not note.warning
    assert stage.progress.of(TaskAppVerified) == []
    assert stage.progress.of(TaskAppHealthy)


def test_without_a_verification_a_loopback_url_is_warned_about() -> None:
    stage = Stage()
    stage.backend.fail_next("verify_task_app", NotOffered("404", status=404))

    stage.check("http://localhost:8001", KEYS)

    [note] = stage.progress.of(Noted)
    assert note.warning
    assert "localhost is an address of this machine" in note.text


@pytest.mark.parametrize(
    ("url", "base", "said"),
    [
        ("http://127.0.0.1:8001", "https://backend.example", "of this machine"),
        ("http://127.0.0.1:8001", "http://10.0.0.1:8000", "of this machine"),
        ("http://192.168.0.7:8001", "https://backend.example", "of this network"),
        ("http://127.0.0.1:8001", "http://localhost:8000", ""),
        ("http://192.168.0.7:8001", "http://10.0.0.1:8000", ""),
        ("https://task.example", "https://backend.example", ""),
        ("http://127.0.0.1:8001", "local", ""),
    ],
)
def test_a_url_that_the_backend_cannot_reach_is_said_to_be_one(url: str, base: str, said: str) -> None:
    unreachable = InMemoryTaskApp()
    unreachable.trouble = Trouble.REFUSED
    stage = Stage(seen_by_backend=unreachable, base=base)

    error = stage.refused(url=url, publish=stage.publish)

    assert "statuses=[0]" in str(error)
    assert ("which a backend elsewhere cannot reach" in error.hint) is bool(said)
    assert said in error.hint
    if not said:
        assert "check that its URL is public" in error.hint
    assert stage.published == []


def test_our_own_diagnosis_comes_before_the_backends() -> None:
    stage = Stage(app=InMemoryTaskApp(keys={THEIRS}), seen_by_backend=InMemoryTaskApp(keys={THEIRS}))

    assert f"GET {URL}/health: 401" in str(stage.refused(publish=stage.publish))
    assert stage.published == []


# -- a backend that lacks our key


@pytest.mark.parametrize("held", [None, THEIRS])
def test_a_key_that_the_backend_lacks_is_uploaded_and_verified_once_more(held: Secret | None) -> None:
    stage = Stage(held=held)

    stage.check(URL, KEYS, publish=stage.publish)

    assert stage.published == [OURS]
    [note] = stage.progress.of(Noted)
    assert OURS.mask in note.text
    [verified] = stage.progress.of(TaskAppVerified)
    assert 200 in verified.statuses
    assert stage.progress.of(TaskAppHealthy)


def test_it_is_uploaded_once_only() -> None:
    stage = Stage(held=None)

    error = stage.refused(publish=partial(stage.publish, THEIRS))

    assert stage.published == [THEIRS]
    assert "statuses=[401]" in str(error)
    assert "None of the keys that the backend holds" in error.hint


def test_without_a_way_to_upload_it_is_said_what_is_missing() -> None:
    stage = Stage(held=None)

    error = stage.refused()

    assert f"the backend https://backend.example cannot use the task app at {URL}" in str(error)
    assert "no environment key is stored" in str(error)
    assert "seems to hold no ENVIRONMENT_API_KEY" in error.hint


def test_a_backend_without_a_vault_stays_unverified() -> None:
    stage = Stage(held=None)
    stage.backend.vault = False

    assert "cannot use the task app" in str(stage.refused(publish=stage.publish))
    assert stage.progress.of(Noted) == []


def test_a_verification_that_is_gone_the_second_time_changes_nothing() -> None:
    stage = Stage(held=None)

    def publish() -> None:
        stage.publish()
        stage.backend.fail_next("verify_task_app", NotOffered("404", status=404))

    assert "statuses=[]" in str(stage.refused(publish=publish))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"status": "healthy", "authorized": False}),
        (401, {"expected_api_key_prefix": "abc"}),
    ],
)
def test_a_key_that_the_app_was_not_seen_to_accept_is_not_uploaded(status: int, body: object) -> None:
    stage = Stage(held=None)
    stage.app.replies["health"] = (status, body)

    stage.refused(publish=stage.publish)

    assert stage.published == []


def test_no_report_of_a_backend_shows_a_key_of_ours() -> None:
    stage = Stage()

    def verify(task_url: str) -> Verification:
        return Verification(ok=False, candidates=1, statuses=(500,), report=f"tried {OURS.reveal()}\n")

    stage.backend.verify_task_app = verify  # type: ignore[method-assign]

    assert str(stage.refused()).endswith("statuses=[500]): tried our...001")
