"""Listing, following, cancelling and fetching jobs, on a backend in memory and a clock that moves when waited on."""

from __future__ import annotations

import io
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryBackends
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.destination import InMemoryDestination
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import (
    BackendRefused,
    BackendUnreachable,
    GaveUpWaiting,
    LocalStateError,
    NotKnown,
    NotOffered,
    UnexpectedReply,
    UsageError,
)
from synth_train.domain.model.events import Event
from synth_train.domain.model.hosting import JobFilter, ResultFile
from synth_train.domain.model.jobs import IdempotencyKey, JobId, JobSummary, Kind, Phase
from synth_train.domain.model.moments import EventSeen, Noted, Retrying
from synth_train.domain.model.replies import job_summary_in
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.submission import Stage, Submission
from synth_train.domain.usecases import find_job, jobs_follow, jobs_metrics
from synth_train.domain.usecases.find_job import LAST, FindJob, FoundJob
from synth_train.domain.usecases.hosting.work import Queue
from synth_train.domain.usecases.jobs_cancel import CancelJob
from synth_train.domain.usecases.jobs_download import DownloadModel
from synth_train.domain.usecases.jobs_follow import FollowJob
from synth_train.domain.usecases.jobs_list import ListJobs
from synth_train.domain.usecases.jobs_metrics import ReadMetrics
from synth_train.domain.usecases.jobs_open import FindPage
from synth_train.domain.usecases.jobs_reach import ReachBackend
from synth_train.domain.usecases.jobs_retry import RetryJob
from synth_train.domain.usecases.watch import WatchJob
from synth_train.ports.backend import Backend, Upload
from synth_train.ports.journal import JournalPort
from synth_train.ports.streams import Readable

KEY = Secret("sk-in-memory-qvzjxkwy")
BASE = "https://backend.example"
RL = b'{"job_type":"rl","data":{"base_model":"Qwen/Qwen3-4B","endpoint_base_url":"https://t.example","config":{}}}'


