"""One plan becomes one job, exactly once: over in-memory hosting, in no time and without a socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from synth_train.adapters.in_memory.backend import InMemoryBackend
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.dataset import Part
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendRefused,
    BackendUnreachable,
    FileRejected,
    GaveUpWaiting,
    KeyRefused,
    NotKnown,
    OutcomeUnknown,
    UnexpectedReply,
)
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind
from synth_train.domain.model.moments import (
    Created,
    Creating,
    FileReady,
    FileWaiting,
    Moment,
    Noted,
    Resumed,
    Retrying,
    UploadBegun,
    UploadProgress,
)
from synth_train.domain.model.replies import refusal
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.specs import RlRequest, SftRequest
from synth_train.domain.model.submission import Stage, Submission
from synth_train.domain.usecases.submit import PreparedJob, SubmitJob, SubmitOptions
from synth_train.ports.journal import JournalPort
from synth_train.ports.progress import ProgressPort

TRAIN, VALID = Path("/data/train.jsonl"), Path("/data/valid.jsonl")
CONTENT = {
    TRAIN: b'{"messages":[{"role":"user","content":"1+1"},{"role":"assistant","content":"2"}]}\n',
    VALID: b'{"messages":[{"role":"user","content":"1+2"},{"role":"assistant","content":"3"}]}\n',
}


def rl_job(**changes: object) -> PreparedJob:
    config: dict[str, object] = {"model": {"base": "Qwen/Qwen3-4B"}}
    request = RlRequest(
        compute={},
        task_url="https://app.example",
        config=config,
        model=None,
        base_model="Qwen/Qwen3-4B",
        backend_base="https://backend.test",
    )
    return replace(PreparedJob(kind=Kind.RL, config="rl.toml", table=config, request=request), **changes)


def sft_job(*, validation: bool = False, **changes: object) -> PreparedJob:
    request = SftRequest(
        model="Qwen/Qwen3-4B",
        hyperparameters={"n_epochs": 1},
        effective_config={"compute": {}, "data": {"topology": {}}, "training": {}},
        config=None,
        validates=validation,
    )
    job = PreparedJob(
        kind=Kind.SFT,
        config="sft.toml",
        table={"job": {"model": "Qwen/Qwen3-4B"}},
        request=request,
        training=Part(TRAIN, 0, len(CONTENT[TRAIN])),
        validation=Part(VALID, 0, len(CONTENT[VALID])) if validation else None,
    )
    return replace(job, **changes)


class World:
    """A backend, a journal and a clock that outlive the processes that submit."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = InMemoryBackend(clock=self.clock)
        self.journal = InMemoryJournal()
        self.entropy = CountingEntropy()
        self.datasets = InMemoryDatasets({str(path): content for path, content in CONTENT.items()})
        self.progress = RecordedProgress()

    def submit(
        self,
        job: PreparedJob,
        *,
        journal: JournalPort | None = None,
        progress: ProgressPort | None = None,
        **options: object,
    ) -> JobId:
        submit = SubmitJob(
            backend=self.backend,
            api_key=Secret("sk-in-memory-000000000000"),
            datasets=self.datasets,
            journal=journal or self.journal,
            patience=TenacityPatience(self.clock),
            clock=self.clock,
            entropy=self.entropy,
            progress=progress or self.progress,
        )
        return submit(job, SubmitOptions(**options))  # type: ignore[arg-type]

    @property
    def stages(self) -> list[Stage]:
        return [entry.stage for entry in self.journal.entries.values()]

    @property
    def keys(self) -> list[IdempotencyKey | None]:
        """The idempotency keys of all attempts to create a job."""
        return [call.key for call in self.backend.called("create")]


@pytest.fixture
def world() -> World:
    return World()


JOBS = pytest.mark.parametrize("job", [rl_job(), sft_job(), sft_job(validation=True)], ids=["rl", "sft", "sft+val"])


# -- when all goes well


