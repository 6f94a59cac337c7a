"""Events, points, lists, cancellation and results over HTTP, from backends that answer in their own ways
(wire-contract §4)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from cases.scripted_server import PAGE, Reply, Script, ScriptedServer
from support.raw_server import RawServer, reply
from synth_train.adapters.http.backend import HttpBackend
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendRefused,
    BackendUnreachable,
    NotKnown,
    NotOffered,
    TrainingError,
    UnexpectedReply,
)
from synth_train.domain.model.hosting import JobFilter, ResultFile
from synth_train.domain.model.jobs import JobId, Kind, Phase
from synth_train.domain.model.secret import Secret

KEY = Secret("fake-synth-key-0001-abcdefgh")
JOB = JobId("job_1")
RL_JOB, SFT_JOB = "/api/rl/jobs/job_1", "/api/learning/jobs/job_1"
NO_ROUTE: Reply = {"status": 404, "json": {"detail": "Not Found"}}


def backend(server: ScriptedServer) -> HttpBackend:
    return HttpBackend(server.base, api_key=KEY)


def query(target: str) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(urlsplit(target).query).items()}


def event(seq: int) -> dict[str, object]:
    return {"seq": seq, "type": "rl.train.step", "message": f"step {seq}", "created_at": 1.7e9}


def point(step: int, name: str = "train.loss") -> dict[str, object]:
    return {"name": name, "step": step, "value": 1 / step}


# -- events and points


@pytest.mark.parametrize(("kind", "path"), [(Kind.RL, RL_JOB), (Kind.SFT, SFT_JOB)])
def test_events_and_points_are_asked_for_behind_their_cursors(kind: Kind, path: str) -> None:
    script: Script = {
        f"GET {path}/events": [{"json": {"events": []}}],
        f"GET {path}/metrics": [{"json": {"points": []}}],
    }
    with ScriptedServer(script) as server:
        assert backend(server).events(kind, JOB, after=7, limit=50) == []
        assert backend(server).points(kind, JOB, after_step=3, limit=60) == []
    events, metrics = server.log
    assert query(events.target) == {"since_seq": "7", "limit": "50"}
    assert query(metrics.target) == {"after_step": "3", "limit": "60"}


def test_a_backend_without_cursors_gives_nothing_twice() -> None:
    script: Script = {
        f"GET {RL_JOB}/events": [{"json": {"data": [event(3), event(1), event(2), event(2)]}}],
        f"GET {RL_JOB}/metrics": [{"json": {"points": [point(2), point(1), point(3)]}}],
    }
    with ScriptedServer(script) as server:
        assert [one.seq for one in backend(server).events(Kind.RL, JOB, after=1)] == [2, 3]
        assert [one.seq for one in backend(server).events(Kind.RL, JOB, limit=2)] == [1, 2]
        assert [one.step for one in backend(server).points(Kind.RL, JOB, after_step=1)] == [2, 3]


def test_a_step_that_the_limit_may_have_cut_is_left_for_the_next_page() -> None:
    page = [point(1), point(1, "train.lr"), point(2)]
    with ScriptedServer({f"GET {SFT_JOB}/metrics": [{"json": {"points": page}}]}) as server:
        assert [one.step for one in backend(server).points(Kind.SFT, JOB, limit=3)] == [1, 1]
        assert [one.step for one in backend(server).points(Kind.SFT, JOB, limit=4)] == [1, 1, 2]


@pytest.mark.parametrize("missing", [NO_ROUTE, {"status": 405}, {"status": 404, "text": "Cannot GET"}])
def test_feeds_of_rl_jobs_may_live_below_the_route_of_sft_jobs(missing: Reply) -> None:
    script: Script = {f"GET {RL_JOB}/events": [missing], f"GET {SFT_JOB}/events": [{"json": {"events": [event(1)]}}]}
    with ScriptedServer(script) as server:
        assert [one.seq for one in backend(server).events(Kind.RL, JOB)] == [1]


Call = Callable[[HttpBackend], object]
CALLS: dict[str, Call] = {
    "events": lambda backend: backend.events(Kind.RL, JOB),
    "points": lambda backend: backend.points(Kind.SFT, JOB),
    "cancel": lambda backend: backend.cancel(Kind.RL, JOB),
    "request_of": lambda backend: backend.request_of(Kind.RL, JOB),
    "results": lambda backend: backend.results(Kind.RL, JOB),
    "open_result": lambda backend: backend.open_result(Kind.SFT, JOB, "a/b.json"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (NO_ROUTE, NotOffered),
        ({"status": 404, "json": {"error": {"code": "no_such_route", "message": "nothing there"}}}, NotOffered),
        ({"status": 404, "text": "<h1>404</h1>"}, NotOffered),
        ({"status": 405}, NotOffered),
        ({"status": 404, "json": {"detail": "Job job_1 not found"}}, NotKnown),
        ({"status": 410, "json": {"detail": "gone"}}, NotKnown),
        ({"status": 409, "json": {"detail": "it is over"}}, BackendRefused),
        ({"status": 503}, BackendBusy),
        ({"status": 302, "headers": {"Location": "https://elsewhere.example/"}}, UnexpectedReply),
        ({"drop": "before_reply"}, BackendUnreachable),
    ],
)  # fmt: skip
def test_a_missing_route_is_told_from_a_missing_job(call: Call, answer: Reply, error: type[TrainingError]) -> None:
    with ScriptedServer({"* /api/*": [answer]}) as server, pytest.raises(TrainingError) as caught:
        call(backend(server))
    assert type(caught.value) is error
    assert KEY.reveal() not in f"{caught.value!r}{caught.value}"


# -- lists


def test_a_filter_goes_out_in_the_terms_of_each_route() -> None:
    wanted = JobFilter(status="running", training_type="sft", model="m", created_after=1.5e9, after=JobId("j"), limit=7)
    rows: Reply = {"json": {"jobs": []}}
    with ScriptedServer({"GET /api/*/jobs": [rows]}) as server:
        backend(server).list_jobs(wanted)
        backend(server).list_jobs(JobFilter(kind=Kind.RL, created_before=1.5e9))
        backend(server).list_jobs(JobFilter(kind=Kind.SFT))
    everything, rl, sft = server.log
    assert everything.path == "/api/learning/jobs"
    assert query(everything.target) == {
        "status": "running", "type": "sft", "model": "m", "created_after": "2017-07-14T02:40:00+00:00", "after": "j",
        "limit": "7",
    }  # fmt: skip
    assert (rl.path, query(rl.target)) == ("/api/rl/jobs", {"created_before": "1500000000.0", "limit": "20"})
    assert sft.path == "/api/sft/jobs"


ROWS = [
    {"id": "job_4", "status": "Completed", "type": "rl_online", "created_at": "2026-01-04T00:00:00Z"},
    {"id": "job_3", "status": "running", "training_type": "sft_offline", "created_at": 1_767_398_400},
    {"id": "job_2", "state": "running", "job_type": "rl", "created_at": 1_767_312_000_000},
    {"id": "job_1", "status": "failed", "created_at": None},
]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (JobFilter(), "4321"),
        (JobFilter(limit=2), "43"),
        (JobFilter(kind=Kind.RL), "421"),
        (JobFilter(status="RUNNING"), "32"),
        (JobFilter(status="succeeded"), "4"),
        (JobFilter(created_after=1_767_350_000), "431"),
        (JobFilter(created_before=1_767_350_000), "21"),
        (JobFilter(after=JobId("job_3")), "21"),
        (JobFilter(after=JobId("job_1")), ""),
    ],
)
def test_what_a_backend_does_not_filter_is_filtered_here(wanted: JobFilter, ids: str) -> None:
    script: Script = {"GET /api/rl/jobs": [NO_ROUTE], "GET /api/learning/jobs": [{"json": {"data": ROWS}}]}
    with ScriptedServer(script) as server:
        assert [row.job_id for row in backend(server).list_jobs(wanted)] == [f"job_{number}" for number in ids]


def test_a_backend_that_lists_nothing_says_so() -> None:
    with ScriptedServer({}) as server:
        for kind in (None, Kind.RL):
            with pytest.raises(NotOffered):
                backend(server).list_jobs(JobFilter(kind=kind))


# -- cancellation


@pytest.mark.parametrize(
    "answer", [{"json": {"message": "cancellation requested"}}, {"text": "ok"}, {"status": 202, "json": []}]
)
def test_a_cancellation_that_tells_no_status_is_looked_up(answer: Reply) -> None:
    script: Script = {f"POST {RL_JOB}/cancel": [answer], f"GET {RL_JOB}": [{"json": {"status": "cancelled"}}]}
    with ScriptedServer(script) as server:
        assert backend(server).cancel(Kind.RL, JOB).phase is Phase.CANCELLED
    assert server.log[0].body == b"{}"


def test_a_cancellation_that_tells_the_status_is_one_request() -> None:
    with ScriptedServer({f"POST {SFT_JOB}/cancel": [{"json": {"status": "cancelling"}}]}) as server:
        assert backend(server).cancel(Kind.SFT, JOB).word == "cancelling"
    assert len(server.log) == 1


# -- results


def test_results_are_listed_and_read_byte_for_byte() -> None:
    script: Script = {
        f"GET {SFT_JOB}/results": [{"json": {"files": [{"name": "b c/d.bin", "bytes": 5}, {"name": "a", "bytes": 0}]}}],
        f"GET {SFT_JOB}/results/b%20c/d.bin": [{"text": "12345"}],
    }
    with ScriptedServer(script) as server:
        files = backend(server).results(Kind.SFT, JOB)
        assert files == [ResultFile(name="a", size=0), ResultFile(name="b c/d.bin", size=5)]
        stream = backend(server).open_result(Kind.SFT, JOB, files[1].name)
        assert (stream.read(2), stream.read(), stream.read(0), stream.read()) == (b"12", b"345", b"", b"")
        stream.close()


def test_a_file_that_is_cut_on_its_way_is_not_taken_for_whole() -> None:
    with RawServer((reply(b"1234", length=9),)) as server:
        stream = HttpBackend(server.origin, api_key=KEY).open_result(Kind.SFT, JOB, "a")
        assert stream.read(4) == b"1234"
        with pytest.raises(BackendUnreachable, match="/learning/jobs/job_1/results/a: "):
            stream.read(4)


def test_a_hash_is_read_whatever_case_it_is_written_in() -> None:
    rows = [{"name": "a", "bytes": 0, "sha256": "AB" * 32}, {"name": "b", "bytes": 0, "sha256": 5}]
    with ScriptedServer({f"GET {SFT_JOB}/results": [{"json": {"files": rows}}]}) as server:
        assert [file.sha256 for file in backend(server).results(Kind.SFT, JOB)] == ["ab" * 32, None]


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        ("206 Partial Content", ("Content-Range: bytes 4-9/10",), b"456789"),
        ("206 Partial Content", ("Content-Range: bytes 2-9/10",), b"23456789"),
        ("200 OK", (), b"0123456789"),
    ],
    ids=["as asked", "from before", "no ranges"],
)
def test_a_file_comes_from_the_byte_that_was_asked_for_on(status: str, headers: tuple[str, ...], body: bytes) -> None:
    with RawServer((reply(body, *headers, status=status),)) as server:
        stream = HttpBackend(server.origin, api_key=KEY).open_result(Kind.SFT, JOB, "a", start=4)
        assert stream.read() == b"456789"
        stream.close()
        assert b"Range: bytes=4-\r\n" in server.heard[0]


def test_a_file_that_begins_behind_the_byte_that_was_asked_for_is_not_taken() -> None:
    late = reply(b"56789", "Content-Range: bytes 5-9/10", status="206 Partial Content")
    with RawServer((late,)) as server, pytest.raises(UnexpectedReply, match="asked for byte 4, and got byte 5"):
        HttpBackend(server.origin, api_key=KEY).open_result(Kind.SFT, JOB, "a", start=4)


def test_a_success_without_a_file_is_unexpected() -> None:
    with ScriptedServer({"GET *": [{"status": 204}]}) as server, pytest.raises(UnexpectedReply, match="no file"):
        backend(server).open_result(Kind.SFT, JOB, "a")


@pytest.mark.parametrize("call", ["events", "points", "results", "request_of"])
@pytest.mark.parametrize("answer", [PAGE, {"json": {"rows": []}}, {"json": "text"}])
def test_what_is_no_list_is_unexpected(call: str, answer: Reply) -> None:
    with ScriptedServer({"GET *": [answer]}) as server, pytest.raises(UnexpectedReply):
        CALLS[call](backend(server))