class Desk:
    """Somebody with a backend in memory."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = InMemoryBackend(api_key=KEY, clock=self.clock)
        self.backends = InMemoryBackends(self.backend)
        self.env = InMemoryEnv({"SYNTH_API_KEY": KEY.reveal()})
        self.progress = RecordedProgress()
        self.patience = TenacityPatience(self.clock)
        self._count = 0

    def job(self) -> JobId:
        """A new RL job."""
        self._count += 1
        return self.backend.create(Kind.RL, RL, IdempotencyKey(f"K-{self._count}")).job_id

    def reaching(self, usecase: type[Any]) -> Any:
        return usecase(
            env=self.env,
            prompt=ScriptedPrompt(),
            backends=self.backends,
            patience=self.patience,
            progress=self.progress,
        )

    def find(self, name: str, **options: Any) -> FoundJob:
        found: FoundJob = self.reaching(FindJob)(JobId(name), **{"backend": BASE, **options})
        return found

    def waiting(self, usecase: type[Any]) -> Any:
        return usecase(patience=self.patience, clock=self.clock, progress=self.progress)

    def ended(self, job_id: JobId) -> None:
        """Let a job run to its end."""
        for seconds in (self.backend.world.executor.delay, self.backend.world.trainer.lasts):
            self.clock.advance(seconds)
            self.backend.job(Kind.RL, job_id)


class Silent(InMemoryBackend):
    """A backend that only takes jobs and shows them."""

    def list_jobs(self, wanted: JobFilter) -> list[JobSummary]:
        raise NotOffered("this backend does not list jobs", status=404)


@pytest.fixture
def desk() -> Desk:
    return Desk()


# Reaching


def test_the_embedded_backend_is_reached_without_any_key(desk: Desk) -> None:
    desk.env = InMemoryEnv({})
    reach: ReachBackend = desk.reaching(ReachBackend)
    assert reach.reach("local", (), False).base == "local"
    assert desk.backends.connected == [("local", None)]


# Listing


def test_jobs_are_listed_newest_first(desk: Desk) -> None:
    jobs = [desk.job() for _ in range(3)]
    listing: ListJobs = desk.reaching(ListJobs)
    assert [row.job_id for row in listing(JobFilter(limit=2), backend=BASE)] == [jobs[2], jobs[1]]


def test_a_list_is_asked_for_again_when_that_may_help(desk: Desk) -> None:
    job_id = desk.job()
    desk.backend.fail_next("list_jobs", BackendUnreachable("cut"))
    assert [row.job_id for row in desk.reaching(ListJobs)(JobFilter(), backend=BASE)] == [job_id]
    assert [moment.what for moment in desk.progress.of(Retrying)] == ["list the jobs"]


# Finding


def test_a_job_is_found_by_the_beginning_of_its_id(desk: Desk) -> None:
    one, two = desk.job(), desk.job()
    assert one != two
    unique = one[: max(at for at in range(len(one)) if one[:at] == two[:at]) + 1]
    for name in (one, unique, unique.removeprefix("job_")):
        assert desk.find(name).state.job_id == one


def test_a_beginning_of_several_ids_is_refused_and_they_are_named(desk: Desk) -> None:
    jobs = [desk.job(), desk.job()]
    with pytest.raises(UsageError) as refused:
        desk.find("job_")
    assert str(refused.value) == f"several jobs begin with job_: {jobs[1]}, {jobs[0]}"
    assert refused.value.hint == "Give more of the id."


def test_several_jobs_are_found_in_the_order_of_their_names_each_once(desk: Desk) -> None:
    one, two = desk.job(), desk.job()
    find: FindJob = desk.reaching(FindJob)
    found = find.several((two, JobId("@last"), one, two), backend=BASE)
    assert [job.state.job_id for job in found] == [two, one]
    assert len(desk.backends.connected) == 1


OTHER = "https://other.example"


def remember(desk: Desk, *jobs: tuple[str, str]) -> FindJob:
    """A FindJob whose journal knows jobs and their backends, the oldest first."""
    journal = InMemoryJournal()
    for number, (job_id, base) in enumerate(jobs):
        journal.open(
            Submission(
                id=f"{number}",
                fingerprint="f",
                backend=base,
                account="a",
                kind=Kind.RL,
                config="rl.toml",
                key=IdempotencyKey("k"),
                key_is_users=False,
                job_id=JobId(job_id),
            )
        )
    find: FindJob = desk.reaching(FindJob)
    return replace(find, journal=journal)


def test_a_job_is_asked_for_where_it_went(desk: Desk) -> None:
    one, two = desk.job(), desk.job()
    for name in (one, one[4:], LAST):
        found = remember(desk, (two, BASE), (one, OTHER))(JobId(name))
        assert (found.state.job_id, found.backend.base) == (one, OTHER)


def test_a_backend_that_is_named_comes_before_the_one_that_is_remembered(desk: Desk) -> None:
    job_id = desk.job()
    assert remember(desk, (job_id, OTHER))(job_id, backend=BASE).backend.base == BASE


def test_a_whole_id_is_not_mistaken_for_the_beginning_of_another(desk: Desk) -> None:
    job_id = desk.job()
    find = remember(desk, (f"{job_id}0", BASE), (job_id, OTHER), (f"{job_id}1", BASE))
    assert find(job_id).backend.base == OTHER


@pytest.mark.parametrize("options", [{}, {"kind": Kind.SFT}])
def test_what_is_not_remembered_or_not_clearly_is_left_to_the_variables(desk: Desk, options: dict[str, Any]) -> None:
    job_id = desk.job()
    desk.env = InMemoryEnv({"SYNTH_API_KEY": KEY.reveal(), "BACKEND_BASE_URL": BASE})
    known = () if not options else ((job_id, OTHER),)
    assert remember(desk, *known)(job_id, **options).backend.base == BASE
    assert remember(desk, ("job_x1", OTHER), ("job_x2", OTHER)).several((job_id,))[0].backend.base == BASE
    with pytest.raises(NotKnown):
        remember(desk, ("job_x1", OTHER), ("job_x2", OTHER))(JobId("job_x"))
    assert desk.backends.connected[-1][0] == BASE


def test_jobs_of_several_backends_are_not_asked_for_together(desk: Desk) -> None:
    one, two = desk.job(), desk.job()
    find = remember(desk, (one, BASE), (two, OTHER))
    with pytest.raises(UsageError, match=f"these jobs went to several backends: {BASE}, {OTHER}"):
        find.several((one, two))


def test_a_job_is_looked_for_beyond_the_first_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_job, "PAGE", 2)
    jobs = [desk.job() for _ in range(5)]
    assert desk.find(jobs[0][:-1] + jobs[0][-1]).state.job_id == jobs[0]
    with pytest.raises(NotKnown):
        desk.find("job_zz")
    assert len(desk.backend.called("list_jobs")) == 3


def test_the_search_has_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_job, "PAGE", 1)
    monkeypatch.setattr(find_job, "PAGES", 2)
    for _ in range(5):
        desk.job()
    with pytest.raises(NotKnown):
        desk.find("job_zz")
    assert len(desk.backend.called("list_jobs")) == 2


def test_the_last_job_has_a_name_of_its_own(desk: Desk) -> None:
    desk.job()
    last = desk.job()
    assert desk.find("@last").state.job_id == last
    assert desk.find("@last", kind=Kind.RL).state.job_id == last


def test_without_jobs_there_is_no_last_one(desk: Desk) -> None:
    with pytest.raises(NotKnown, match=r"https://backend\.example has no jobs"):
        desk.find("@last")


def test_a_backend_that_lists_no_jobs_wants_the_whole_id(desk: Desk) -> None:
    desk.backend = Silent(api_key=KEY, clock=desk.clock)
    desk.backends = InMemoryBackends(desk.backend)
    job_id = desk.job()
    assert desk.find(job_id).state.job_id == job_id
    with pytest.raises(NotKnown):
        desk.find(job_id[:-1])
    with pytest.raises(UsageError, match="@last is not to be had") as refused:
        desk.find("@last")
    assert refused.value.hint == "Give the id of the job."


# Following


def test_all_events_so_far_are_read_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_follow, "PAGE", 2)
    job_id = desk.job()
    desk.ended(job_id)
    events = desk.waiting(FollowJob).so_far(desk.find(job_id))
    assert [event.seq for event in events] == list(range(1, 8))
    assert len(desk.backend.called("events")) == 5, "the last page is empty: a short one may be all that a server gives"


def test_a_job_is_followed_to_its_end_and_every_event_told_once(desk: Desk) -> None:
    job_id = desk.job()
    told: list[Event] = []
    state = desk.waiting(FollowJob)(desk.find(job_id), interval=5.0, timeout=600.0, tell=told.append)
    assert state.phase is Phase.SUCCEEDED
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert told[-1].type == "rl.job.completed"


def test_a_job_that_takes_longer_than_one_waits_goes_on(desk: Desk) -> None:
    desk.backend.world.executor.delay = float("inf")
    job_id = desk.job()
    with pytest.raises(GaveUpWaiting, match="after 12 s") as gave_up:
        desk.waiting(FollowJob)(desk.find(job_id), interval=5.0, timeout=12.0, tell=lambda _: None)
    again = f"synth-ai jobs logs {job_id} --follow --type rl --backend {BASE}"
    assert gave_up.value.hint == f"The job goes on. Follow it again with: {again}"
    assert desk.clock.monotonic() == 12.0


# Cancelling


def test_a_job_that_waits_is_cancelled_at_once(desk: Desk) -> None:
    job_id = desk.job()
    assert desk.waiting(CancelJob)(desk.find(job_id)).phase is Phase.CANCELLED
    assert desk.clock.slept == []


def test_a_job_that_runs_is_looked_at_until_it_has_ended(desk: Desk) -> None:
    desk.backend.world.executor.delay = 0
    job_id = desk.job()
    desk.backend.job(Kind.RL, job_id)
    state = desk.waiting(CancelJob)(desk.find(job_id))
    assert (state.phase, state.reason) == (Phase.CANCELLED, "cancelled while it ran")


def test_a_job_that_does_not_end_is_left_after_a_while(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.backend.world.executor.delay = 0
    job_id = desk.job()
    desk.backend.job(Kind.RL, job_id)
    monkeypatch.setattr(desk.backend.world.executor, "wake", lambda: None)
    state = desk.waiting(CancelJob)(desk.find(job_id))
    assert state.word == "cancelling"
    assert desk.clock.monotonic() == 15.0


# Fetching


def test_a_model_is_fetched_file_by_file(desk: Desk) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    desk.backend.world.results.made[job_id] = {"config.json": b"{}", "merged/a.bin": b"\0"}
    destination = InMemoryDestination()
    files = DownloadModel(patience=desk.patience)(desk.find(job_id, kind=Kind.RL), destination)
    assert [(file.name, file.size) for file in files] == [("config.json", 2), ("merged/a.bin", 1)]
    assert destination.files == {"config.json": b"{}", "merged/a.bin": b"\0"}


def test_a_job_that_has_not_succeeded_has_no_model(desk: Desk) -> None:
    with pytest.raises(BackendRefused, match="is queued: there is no model to fetch"):
        DownloadModel(patience=desk.patience)(desk.find(desk.job()), InMemoryDestination())


@pytest.mark.parametrize("name", ["../a", "/a", "a//b", "", ".", "a/..", "a\\b", "c:x", "a\nb", "a*"])
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_fetched(desk: Desk, name: str) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    desk.backend.world.results.made[job_id] = {"a": b"", name: b""}
    destination = InMemoryDestination()
    with pytest.raises(UnexpectedReply, match="no name inside a folder"):
        DownloadModel(patience=desk.patience)(desk.find(job_id), destination)
    assert destination.files == {}


CONTENTS = {"config.json": b"{}", "model.bin": b"0123456789" * 300_000, "empty": b""}


class Shaky:
    """A backend whose files come in pieces: each try at a file brings at most `most` bytes, and then breaks off.

    Inspect `fetched`: the file and the first byte of each try.
    """

    def __init__(self, backend: InMemoryBackend, *, most: int, breaks: bool = True) -> None:
        self._backend = backend
        self._most = most
        self._breaks = breaks
        self.fetched: list[tuple[str, int]] = []
        self.said: dict[str, Any] = {}
        """What is told of every file in place of what is true."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def results(self, kind: Kind, job_id: JobId) -> list[ResultFile]:
        return [replace(file, **self.said) for file in self._backend.results(kind, job_id)]

    def open_result(self, kind: Kind, job_id: JobId, name: str, *, start: int = 0) -> Readable:
        self.fetched.append((name, start))
        stream = self._backend.open_result(kind, job_id, name, start=start)
        left, breaks = self._most, self._breaks

        class Piece:
            def read(self, size: int = -1, /) -> bytes:
                nonlocal left
                block = stream.read(min(size, left))
                left -= len(block)
                if not left and breaks:
                    raise BackendUnreachable("cut")
                return block

            def close(self) -> None:
                stream.close()

        return Piece()