@JOBS
def test_a_submission_makes_one_job_and_is_handed_over(world: World, job: PreparedJob) -> None:
    job_id = world.submit(job)
    assert [made.id for made in world.backend.jobs] == [job_id]
    assert [made.started for made in world.backend.jobs] == [True]
    assert world.stages == [Stage.HANDED_OVER]


def test_the_backend_gets_the_very_bytes_that_were_shown(world: World) -> None:
    world.submit(sft_job())
    (creating,) = world.progress.of(Creating)
    assert world.backend.requests == [creating.body]
    assert creating.url == "https://backend.test/learning/jobs"


def test_files_go_up_as_they_are_and_their_ids_into_the_request(world: World) -> None:
    world.submit(sft_job(validation=True))
    training, validation = world.backend.files
    assert [world.backend.content(file) for file in (training, validation)] == [CONTENT[TRAIN], CONTENT[VALID]]
    assert f'"training_file_id":"{training.id}"'.encode() in world.backend.requests[0]
    assert f'"validation_files":["{validation.id}"]'.encode() in world.backend.requests[0]


def test_only_the_chosen_stretch_of_a_file_goes_up(world: World) -> None:
    world.submit(sft_job(training=Part(TRAIN, 3, 9)))
    assert world.backend.content(world.backend.files[0]) == CONTENT[TRAIN][3:9]


def test_what_happens_is_told_in_order(world: World) -> None:
    job_id = world.submit(sft_job())
    told = [type(moment) for moment in world.progress.moments]
    assert told == [UploadBegun, UploadProgress, FileReady, Creating, Created]
    assert world.progress.of(Created)[0].job_id == job_id
    assert world.progress.of(UploadProgress)[-1].sent == len(CONTENT[TRAIN])


def test_each_run_draws_a_key_of_its_own_with_at_least_122_bits(world: World) -> None:
    world.submit(rl_job())
    world.submit(rl_job())
    first, second = world.keys
    assert first != second
    assert len(str(first)) == 32


def test_a_second_run_names_the_job_of_the_first_that_nobody_saw_end(world: World) -> None:
    first = world.submit(rl_job())
    world.submit(rl_job())
    (note,) = world.progress.of(Noted)
    assert note.warning
    assert note.text == (
        f"job {first} of the same request was not watched; this run makes another one. "
        f"To watch that one: synth-ai jobs watch {first} --type rl --backend https://backend.test"
    )
    assert len(world.backend.jobs) == 2


def test_the_job_of_an_earlier_run_is_named_before_another_is_asked_for(world: World) -> None:
    world.submit(sft_job())
    world.progress.moments.clear()
    world.submit(sft_job(), env_files=(Path("/repo/.env"),))
    told = [type(moment) for moment in world.progress.moments]
    assert told.index(Noted) < told.index(UploadBegun) < told.index(Creating)
    assert world.progress.of(Noted)[0].text.endswith("--backend https://backend.test --env-file /repo/.env")


def test_a_job_last_seen_running_is_named_and_one_that_has_ended_is_not(world: World) -> None:
    first = world.submit(rl_job())
    world.journal.saw(first, "running")
    second = world.submit(rl_job())
    assert "was last seen 'running'" in world.progress.of(Noted)[0].text
    world.journal.saw(second, "succeeded")
    world.progress.moments.clear()
    world.submit(rl_job())
    assert world.progress.of(Noted) == []


# -- files


def test_a_file_that_is_not_ready_is_waited_for(world: World) -> None:
    world.backend.world.inspector.looks = 4
    world.submit(sft_job())
    assert world.clock.slept == [2.0, 2.0]
    assert [moment.word for moment in world.progress.of(FileWaiting)] == ["processing"]


def test_a_file_that_is_not_visible_yet_is_waited_for(world: World) -> None:
    world.backend.fail_next("file", NotKnown("no such file", status=404), times=2)
    world.submit(sft_job())
    assert world.clock.slept == [2.0, 2.0]


def test_a_look_at_a_file_that_fails_is_told_once_and_tried_again(world: World) -> None:
    world.backend.fail_next("file", BackendBusy("HTTP 503", status=503), times=3)
    world.submit(sft_job())
    assert len([note for note in world.progress.of(Noted) if "HTTP 503" in note.text]) == 1


