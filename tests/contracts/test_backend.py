"""What every backend promises (`ports.backend`): without a wire, over HTTP against the server, on the stores of
this machine, and over HTTP against a server with these stores."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import msgspec
import pytest

from support.backends import (
    OTHER_K,
    OUR_KEY,
    TASK_URL,
    THEIR_KEY,
    K,
    Side,
    backend_side,
    rl_request,
    sft_request,
    upload_of,
)
from synth_train.adapters.in_memory.sealer import ReadableSealer
from synth_train.domain.model.errors import BackendRefused, KeyRefused, NotKnown
from synth_train.domain.model.hosting import JobFilter, ResultFile, owner_of
from synth_train.domain.model.jobs import FileId, FilePhase, JobId, Kind, Phase
from synth_train.domain.model.secret import WINDOW, Secret
from synth_train.domain.model.task_app import Trouble
from synth_train.ports.backend import Backend, Upload

with_accounts = pytest.mark.parametrize("kind", ["in-memory", "http", "http-embedded"])
"""For what only a backend with API keys and a vault promises."""


@pytest.fixture(params=["in-memory", "http", "embedded", "http-embedded"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def side(kind: str) -> Iterator[Side]:
    with backend_side(kind) as side:
        yield side


@pytest.fixture
def backend(side: Side) -> Backend:
    return side.backend


def stored(backend: Backend, secret: Secret) -> None:
    backend.store_environment_key(ReadableSealer().seal(backend.public_key(), secret))


# What it is


def test_the_base_has_no_slash_at_its_end_and_stays_what_it_was_where_the_api_is_right_there(backend: Backend) -> None:
    base = backend.base
    assert not base.endswith("/")
    assert backend.features().base == backend.base == base


@pytest.mark.parametrize("takes_config", [True, False])
def test_features_tell_whether_the_dropped_config_is_read(kind: str, takes_config: bool) -> None:
    with backend_side(kind, takes_config=takes_config) as side:
        assert side.backend.features().takes_config is takes_config


# Files


def test_an_uploaded_file_arrives_as_it_is(side: Side) -> None:
    content = bytes(range(256)) * 12_000 + b"\r\n--\r\n--boundary--\r\n"
    file_id = side.backend.upload(upload_of(content, filename="ünïcode train.jsonl"))
    [file] = side.files
    assert (file.id, file.filename, file.purpose, file.blob.size) == (
        file_id,
        "ünïcode train.jsonl",
        "fine-tune",
        len(content),
    )
    with side.world.blobs.open(file.blob) as kept:
        assert kept.read() == content


def test_a_file_is_opened_once_read_and_closed(backend: Backend) -> None:
    opened: list[io.BytesIO] = []

    def open_it() -> io.BytesIO:
        opened.append(io.BytesIO(b"row\n"))
        return opened[-1]

    backend.upload(Upload(filename="a.jsonl", purpose="fine-tune", size=4, open=open_it))
    assert [stream.closed for stream in opened] == [True]


def test_the_same_bytes_for_the_same_purpose_are_the_same_file(backend: Backend) -> None:
    first = backend.upload(upload_of(b"row 1\n"))
    assert backend.upload(upload_of(b"row 1\n", filename="again.jsonl")) == first
    assert backend.upload(upload_of(b"row 2\n")) != first
    assert backend.upload(upload_of(b"row 1\n", purpose="validation")) != first


def test_the_same_bytes_of_two_owners_are_two_files(side: Side) -> None:
    ours = side.backend.upload(upload_of(b"row\n"))
    assert side.seen_by(THEIR_KEY).upload(upload_of(b"row\n")) != ours


def test_a_file_name_cannot_be_a_path(side: Side) -> None:
    side.backend.upload(upload_of(b"row\n", filename="../../etc/escape.jsonl"))
    assert side.files[0].filename == "escape.jsonl"


def test_an_empty_file_is_refused(side: Side) -> None:
    with pytest.raises(BackendRefused, match="empty"):
        side.backend.upload(upload_of(b""))
    assert side.files == []


def test_a_file_is_waited_for_until_it_has_been_looked_into(side: Side) -> None:
    side.world.inspector.looks = 3
    file_id = side.backend.upload(upload_of(b"row\n"))
    waiting, ready = side.backend.file(file_id), side.backend.file(file_id)
    assert (waiting.file_id, waiting.phase, waiting.word) == (file_id, FilePhase.WAITING, "processing")
    assert (ready.file_id, ready.phase) == (file_id, FilePhase.READY)


def test_a_rejected_file_says_why(side: Side) -> None:
    side.world.inspector.complaint = "line 1273 is not JSON"
    state = side.backend.file(side.backend.upload(upload_of(b"row\n")))
    assert (state.phase, state.detail) == (FilePhase.REJECTED, "line 1273 is not JSON")


def test_a_rejected_file_can_be_uploaded_again_as_a_new_one(side: Side) -> None:
    side.world.inspector.complaint = "not now"
    rejected = side.backend.upload(upload_of(b"row\n"))
    side.world.inspector.complaint = ""
    again = side.backend.upload(upload_of(b"row\n"))
    assert again != rejected
    assert side.backend.file(again).phase is FilePhase.READY


@pytest.mark.parametrize("file_id", ["file_0", "a/../b", "..", "a?b#c", "a%2Fb", "ü \r\n"])
def test_a_file_that_is_not_there_is_not_known(backend: Backend, file_id: str) -> None:
    with pytest.raises(NotKnown):
        backend.file(FileId(file_id))


def test_a_file_of_somebody_else_is_not_known(side: Side) -> None:
    with pytest.raises(NotKnown):
        side.seen_by(THEIR_KEY).file(side.backend.upload(upload_of(b"row\n")))


# Creation


def sft_job(backend: Backend) -> JobId:
    return backend.create(Kind.SFT, sft_request(backend.upload(upload_of(b"row\n"))), K).job_id


def test_a_created_job_is_named_in_the_reply(side: Side) -> None:
    accepted = side.backend.create(Kind.RL, rl_request(), K)
    assert accepted.status in (200, 201)
    assert accepted.job_id in accepted.reply
    assert "\n" not in accepted.reply
    assert [job.id for job in side.jobs] == [accepted.job_id]


def test_the_request_arrives_byte_for_byte(side: Side) -> None:
    request = b'{ "job_type":"rl",\n "data": {"endpoint_base_url": "http://t", "model": "ft:Qwen/Qwen3-4B:x\xc3\xbc"}}'
    side.backend.create(Kind.RL, request, K)
    assert side.jobs[0].order.body == request


@pytest.mark.parametrize("of_kind", list(Kind))
def test_the_same_request_under_the_same_key_is_the_same_job(side: Side, of_kind: Kind) -> None:
    request = rl_request() if of_kind is Kind.RL else sft_request(side.backend.upload(upload_of(b"row\n")))
    first = side.backend.create(of_kind, request, K)
    side.clock.advance(3600)
    side.backend.job(of_kind, first.job_id)
    assert side.backend.create(of_kind, request, K) == first
    assert len(side.jobs) == 1


def test_many_at_once_under_one_key_get_one_job(side: Side) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: side.seen_by(OUR_KEY).create(Kind.RL, rl_request(), K).job_id, range(16)))
    assert len(ids) == len(side.jobs) == 1


def test_another_request_under_the_same_key_conflicts(side: Side) -> None:
    side.backend.create(Kind.RL, rl_request(), K)
    with pytest.raises(BackendRefused, match="idempotency key") as caught:
        side.backend.create(Kind.RL, rl_request(config={"a": 1}), K)
    assert caught.value.status == 409
    assert len(side.jobs) == 1


def test_another_key_is_another_job(backend: Backend) -> None:
    first = backend.create(Kind.RL, rl_request(), K)
    assert backend.create(Kind.RL, rl_request(), OTHER_K).job_id != first.job_id


def test_a_key_belongs_to_its_owner_and_its_kind(side: Side) -> None:
    ours = side.backend.create(Kind.RL, rl_request(), K).job_id
    theirs = side.seen_by(THEIR_KEY).create(Kind.RL, rl_request(), K).job_id
    assert len({ours, theirs, sft_job(side.backend)}) == 3


def test_a_refused_request_leaves_its_key_free(backend: Backend) -> None:
    with pytest.raises(BackendRefused):
        backend.create(Kind.RL, rl_request(endpoint_base_url="nowhere"), K)
    backend.create(Kind.RL, rl_request(), K)


def test_a_refusal_names_what_is_wrong_with_the_request(backend: Backend) -> None:
    with pytest.raises(BackendRefused, match="endpoint_base_url") as caught:
        backend.create(Kind.RL, rl_request(endpoint_base_url=7, base_model=""), K)
    assert "base_model" in str(caught.value)
    assert caught.value.status == 422


def test_a_job_on_an_unknown_file_is_refused_by_the_files_name(side: Side) -> None:
    with pytest.raises(BackendRefused, match="file_nowhere") as caught:
        side.backend.create(Kind.SFT, sft_request(FileId("file_nowhere")), K)
    assert not isinstance(caught.value, NotKnown)
    assert side.jobs == []


def test_a_job_on_somebody_elses_file_is_refused(side: Side) -> None:
    theirs = side.seen_by(THEIR_KEY).upload(upload_of(b"row\n"))
    with pytest.raises(BackendRefused, match=theirs):
        side.backend.create(Kind.SFT, sft_request(theirs), K)


def test_a_job_on_a_file_that_is_not_ready_is_refused(side: Side) -> None:
    side.world.inspector.looks = 100
    file_id = side.backend.upload(upload_of(b"row\n"))
    with pytest.raises(BackendRefused, match="processing"):
        side.backend.create(Kind.SFT, sft_request(file_id), K)
    assert side.jobs == []


# Its course


def test_a_job_goes_from_queued_over_running_to_succeeded_and_names_its_model(side: Side) -> None:
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    words = [(state := side.backend.job(Kind.RL, job_id)).word]
    while not state.phase.over:
        side.clock.sleep(5)
        state = side.backend.job(Kind.RL, job_id)
        words += [state.word] if state.word != words[-1] else []
    assert words == ["queued", "running", "succeeded"]
    assert (state.job_id, state.phase, state.reason) == (job_id, Phase.SUCCEEDED, "")
    assert state.fine_tuned_model == f"rl:Qwen/Qwen3-4B:{job_id}"


def test_an_sft_job_begins_when_it_is_started(side: Side) -> None:
    job_id = sft_job(side.backend)
    side.clock.advance(3600)
    assert side.backend.job(Kind.SFT, job_id).word == "queued"
    side.backend.start(Kind.SFT, job_id)
    side.clock.advance(side.world.executor.delay)
    assert side.backend.job(Kind.SFT, job_id).word == "running"


def test_starting_again_changes_nothing(side: Side) -> None:
    job_id = sft_job(side.backend)
    side.backend.start(Kind.SFT, job_id)
    side.clock.advance(side.world.executor.delay)
    before = side.backend.job(Kind.SFT, job_id)
    side.backend.start(Kind.SFT, job_id)
    assert side.backend.job(Kind.SFT, job_id) == before
    side.clock.advance(side.world.trainer.lasts)
    assert side.backend.job(Kind.SFT, job_id).phase is Phase.SUCCEEDED
    side.backend.start(Kind.SFT, job_id)
    assert side.backend.job(Kind.SFT, job_id).phase is Phase.SUCCEEDED


def test_a_failed_job_says_why(side: Side) -> None:
    side.world.trainer.failure = "the loss is not a number"
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    for _ in range(2):
        side.clock.advance(60)
        state = side.backend.job(Kind.RL, job_id)
    assert (state.phase, state.reason) == (Phase.FAILED, "the loss is not a number")
    assert state.fine_tuned_model is None


@pytest.mark.parametrize("job_id", ["job_0", "a/../b", "..", "a?b#c", "a%2Fb", "ü \r\n"])
def test_a_job_that_is_not_there_is_not_known(backend: Backend, job_id: str) -> None:
    with pytest.raises(NotKnown):
        backend.job(Kind.RL, JobId(job_id))


def test_a_job_of_somebody_else_is_not_known(side: Side) -> None:
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    with pytest.raises(NotKnown):
        side.seen_by(THEIR_KEY).job(Kind.RL, job_id)


def test_starting_a_job_that_is_not_there_is_like_a_backend_without_the_route(backend: Backend) -> None:
    backend.start(Kind.SFT, JobId("job_0"))


# What happens to it


def test_events_come_after_a_cursor(side: Side) -> None:
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    [created] = side.backend.events(Kind.RL, job_id)
    assert (created.seq, created.type, created.level) == (1, "rl.created", "info")
    for seconds in (side.world.executor.delay, side.world.trainer.lasts):
        side.clock.advance(seconds)
        side.backend.job(Kind.RL, job_id)
    later = side.backend.events(Kind.RL, job_id, after=1)
    assert [event.seq for event in later] == list(range(2, len(later) + 2))
    assert later[-1].type == "rl.job.completed"
    assert side.backend.events(Kind.RL, job_id, after=1, limit=2) == later[:2]


def test_points_come_by_steps_after_a_cursor(side: Side) -> None:
    side.world.executor.delay = 0
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    side.clock.advance(side.world.trainer.lasts)
    points = side.backend.points(Kind.RL, job_id)
    assert [(point.name, point.step) for point in points] == [("train.reward_mean", step) for step in (1, 2, 3, 4)]
    assert side.backend.points(Kind.RL, job_id, after_step=2, limit=1) == points[2:3]


def test_jobs_are_listed_newest_first_with_what_one_wants_to_know(side: Side) -> None:
    rl, sft = side.backend.create(Kind.RL, rl_request(), K).job_id, sft_job(side.backend)
    assert [(row.job_id, row.kind, row.word, row.phase, row.model) for row in side.backend.list_jobs(JobFilter())] == [
        (sft, Kind.SFT, "queued", Phase.LIVE, "Qwen/Qwen3-4B"),
        (rl, Kind.RL, "queued", Phase.LIVE, "Qwen/Qwen3-4B"),
    ]
    assert [row.job_id for row in side.backend.list_jobs(JobFilter(kind=Kind.RL))] == [rl]


def test_a_waiting_job_that_is_cancelled_has_ended(side: Side) -> None:
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    assert side.backend.cancel(Kind.RL, job_id).phase is Phase.CANCELLED
    assert side.backend.job(Kind.RL, job_id).phase is Phase.CANCELLED


def test_a_running_job_that_is_cancelled_ends_soon(side: Side) -> None:
    side.world.executor.delay = 0
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    assert side.backend.job(Kind.RL, job_id).word == "running"
    assert side.backend.cancel(Kind.RL, job_id).word == "cancelling"
    assert side.backend.job(Kind.RL, job_id).phase is Phase.CANCELLED


def test_a_job_that_is_over_stays_as_it_is(side: Side) -> None:
    side.world.executor.delay = 0
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    side.clock.advance(side.world.trainer.lasts)
    assert side.backend.job(Kind.RL, job_id).phase is Phase.SUCCEEDED
    assert side.backend.cancel(Kind.RL, job_id).phase is Phase.SUCCEEDED


def test_the_request_of_a_job_makes_another_one_like_it(side: Side) -> None:
    first = side.backend.create(Kind.RL, rl_request(config={"a": [1, 2.5]}), K).job_id
    request = side.backend.request_of(Kind.RL, first)
    assert msgspec.json.decode(request) == msgspec.json.decode(rl_request(config={"a": [1, 2.5]}))
    second = side.backend.create(Kind.RL, request, OTHER_K).job_id
    assert second != first
    assert side.backend.request_of(Kind.RL, second) == request


def ended_well(side: Side) -> JobId:
    """A job whose training is over."""
    side.world.executor.delay = 0
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    side.clock.advance(side.world.trainer.lasts)
    side.backend.job(Kind.RL, job_id)
    return job_id


MODEL = {"config.json": b"{}", "empty": b"", "merged/mödel 1%.bin": bytes(range(256)) * 9000}


def test_a_job_that_has_not_ended_well_has_no_results(side: Side) -> None:
    job_id = side.backend.create(Kind.RL, rl_request(), K).job_id
    with pytest.raises(BackendRefused, match="queued"):
        side.backend.results(Kind.RL, job_id)


def test_results_that_were_removed_are_said_to_be_gone(side: Side) -> None:
    job_id = ended_well(side)
    with pytest.raises(NotKnown, match="not there any more"):
        side.backend.results(Kind.RL, job_id)


def test_results_are_told_by_name_size_and_hash_and_given_byte_for_byte(side: Side) -> None:
    job_id = ended_well(side)
    side.made(job_id, MODEL)
    files = side.backend.results(Kind.RL, job_id)
    assert list(files) == [
        ResultFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in sorted(MODEL.items())
    ]
    for file in files:
        with closing(side.backend.open_result(Kind.RL, job_id, file.name)) as stream:
            assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == MODEL[file.name]


@pytest.mark.parametrize("start", [1, 2_000_000, 2_303_999])
def test_a_result_is_given_from_any_of_its_bytes_on(side: Side, start: int) -> None:
    job_id = ended_well(side)
    side.made(job_id, MODEL)
    name = "merged/mödel 1%.bin"
    with closing(side.backend.open_result(Kind.RL, job_id, name, start=start)) as stream:
        assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == MODEL[name][start:]


@pytest.mark.parametrize("name", ["other", "../config.json", "merged", "", "/config.json"])
def test_nothing_but_results_is_given_out(side: Side, name: str) -> None:
    job_id = ended_well(side)
    side.made(job_id, MODEL)
    with pytest.raises(NotKnown):
        side.backend.open_result(Kind.RL, job_id, name)


def test_results_are_their_owners_only(side: Side) -> None:
    job_id = ended_well(side)
    side.made(job_id, MODEL)
    with pytest.raises(NotKnown):
        side.seen_by(THEIR_KEY).results(Kind.RL, job_id)
    with pytest.raises(NotKnown):
        side.seen_by(THEIR_KEY).open_result(Kind.RL, job_id, "config.json")


def test_a_job_has_a_page_where_a_server_shows_it(kind: str, side: Side) -> None:
    page = side.backend.page(JobId("job_ü/1"))
    assert page == (f"{side.backend.base}/#job=job_%C3%BC%2F1" if kind.startswith("http") else None)


ABOUT_A_JOB: dict[str, Callable[[Backend], object]] = {
    "events": lambda backend: backend.events(Kind.RL, JobId("job_0")),
    "points": lambda backend: backend.points(Kind.RL, JobId("job_0")),
    "cancel": lambda backend: backend.cancel(Kind.RL, JobId("job_0")),
    "request_of": lambda backend: backend.request_of(Kind.RL, JobId("job_0")),
}


@pytest.mark.parametrize("ask", ABOUT_A_JOB.values(), ids=ABOUT_A_JOB)
def test_nothing_is_known_of_a_job_that_is_not_there(side: Side, ask: Callable[[Backend], object]) -> None:
    with pytest.raises(NotKnown):
        ask(side.backend)


@pytest.mark.parametrize("id", ["job_0", "a/../b", "..", "a?b#c", "ü \r\n"])
def test_nothing_is_given_out_of_a_job_that_is_not_there(side: Side, id: str) -> None:
    for ask in (side.backend.results, lambda kind, job_id: side.backend.open_result(kind, job_id, "a")):
        with pytest.raises(NotKnown):
            ask(Kind.RL, JobId(id))


# The task app


@with_accounts
def test_a_task_app_that_takes_one_of_our_keys_is_fine(side: Side) -> None:
    for number in range(3):
        stored(side.backend, Secret(f"environment-key-{number}"))
    side.task_app.keys = {Secret("environment-key-0")}
    verification = side.backend.verify_task_app(TASK_URL)
    assert (verification.ok, verification.candidates) == (True, 3)
    assert verification.statuses == (401, 401, 200)


@with_accounts
def test_a_task_app_that_takes_none_is_not(side: Side) -> None:
    stored(side.backend, Secret("environment-key-0"))
    side.task_app.keys = {Secret("another")}
    verification = side.backend.verify_task_app(TASK_URL)
    assert (verification.ok, verification.candidates, verification.statuses) == (False, 1, (401,))


@with_accounts
def test_a_task_app_that_cannot_be_reached_is_not_fine_and_the_report_says_so(side: Side) -> None:
    stored(side.backend, Secret("environment-key-0"))
    side.task_app.trouble = Trouble.REFUSED
    verification = side.backend.verify_task_app(TASK_URL)
    assert (verification.ok, verification.statuses) == (False, (0,))
    assert "refused" in verification.report


@with_accounts
def test_without_a_stored_key_there_is_nothing_to_try(backend: Backend) -> None:
    verification = backend.verify_task_app(TASK_URL)
    assert (verification.ok, verification.candidates, verification.statuses) == (False, 0, ())
    assert "no environment key" in verification.report


@with_accounts
def test_a_task_url_that_is_none_is_reported_and_not_raised(backend: Backend) -> None:
    verification = backend.verify_task_app("nowhere")
    assert not verification.ok
    assert "endpoint_base_url" in verification.report


@with_accounts
def test_a_verification_holds_no_part_of_a_key(side: Side) -> None:
    secret = Secret("0123456789abcdefghijklmnopqrstuvwxyz")
    stored(side.backend, secret)
    for keys in ({secret}, set[Secret]()):
        side.task_app.keys = keys
        shown = repr(side.backend.verify_task_app(TASK_URL))
        assert not [part for part in windows(secret) if part in shown]


# Who may ask

CALLS: dict[str, Callable[[Backend], object]] = {
    "upload": lambda backend: backend.upload(upload_of(b"row\n")),
    "file": lambda backend: backend.file(FileId("file_0")),
    "create": lambda backend: backend.create(Kind.RL, rl_request(), K),
    "start": lambda backend: backend.start(Kind.SFT, JobId("job_0")),
    "job": lambda backend: backend.job(Kind.RL, JobId("job_0")),
    "list_jobs": lambda backend: backend.list_jobs(JobFilter()),
    **ABOUT_A_JOB,
    "verify_task_app": lambda backend: backend.verify_task_app(TASK_URL),
    "holds_environment_key": lambda backend: backend.holds_environment_key(),
    "public_key": lambda backend: backend.public_key(),
    "store_environment_key": lambda backend: backend.store_environment_key(b"sealed"),
}


@with_accounts
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("key", [None, THEIR_KEY], ids=["no key", "another key"])
def test_a_key_that_does_not_open_the_backend_is_refused_and_not_shown(
    kind: str, call: str, key: Secret | None
) -> None:
    with backend_side(kind, owners=frozenset({owner_of(OUR_KEY)})) as side:
        with pytest.raises(KeyRefused) as caught:
            CALLS[call](side.seen_by(key))
        assert not [part for part in windows(THEIR_KEY) if part in f"{caught.value}{caught.value.hint}"]
        assert (side.files, side.jobs) == ([], [])


@with_accounts
def test_what_a_backend_is_may_be_asked_without_a_key(side: Side) -> None:
    assert side.seen_by(None).features().takes_config is False


def windows(secret: Secret) -> list[str]:
    text = secret.reveal()
    return [text[at : at + WINDOW] for at in range(len(text) - WINDOW + 1)]