def made(desk: Desk, contents: dict[str, bytes] = CONTENTS) -> FoundJob:
    """A job that has made these files."""
    job_id = desk.job()
    desk.ended(job_id)
    desk.backend.world.results.made[job_id] = dict(contents)
    return desk.find(job_id)


def shaken(found: FoundJob, **how: Any) -> tuple[FoundJob, Shaky]:
    shaky = Shaky(cast("InMemoryBackend", found.backend), **how)
    return replace(found, backend=cast("Backend", shaky)), shaky


def download(desk: Desk, found: FoundJob, destination: InMemoryDestination, **how: Any) -> tuple[ResultFile, ...]:
    return DownloadModel(patience=desk.patience, progress=desk.progress)(found, destination, **how)


def test_a_model_is_fetched_whole(desk: Desk) -> None:
    destination = InMemoryDestination()
    files = download(desk, made(desk), destination)
    assert [file.name for file in files] == sorted(CONTENTS)
    assert destination.files == CONTENTS
    assert destination.parts == {}


def test_a_job_without_files_is_refused_before_a_folder_is_opened(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    found, shaky = shaken(made(desk), most=1)
    monkeypatch.setattr(shaky, "results", lambda *_: [])
    destination = InMemoryDestination()
    destination.files["notes.txt"] = b"mine"

    with pytest.raises(BackendRefused, match=f"job {found.state.job_id} has no files: the backend lists none"):
        download(desk, found, destination)


def test_a_file_that_breaks_off_is_gone_on_with_as_long_as_more_of_it_comes(desk: Desk) -> None:
    found, shaky = shaken(made(desk), most=1_250_000)
    destination = InMemoryDestination()
    download(desk, found, destination)
    assert destination.files == CONTENTS
    assert [start for name, start in shaky.fetched if name == "model.bin"] == [0, 1_048_576, 2_097_152]


def test_a_file_that_stops_coming_is_kept_as_far_as_it_came_and_the_next_run_goes_on_there(desk: Desk) -> None:
    found = made(desk)
    broken, _ = shaken(found, most=0)
    destination = InMemoryDestination()
    destination.parts["model.bin"] = CONTENTS["model.bin"][:1_000_000]
    with pytest.raises(BackendUnreachable):
        download(desk, broken, destination)
    assert destination.files == {}
    assert Noted(text="what has come so far is kept: the same command goes on from there") in desk.progress.moments
    better, shaky = shaken(found, most=9_000_000, breaks=False)
    download(desk, better, destination)
    assert ("model.bin", 1_000_000) in shaky.fetched
    assert destination.files == CONTENTS


@pytest.mark.parametrize("part", [b"x" * 1000, b"x" * 4_000_000], ids=["of another model", "too long"])
def test_a_part_that_does_not_belong_to_the_file_is_fetched_anew(desk: Desk, part: bytes) -> None:
    destination = InMemoryDestination()
    destination.parts["model.bin"] = part
    download(desk, made(desk), destination)
    assert destination.files == CONTENTS


def test_what_is_not_what_the_backend_says_is_refused_and_not_kept(desk: Desk) -> None:
    found, shaky = shaken(made(desk), most=9_000_000, breaks=False)
    shaky.said = {"sha256": "0" * 64}
    destination = InMemoryDestination()
    with pytest.raises(UnexpectedReply, match=r"config.json is not .*: its SHA-256 is not 0{64}") as refused:
        download(desk, found, destination)
    assert "Nothing of it was kept" in refused.value.hint
    assert (destination.files, destination.parts) == ({}, {"config.json": b""})


@pytest.mark.parametrize(("size", "came"), [(1, 2), (3, 2)])
def test_a_file_of_another_size_is_refused(desk: Desk, size: int, came: int) -> None:
    found, shaky = shaken(made(desk, {"a": b"12"}), most=99, breaks=False)
    shaky.said = {"size": size}
    destination = InMemoryDestination()
    with pytest.raises(UnexpectedReply, match=f"a is not .*: {came} bytes came in place of {size}"):
        download(desk, found, destination)
    assert destination.files == {}


def test_without_hashes_the_size_must_do_and_that_is_said(desk: Desk) -> None:
    found, shaky = shaken(made(desk, {"a": b"12"}), most=99, breaks=False)
    shaky.said = {"sha256": None}
    destination = InMemoryDestination()
    download(desk, found, destination)
    assert destination.files == {"a": b"12"}
    [warning] = [moment.text for moment in desk.progress.moments if isinstance(moment, Noted) and moment.warning]
    assert warning == "the backend gives no hash of 1 of 1 files, so only their size is known to fit"


def test_what_is_in_place_already_is_not_fetched_again(desk: Desk) -> None:
    found, shaky = shaken(made(desk), most=9_000_000, breaks=False)
    destination = InMemoryDestination()
    download(desk, found, destination)
    shaky.fetched.clear()
    assert len(download(desk, found, destination)) == 3
    assert shaky.fetched == []


def test_other_files_are_replaced_only_when_that_is_asked_for(desk: Desk) -> None:
    found = made(desk)
    destination = InMemoryDestination()
    destination.files = {"config.json": b"mine"}
    with pytest.raises(LocalStateError, match="already"):
        download(desk, found, destination)
    assert destination.files == {"config.json": b"mine"}
    download(desk, found, destination, replace=True)
    assert destination.files == CONTENTS


# Its page


class Shown:
    """A backend that shows its jobs to browsers."""

    base = "https://shown.example"

    def page(self, job_id: JobId) -> str:
        return f"{self.base}/#job={job_id}"


def test_the_page_of_a_job_is_what_the_backend_says(desk: Desk) -> None:
    found = replace(desk.find(desk.job()), backend=cast("Backend", Shown()))
    page = FindPage(patience=desk.patience)(found)
    assert page == f"https://shown.example/#job={found.state.job_id}"


@pytest.mark.parametrize(
    ("base", "told", "hint"),
    [
        ("https://backend.example", "has no page", "synth-ai jobs watch"),
        ("local", "while they are served", "synth-ai serve"),
    ],
)
def test_a_backend_that_shows_nothing_is_said_to(desk: Desk, base: str, told: str, hint: str) -> None:
    found = desk.find(desk.job())
    backend = InMemoryBackend(api_key=KEY, base=base)
    with pytest.raises(NotOffered, match=told) as refused:
        FindPage(patience=desk.patience)(replace(found, backend=backend))
    assert hint in refused.value.hint


# Reading a list


@pytest.mark.parametrize(
    ("row", "summary"),
    [
        (
            {"id": "j", "type": "rl_online", "state": "Running", "base_model": "m", "created_at": 5, "name": "n"},
            JobSummary(
                job_id=JobId("j"),
                kind=Kind.RL,
                word="Running",
                phase=Phase.LIVE,
                model="m",
                name="n",
                created_at=5,
            ),
        ),
        (
            {"job_id": "j", "training_type": "SFT_offline", "status": "succeeded", "fine_tuned_model": "ft:m:j"},
            JobSummary(
                job_id=JobId("j"), kind=Kind.SFT, word="succeeded", phase=Phase.SUCCEEDED, fine_tuned_model="ft:m:j"
            ),
        ),
        (
            {"job_id": "j", "type": "dpo", "created_at": "yesterday", "fine_tuned_model": ""},
            JobSummary(job_id=JobId("j"), kind=None, word="null", phase=Phase.UNKNOWN),
        ),
    ],
)
def test_a_row_of_a_list_is_read_in_every_form(row: dict[str, object], summary: JobSummary) -> None:
    assert job_summary_in(row) == summary


@pytest.mark.parametrize("row", [{"status": "queued"}, ["job_1"], None])
def test_a_row_without_an_id_is_no_job(row: object) -> None:
    with pytest.raises(UnexpectedReply):
        job_summary_in(row)


# Watching, with what the backend tells: see also test_feeds.py


def watching(desk: Desk, job_id: JobId) -> Any:
    watch = WatchJob(
        backend=desk.backend,
        feed=desk.backend,
        journal=InMemoryJournal(),
        patience=desk.patience,
        clock=desk.clock,
        progress=desk.progress,
    )
    return watch(Kind.RL, job_id, interval=5.0, timeout=600.0)


def test_what_the_backend_warns_of_is_passed_on_once(desk: Desk) -> None:
    job_id = desk.job()
    queue = Queue(store=desk.backend.world.store, clock=desk.clock)
    queue.hold_up("its key is gone")
    watching(desk, job_id)
    warned = [moment.event for moment in desk.progress.of(EventSeen) if moment.event.level == "warning"]
    assert [event.message for event in warned] == ["Waits: its key is gone."]


# Metrics


def test_all_metrics_are_read_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_metrics, "PAGE", 2)
    job_id = desk.job()
    read = ReadMetrics(patience=desk.patience, progress=desk.progress)
    assert read(desk.find(job_id)) == ()
    desk.ended(job_id)
    assert [point.step for point in read(desk.find(job_id))] == [1, 2, 3, 4]