def test_a_file_that_is_never_ready_ends_without_a_job_and_names_the_file(world: World) -> None:
    world.backend.world.inspector.looks = 10**6
    with pytest.raises(GaveUpWaiting, match="no job was created") as caught:
        world.submit(sft_job(), file_timeout=60.0)
    assert str(world.backend.files[0].id) in str(caught.value)
    assert world.clock.monotonic() == 60.0
    assert world.backend.jobs == []


def test_a_run_after_a_file_was_late_goes_on_with_that_file(world: World) -> None:
    world.backend.world.inspector.looks = 40
    with pytest.raises(GaveUpWaiting):
        world.submit(sft_job(), file_timeout=60.0)
    world.submit(sft_job())
    assert len(world.backend.called("upload")) == 1
    assert len(world.backend.jobs) == 1


def test_a_file_that_the_backend_rejects_ends_without_a_job_and_with_its_reason(world: World) -> None:
    world.backend.world.inspector.complaint = "line 1273 is not JSON"
    with pytest.raises(FileRejected, match="line 1273 is not JSON"):
        world.submit(sft_job())
    assert world.backend.jobs == []
    assert world.stages == [Stage.REFUSED]


def test_a_key_that_is_refused_while_waiting_for_a_file_ends_the_wait(world: World) -> None:
    world.backend.fail_next("file", KeyRefused("HTTP 401"))
    with pytest.raises(KeyRefused):
        world.submit(sft_job())
    assert world.clock.slept == []


def test_an_upload_that_is_cut_is_sent_again_from_its_first_byte(world: World) -> None:
    world.backend.fail_next("upload", BackendUnreachable("cut"), times=2)
    world.submit(sft_job())
    assert len(world.progress.of(UploadBegun)) == 3
    assert [moment.what for moment in world.progress.of(Retrying)] == ["upload train.jsonl"] * 2
    assert world.backend.content(world.backend.files[0]) == CONTENT[TRAIN]


def test_an_upload_that_is_refused_is_not_sent_again(world: World) -> None:
    world.backend.fail_next("upload", BackendRefused("HTTP 413", status=413))
    with pytest.raises(BackendRefused):
        world.submit(sft_job())
    assert len(world.backend.called("upload")) == 1


# -- creation


@JOBS
@pytest.mark.parametrize(
    "lost",
    [
        BackendUnreachable("closed without a reply"),
        BackendBusy("HTTP 504", status=504),
        BackendBusy("HTTP 429", status=429, retry_after=1.0),
    ],
)
def test_a_creation_whose_reply_is_lost_is_asked_again_with_the_same_key_and_bytes(
    world: World, job: PreparedJob, lost: Exception
) -> None:
    world.backend.fail_next("create", lost, after_effect=True)
    world.backend.fail_next("create", lost)
    world.submit(job)
    assert len(world.keys) == 3
    assert len(set(world.keys)) == 1
    assert len({call.subject for call in world.backend.called("create")}) == 1
    assert len(world.backend.jobs) == 1
    assert len(world.backend.called("upload")) == (2 if job.validation else 1 if job.training else 0)


@JOBS
def test_a_creation_that_is_never_answered_gives_its_key_and_the_next_run_uses_it(
    world: World, job: PreparedJob
) -> None:
    world.backend.fail_next("create", BackendUnreachable("closed without a reply"), after_effect=True, times=5)
    with pytest.raises(OutcomeUnknown, match="the job may exist") as caught:
        world.submit(job)
    assert set(world.keys) == {caught.value.key}
    assert caught.value.key in caught.value.hint

    job_id = world.submit(job)
    assert [made.id for made in world.backend.jobs] == [job_id]
    assert set(world.keys) == {caught.value.key}
    assert [moment.key for moment in world.progress.of(Resumed)] == [caught.value.key]
    assert len(set(world.backend.requests)) == 1


def test_a_run_with_new_leaves_what_stopped_half_way_alone(world: World) -> None:
    world.backend.fail_next("create", BackendUnreachable("closed without a reply"), times=5)
    with pytest.raises(OutcomeUnknown):
        world.submit(rl_job())
    world.submit(rl_job(), fresh=True)
    assert world.stages == [Stage.CREATING, Stage.HANDED_OVER]
    assert len(set(world.keys)) == 2


def test_a_backend_that_was_never_reached_has_made_no_job(world: World) -> None:
    world.backend.fail_next("create", BackendUnreachable("refused", sent=False), times=5)
    with pytest.raises(BackendUnreachable) as caught:
        world.submit(rl_job())
    assert type(caught.value) is BackendUnreachable


def test_a_backend_that_is_too_busy_to_listen_has_made_no_job(world: World) -> None:
    world.backend.fail_next("create", BackendBusy("HTTP 429", status=429), times=5)
    with pytest.raises(BackendBusy):
        world.submit(rl_job())


def test_a_wait_that_is_too_long_is_said_though_the_job_may_exist(world: World) -> None:
    world.backend.fail_next("create", refusal(503, "HTTP 503", retry_after=120.0))
    with pytest.raises(OutcomeUnknown) as caught:
        world.submit(rl_job())
    assert len(world.keys) == 1, "asked once"
    assert caught.value.hint.startswith("The backend asks for a wait of 120 s before the next try. Run the same")


@pytest.mark.parametrize("status", [None, 200])
def test_an_acceptance_without_an_id_may_have_made_a_job(world: World, status: int | None) -> None:
    world.backend.fail_next("create", UnexpectedReply("the reply has no job id", status=status))
    with pytest.raises(OutcomeUnknown, match="no job id"):
        world.submit(rl_job())
    assert len(world.keys) == 1


def test_a_redirected_creation_has_made_no_job(world: World) -> None:
    world.backend.fail_next("create", UnexpectedReply("HTTP 302", status=302))
    with pytest.raises(UnexpectedReply):
        world.submit(rl_job())


def test_a_refused_creation_is_over_and_the_next_run_begins_with_a_new_key(world: World) -> None:
    world.backend.fail_next("create", BackendRefused("HTTP 402: no credit", status=402))
    with pytest.raises(BackendRefused, match="no credit"):
        world.submit(rl_job())
    assert world.stages == [Stage.REFUSED]
    world.submit(rl_job())
    assert len(set(world.keys)) == 2


def test_a_refusal_after_a_lost_reply_does_not_hide_the_job_that_may_exist(world: World) -> None:
    world.backend.fail_next("create", BackendUnreachable("cut"), after_effect=True)
    world.backend.fail_next("create", BackendRefused("HTTP 402", status=402))
    with pytest.raises(OutcomeUnknown):
        world.submit(rl_job())
    assert world.stages == [Stage.CREATING]


def test_a_key_refused_at_creation_leaves_the_submission_open(world: World) -> None:
    world.backend.fail_next("create", KeyRefused("HTTP 401"))
    with pytest.raises(KeyRefused):
        world.submit(rl_job())
    assert world.stages == [Stage.CREATING]


# -- starting


def test_a_start_that_is_not_confirmed_is_a_warning(world: World) -> None:
    world.backend.fail_next("start", BackendRefused("HTTP 409: started already", status=409))
    job_id = world.submit(sft_job())
    (note,) = world.progress.of(Noted)
    assert note.warning
    assert str(job_id) in note.text


def test_a_start_that_is_lost_is_tried_again(world: World) -> None:
    world.backend.fail_next("start", BackendUnreachable("cut"), times=2)
    world.submit(sft_job())
    assert len(world.backend.called("start")) == 3


def test_an_rl_job_starts_by_its_creation(world: World) -> None:
    world.submit(rl_job())
    assert world.backend.called("start") == []


# -- the user's own key


@JOBS
def test_three_runs_under_one_key_of_the_users_are_one_job(world: World, job: PreparedJob) -> None:
    ids = {world.submit(job, key=IdempotencyKey("K-77")) for _ in range(3)}
    assert len(ids) == len(world.backend.jobs) == 1
    assert set(world.keys) == {"K-77"}
    assert len(set(world.backend.requests)) == 1
    assert len(world.backend.called("upload")) == len(world.backend.files)