# Running again


def retry(desk: Desk, job_id: JobId, journal: JournalPort | None = None) -> JobId:
    run_again = RetryJob(
        patience=desk.patience,
        progress=desk.progress,
        journal=journal or InMemoryJournal(),
        clock=desk.clock,
        entropy=CountingEntropy(),
    )
    return run_again(desk.find(job_id)).job_id


def test_a_job_that_has_ended_is_run_again_once_with_the_same_request(desk: Desk) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    again = retry(desk, job_id)
    assert again != job_id
    assert retry(desk, job_id) == again
    first, second = desk.backend.jobs
    assert second.order.body == msgspec.json.encode(msgspec.json.decode(first.order.body))


def test_the_retry_of_a_retry_is_another_job(desk: Desk) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    again = retry(desk, job_id)
    desk.ended(again)
    assert retry(desk, again) not in (job_id, again)


@pytest.mark.parametrize("after_effect", [True, False])
def test_a_lost_reply_makes_no_second_retry(desk: Desk, after_effect: bool) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    desk.backend.fail_next("create", BackendUnreachable("cut"), after_effect=after_effect, times=2)
    retry(desk, job_id)
    assert len(desk.backend.jobs) == 2


def test_a_retry_is_remembered_as_what_was_submitted_last(desk: Desk) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    find = remember(desk, (job_id, BASE))
    journal = cast("InMemoryJournal", find.journal)
    again = retry(desk, job_id, journal)
    assert find(JobId(LAST)).state.job_id == again
    assert find(JobId(LAST)).backend.base == BASE
    entry = journal.with_jobs()[0]
    assert (entry.config, entry.account, entry.open) == ("rl.toml", "a", False)
    retry(desk, job_id, journal)
    assert len(journal.entries) == 2