def test_a_conflict_under_a_key_of_our_own_says_how_to_begin_afresh(world: World) -> None:
    world.backend.fail_next("create", BackendRefused("HTTP 409", status=409))
    with pytest.raises(BackendRefused, match="409") as caught:
        world.submit(rl_job())
    assert "--new begins afresh" in caught.value.hint
    assert world.stages == [Stage.CREATING]


def test_each_try_is_told_with_its_number_and_how_many_there_are(world: World) -> None:
    world.backend.fail_next("create", BackendBusy("HTTP 503", status=503), times=3)
    world.submit(rl_job())
    told = [(moment.what, moment.error, moment.attempt, moment.attempts) for moment in world.progress.of(Retrying)]
    assert told == [("create the job", "HTTP 503", attempt, 5) for attempt in (2, 3, 4)]


def test_a_users_key_of_a_refused_request_can_be_used_again(world: World) -> None:
    world.backend.fail_next("create", BackendRefused("HTTP 402", status=402))
    with pytest.raises(BackendRefused):
        world.submit(rl_job(), key=IdempotencyKey("K"))
    world.submit(rl_job(), key=IdempotencyKey("K"))
    assert len(world.backend.jobs) == 1


def test_a_users_key_that_belongs_to_another_request_is_warned_of_and_refused_by_the_backend(world: World) -> None:
    world.submit(sft_job(), key=IdempotencyKey("K"))
    with pytest.raises(BackendRefused) as caught:
        world.submit(sft_job(table={"other": 1}, training=Part(TRAIN, 0, 9)), key=IdempotencyKey("K"))
    assert caught.value.status == 409
    assert caught.value.hint.startswith("If K stands for another request on this backend: give another --idempotency")
    assert any("used before for another request (sft.toml)" in note.text for note in world.progress.of(Noted))
    assert len(world.backend.jobs) == 1


def test_a_users_key_under_which_nothing_was_asked_yet_may_serve_another_request(world: World) -> None:
    world.backend.fail_next("upload", BackendRefused("HTTP 413", status=413))
    with pytest.raises(BackendRefused):
        world.submit(sft_job(), key=IdempotencyKey("K"))
    world.submit(sft_job(training=Part(TRAIN, 0, 9)), key=IdempotencyKey("K"))
    assert world.progress.of(Noted) == []
    assert len(world.backend.jobs) == 1


# -- a file of a run that stopped


def test_a_file_that_has_gone_meanwhile_is_uploaded_again(world: World) -> None:
    world.backend.world.inspector.looks = 10**6
    with pytest.raises(GaveUpWaiting):
        world.submit(sft_job(), file_timeout=1.0)
    world.backend.world.inspector.looks = 1
    world.backend.fail_next("file", NotKnown("deleted", status=404))
    world.submit(sft_job())
    assert len(world.backend.called("upload")) == 2
    assert len(world.backend.jobs) == 1


# -- killed anywhere


class Killed(BaseException):
    """The process ends here, without a chance to tidy up."""