def test_the_retry_of_a_job_from_elsewhere_is_remembered_too(desk: Desk) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    journal = InMemoryJournal()
    again = retry(desk, job_id, journal)
    [entry] = journal.with_jobs()
    assert (entry.job_id, entry.backend, entry.config, entry.stage) == (again, BASE, "", Stage.HANDED_OVER)


class FullJournal(InMemoryJournal):
    def open(self, submission: Submission) -> None:
        raise LocalStateError("the disk is full")


def test_a_retry_that_cannot_be_remembered_is_made_all_the_same(desk: Desk) -> None:
    job_id = desk.job()
    desk.ended(job_id)
    again = retry(desk, job_id, FullJournal())
    assert desk.find(again).state.job_id == again
    [noted] = desk.progress.of(Noted)
    assert noted.text == f"where job {again} runs is not remembered, so name it with --backend: the disk is full"


def test_an_sft_job_is_started_again_too(desk: Desk) -> None:
    file_id = desk.backend.upload(Upload(filename="a", purpose="fine-tune", size=4, open=lambda: io.BytesIO(b"row\n")))
    request = msgspec.json.encode({"model": "Qwen/Qwen3-4B", "training_file_id": file_id})
    job_id = desk.backend.create(Kind.SFT, request, IdempotencyKey("S")).job_id
    desk.backend.cancel(Kind.SFT, job_id)
    again = retry(desk, job_id)
    assert next(job for job in desk.backend.jobs if job.id == again).started


def test_a_job_that_has_not_ended_is_not_run_again(desk: Desk) -> None:
    job_id = desk.job()
    with pytest.raises(UsageError, match="is queued, so there is nothing to retry") as refused:
        retry(desk, job_id)
    cancel = f"synth-ai jobs cancel {job_id} --type rl --backend {BASE}"
    assert refused.value.hint == f"End it first with: {cancel}"