class Mortal:
    """Counts the points at which a process can be killed, and kills it at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.passed: list[str] = []

    def point(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) - 1 == self.at:
            raise Killed(name)


class MortalJournal(InMemoryJournal):
    """A journal that a process may be killed before and after writing to. It cannot let go when it is dead."""

    def __init__(self, journal: InMemoryJournal, mortal: Mortal) -> None:
        super().__init__(journal.entries, journal._held_by_anyone)
        self._mortal = mortal

    def open(self, submission: Submission) -> None:
        self._around(f"journal {submission.stage.value}", lambda: super(MortalJournal, self).open(submission))

    def advance(self, submission: Submission) -> None:
        self._around(f"journal {submission.stage.value}", lambda: super(MortalJournal, self).advance(submission))

    def _around(self, name: str, write: Callable[[], None]) -> None:
        self._mortal.point(f"before {name}")
        write()
        self._mortal.point(f"after {name}")


class MortalProgress(ProgressPort):
    """A progress that a process may be killed before and after printing to."""

    def __init__(self, mortal: Mortal) -> None:
        self._mortal = mortal
        self.printed: list[Moment] = []

    def tell(self, moment: Moment) -> None:
        name = f"print {type(moment).__name__}"
        self._mortal.point(f"before {name}")
        self.printed.append(moment)
        self._mortal.point(f"after {name}")


class MortalBackend(InMemoryBackend):
    """A backend that a process may be killed before and after calling: with its request unsent, or its reply unread."""

    mortal = Mortal()

    def _asked(self, name: str, act: Callable[[], object], **about: object) -> object:  # type: ignore[override]
        self.mortal.point(f"before {name}")
        answer = super()._asked(name, act, **about)  # type: ignore[arg-type]
        self.mortal.point(f"after {name}")
        return answer


def run_once(world: World, job: PreparedJob, mortal: Mortal, **options: object) -> list[Moment]:
    """One process: what it printed until it ended, by itself or not."""
    assert isinstance(world.backend, MortalBackend)
    world.backend.mortal = mortal
    journal, progress = MortalJournal(world.journal, mortal), MortalProgress(mortal)
    try:
        world.submit(job, journal=journal, progress=progress, **options)
    except Killed:
        world.journal = journal.after_crash()
    return progress.printed


def points_of(job: PreparedJob) -> list[str]:
    world = World()
    world.backend = MortalBackend(clock=world.clock)
    mortal = Mortal()
    run_once(world, job, mortal)
    return mortal.passed


DEATHS = [
    pytest.param(job, at, id=f"{job.kind.value}-{at:02d}-{name}".replace(" ", "-"))
    for job in (rl_job(), sft_job(), sft_job(validation=True))
    for at, name in enumerate(points_of(job))
]


def ids_told(printed: list[Moment]) -> set[JobId]:
    created = {moment.job_id for moment in printed if isinstance(moment, Created)}
    return created | {moment.job_id for moment in printed if isinstance(moment, Resumed) and moment.job_id is not None}


@pytest.mark.parametrize("named", [None, IdempotencyKey("K")], ids=["drawn-key", "users-key"])
@pytest.mark.parametrize(("job", "at"), DEATHS)
def test_killed_anywhere_and_run_again_there_is_one_job_that_is_started_and_told(
    job: PreparedJob, at: int, named: IdempotencyKey | None
) -> None:
    world = World()
    world.backend = MortalBackend(clock=world.clock)
    first = run_once(world, job, Mortal(at), key=named)
    handed_over = world.stages == [Stage.HANDED_OVER]
    if handed_over and named is None:
        # It was killed when all was done: running it again would rightly be another job.
        assert ids_told(first) == {world.backend.jobs[0].id}
        assert world.backend.jobs[0].started
        return
    again = run_once(world, job, Mortal(), key=named)
    (made,) = world.backend.jobs
    assert made.started
    assert ids_told(again) == {made.id}
    assert world.stages == [Stage.HANDED_OVER]


@pytest.mark.parametrize(("job", "at"), DEATHS)
def test_killed_again_and_again_at_the_same_point_there_is_one_job_in_the_end(job: PreparedJob, at: int) -> None:
    world = World()
    world.backend = MortalBackend(clock=world.clock)
    for _ in range(3):
        run_once(world, job, Mortal(at), key=IdempotencyKey("K"))
    run_once(world, job, Mortal(), key=IdempotencyKey("K"))
    assert len(world.backend.jobs) == 1


def test_two_live_processes_that_submit_the_same_do_not_take_each_others_submission(world: World) -> None:
    other_journal = world.journal.beside()

    class InterruptedByAnother(RecordedProgress):
        def tell(self, moment: Moment) -> None:
            super().tell(moment)
            if isinstance(moment, Creating):
                world.submit(rl_job(), journal=other_journal, progress=RecordedProgress())

    world.submit(rl_job(), progress=InterruptedByAnother())
    assert len(world.backend.jobs) == 2
    assert len(set(world.keys)) == 2
