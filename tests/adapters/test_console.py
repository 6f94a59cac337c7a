"""What a person and a program get to see, on streams of every kind."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from support.terminal import Terminal
from synth_train.adapters.console.events import Events
from synth_train.adapters.console.meters import QUIET_FOR, BarMeter, LineMeter
from synth_train.adapters.console.screen import OutputClosed, Screen
from synth_train.adapters.console.transcript import SAME_TROUBLE, Transcript
from synth_train.adapters.console.words import clock, printable, seconds, size
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.domain.model.dataset import DatasetReport, Part
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.moments import (
    ApiRootFound,
    BackendChosen,
    ConfigBegun,
    Created,
    Creating,
    DatasetChecked,
    DatasetProgress,
    EnvFilesUsed,
    FileReady,
    FileWaiting,
    JobEnded,
    KeyMinted,
    Moment,
    Noted,
    PollFailed,
    PollingBegun,
    ProblemFound,
    Resumed,
    Retrying,
    StatusSeen,
    TaskAppHealthy,
    TaskAppVerified,
    UploadBegun,
    UploadProgress,
)
from synth_train.domain.model.places import Place, Problem, Severity
from synth_train.domain.model.submission import Stage

JOB = JobId("job_abc123")
MB = 1_000_000


class Streams:
    """A screen over two streams in memory."""

    def __init__(self, *, encoding: str = "utf-8") -> None:
        self._out, self._err = io.BytesIO(), io.BytesIO()
        self.screen = Screen(
            io.TextIOWrapper(self._out, encoding=encoding, newline=""),
            io.TextIOWrapper(self._err, encoding=encoding, newline=""),
        )

    @property
    def out(self) -> str:
        return self._out.getvalue().decode("latin-1")

    @property
    def err(self) -> str:
        return self._err.getvalue().decode("latin-1")


class Pipe:
    """A stream whose reader can go away."""

    made: ClassVar[list[Pipe]] = []

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        self.stream = os.fdopen(writer, "w", encoding="utf-8")
        self.made.append(self)

    def read(self) -> str:
        return os.read(self._reader, 65536).decode()

    def leave(self) -> None:
        os.close(self._reader)
        self._reader = -1

    def close(self) -> None:
        self.stream.close()
        if self._reader >= 0:
            os.close(self._reader)


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture(autouse=True)
def pipes_are_closed() -> Iterator[None]:
    yield
    while Pipe.made:
        Pipe.made.pop().close()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.stream.close()


def told(moments: Sequence[Moment], streams: Streams, clock: ManualClock | None = None) -> Streams:
    transcript = Transcript(streams.screen, monotonic=(clock or ManualClock()).monotonic)
    for moment in moments:
        transcript.tell(moment)
    return streams


# -- the transcript


def test_an_rl_session_reads_like_the_doc_page(streams: Streams) -> None:
    told(
        [
            EnvFilesUsed(paths=(Path("/home/me/.env"),)),
            BackendChosen(base="https://api.usesynth.ai", key_mask="sk-...092"),
            TaskAppVerified(candidates=3, statuses=(200, 200, 200)),
            TaskAppHealthy(task_url="https://task.example"),
            Creating(url="https://api.usesynth.ai/rl/jobs", body=b'{"job_type":"rl"}', key=IdempotencyKey("k")),
            Created(job_id=JOB, kind=Kind.RL, status=201, reply='{"job_id": "job_abc123"}'),
            PollingBegun(job_id=JOB, interval=5.0, timeout=3600.0),
            StatusSeen(job_id=JOB, elapsed=0.2, word="queued", phase=Phase.LIVE),
            StatusSeen(job_id=JOB, elapsed=15.4, word="running", phase=Phase.LIVE),
            StatusSeen(job_id=JOB, elapsed=222.0, word="succeeded", phase=Phase.SUCCEEDED),
            JobEnded(job_id=JOB, word="succeeded", phase=Phase.SUCCEEDED, reason="", fine_tuned_model=None),
        ],
        streams,
    )

    assert streams.out == (
        "Using env file: /home/me/.env\n"
        "Backend base: https://api.usesynth.ai (key sk-...092)\n"
        "Verification OK (candidates=3, statuses=[200, 200, 200])\n"
        "Task app healthy\n"
        "POST https://api.usesynth.ai/rl/jobs\n"
        'Payload preview:{"job_type":"rl"}\n'
        'Response 201: {"job_id": "job_abc123"}\n'
        "Polling job status (interval=5s, timeout=3600s)...\n"
        "[00:00] queued\n"
        "[00:15] running\n"
        "[03:42] succeeded\n"
    )
    assert streams.err == "Job job_abc123: succeeded\n"


def test_an_sft_session_names_dataset_upload_file_and_model(streams: Streams) -> None:
    report = DatasetReport(
        part=Part(Path("/repo/train.jsonl"), 0, 1_400_000),
        rows=200,
        turns=600,
        roles={"system": 200, "user": 200, "assistant": 200},
        longest_row=12_345,
        longest_line=17,
        warnings=1,
    )
    told(
        [
            BackendChosen(base="local", key_mask=None),
            DatasetChecked(report=report),
            UploadBegun(path=Path("/repo/train.jsonl"), purpose="training set", size=1_400_000),
            FileReady(file_id=FileId("file_1"), purpose="training set"),
            JobEnded(job_id=JOB, word="succeeded", phase=Phase.SUCCEEDED, reason="", fine_tuned_model="ft:x:job_1"),
        ],
        streams,
    )

    assert streams.out == (
        "Backend base: local\n"
        "Dataset OK (rows=200, turns=600, system=200, user=200, assistant=200, longest=12.3 kB at line 17, "
        "1 warning)\n"
        "Uploading /repo/train.jsonl (1.4 MB, training set)...\n"
        "File ready (id=file_1)\n"
        "Fine-tuned model: ft:x:job_1\n"
    )


def test_what_is_no_part_of_the_doc_pages_session_is_said_too(streams: Streams) -> None:
    told(
        [
            ApiRootFound(base="https://h/api"),
            ConfigBegun(config="b.toml", ordinal=2, of=3),
            KeyMinted(mask="abc...xyz", path=Path("/repo/.env")),
            Resumed(stage="created", opened_at=1_700_000_000.0, key=IdempotencyKey("k-1"), job_id=JOB),
        ],
        streams,
    )

    assert streams.out == (
        "Backend base: https://h/api (the API answers there)\n"
        "Config 2 of 3: b.toml\n"
        "Minted ENVIRONMENT_API_KEY abc...xyz: saved to /repo/.env, uploaded to the backend\n"
        "Job job_abc123 exists already\n"
    )


def test_warnings_notes_and_waiting_go_to_stderr(streams: Streams) -> None:
    problem = Problem(Place("a.toml", 3), "job.modle", "is not a key", Severity.WARNING)
    told(
        [
            ProblemFound(problem=problem),
            Noted(text="mind this", warning=True),
            Noted(text="know this"),
            Retrying(what="create the job", error="503 from https://h", wait=1.25, attempt=2, attempts=5),
            Retrying(what="create the job", error="503 from https://h", wait=3.0, attempt=3, attempts=5),
            Retrying(what="create the job", error="503 from https://h", wait=0.004, attempt=4, attempts=5),
            FileWaiting(file_id=FileId("file_1"), word="processing"),
        ],
        streams,
    )

    assert streams.out == ""
    assert streams.err == (
        "warning: a.toml:3: job.modle: is not a key\n"
        "warning: mind this\n"
        "note: know this\n"
        "warning: could not create the job: 503 from https://h; trying again in 1.2 s (attempt 2 of 5)\n"
        "warning: could not create the job: 503 from https://h; trying again in 3 s (attempt 3 of 5)\n"
        "warning: could not create the job: 503 from https://h; trying again at once (attempt 4 of 5)\n"
        "note: file file_1 is 'processing'; waiting until it is ready\n"
    )


@pytest.mark.parametrize(
    ("stage", "where"),
    [
        (Stage.INTENT, "before it had asked for the job"),
        (Stage.UPLOADED, "after the upload"),
        (Stage.CREATING, "while it asked for the job"),
    ],
)
def test_a_resumed_submission_says_when_it_began_where_it_stopped_and_under_which_key(
    streams: Streams, stage: Stage, where: str
) -> None:
    told([Resumed(stage=stage.value, opened_at=1_700_000_000.0, key=IdempotencyKey("k-1"), job_id=None)], streams)

    assert re.fullmatch(
        rf"note: an earlier run, begun 2023-11-1[45] \d\d:\d\d:20\S*, stopped {where}; "
        r"this run goes on from there \(Idempotency-Key k-1\)\n",
        streams.err,
    )


@pytest.mark.parametrize(("word", "seen"), [("running", ", last seen 'running'"), ("", "")])
def test_a_key_that_has_its_job_already_is_told_with_that_job(streams: Streams, word: str, seen: str) -> None:
    told([Resumed(stage="handed over", opened_at=1.7e9, key=IdempotencyKey("k-1"), job_id=JOB, word=word)], streams)

    assert streams.out == "Job job_abc123 exists already\n"
    assert re.fullmatch(
        rf"note: the key k-1 was used for this request before, 2023-11-1[45] \S*: its job is {JOB}{seen}\n", streams.err
    )


def test_a_job_that_ended_badly_is_an_error_with_its_reason_and_its_id(streams: Streams) -> None:
    told(
        [
            StatusSeen(job_id=JOB, elapsed=3700.0, word="FAILED", phase=Phase.FAILED),
            JobEnded(job_id=JOB, word="FAILED", phase=Phase.FAILED, reason="out of memory", fine_tuned_model=None),
            JobEnded(job_id=JOB, word="stopped", phase=Phase.CANCELLED, reason="", fine_tuned_model=None),
        ],
        streams,
    )

    assert streams.out == "[61:40] FAILED\n"
    assert streams.err == "error: job job_abc123: FAILED: out of memory\nerror: job job_abc123: stopped\n"


def test_a_status_that_nobody_knows_is_shown_as_sent_and_marked(streams: Streams) -> None:
    told([StatusSeen(job_id=JOB, elapsed=0, word="quantum_\x1b[31mflux", phase=Phase.UNKNOWN)], streams)

    assert streams.out == "[00:00] quantum_\\u001b[31mflux (a status we do not know)\n"


def test_the_same_failure_of_a_poll_is_not_said_at_every_poll(streams: Streams) -> None:
    clock = ManualClock()
    transcript = Transcript(streams.screen, monotonic=clock.monotonic)
    for error in ("503", "503", "timed out", "timed out"):
        transcript.tell(PollFailed(job_id=JOB, error=error))
    clock.advance(SAME_TROUBLE)
    transcript.tell(PollFailed(job_id=JOB, error="timed out"))

    assert [line.split(";")[0] for line in streams.err.splitlines()] == [
        "warning: 503",
        "warning: timed out",
        "warning: timed out",
    ]


def test_when_stdout_is_for_a_result_the_transcript_is_told_on_stderr(streams: Streams) -> None:
    transcript = Transcript(streams.screen, monotonic=ManualClock().monotonic, aside=True)
    transcript.tell(TaskAppHealthy(task_url="https://task.example"))

    assert (streams.out, streams.err) == ("", "Task app healthy\n")


# -- words


def test_control_characters_are_escaped_as_json_would() -> None:
    hostile = 'a\x1b[2Jb\r\nc\td\x9be\u202ef\u2028g\x7f"'

    assert printable(hostile) == 'a\\u001b[2Jb\\r\\nc\\td\\u009be\\u202ef\\u2028g\\u007f"'
    assert json.loads('"' + printable("\x1b\x9b\u2028\n") + '"') == "\x1b\x9b\u2028\n"
    assert printable("Grüße 🎉 日本") == "Grüße 🎉 日本"


@pytest.mark.parametrize(
    ("value", "text"), [(5.0, "5"), (0.2, "0.2"), (3600.0, "3600"), (0.0001, "0"), (1e6, "1000000")]
)
def test_durations_have_no_needless_zeros(value: float, text: str) -> None:
    assert seconds(value) == text


def test_elapsed_time_goes_on_in_minutes_after_the_hour() -> None:
    assert [clock(value) for value in (0, 59.99, 60, 3599, 6000)] == ["00:00", "00:59", "01:00", "59:59", "100:00"]


def test_sizes_are_said_in_the_unit_that_fits() -> None:
    assert [size(count) for count in (0, 1, 999, 1000, 999_940, 999_960, 2_000_000_000, 5 * 10**15)] == [
        "0 bytes",
        "1 byte",
        "999 bytes",
        "1.0 kB",
        "999.9 kB",
        "1.0 MB",
        "2.0 GB",
        "5000.0 TB",
    ]


# -- the screen


def test_what_an_encoding_does_not_have_is_replaced() -> None:
    streams = Streams(encoding="ascii")
    streams.screen.out("naïve \udcb2 🎉")

    assert streams.out == "na\\xefve \\udcb2 \\U0001f389\n"


def test_a_lone_surrogate_does_not_stop_utf8() -> None:
    streams = Streams()
    streams.screen.out("half \udcb2")

    assert streams.out == "half \\udcb2\n"


def test_data_goes_out_byte_for_byte(streams: Streams) -> None:
    streams.screen.out("first")
    streams.screen.data(b'{"\xc3\xa9": "\\u001b"}\n')

    assert streams.out == 'first\n{"\xc3\xa9": "\\u001b"}\n'


def test_when_the_reader_of_stdout_leaves_the_transcript_goes_on_on_stderr() -> None:
    out, err = Pipe(), Pipe()
    screen = Screen(out.stream, err.stream)
    screen.out("one")
    assert out.read() == "one\n"
    out.leave()
    screen.out("two")
    screen.out("three")
    screen.close()

    assert err.read() == "two\nthree\n"


def test_a_stdout_that_was_closed_from_the_start_is_no_trouble() -> None:
    err = Pipe()
    Screen(None, err.stream).out("one")

    assert err.read() == "one\n"


def test_when_nobody_reads_at_all_the_run_is_told() -> None:
    out, err = Pipe(), Pipe()
    out.leave()
    err.leave()

    with pytest.raises(OutputClosed):
        Screen(out.stream, err.stream).out("one")


def test_a_closed_stderr_loses_warnings_and_nothing_else() -> None:
    out, err = Pipe(), Pipe()
    err.leave()
    screen = Screen(out.stream, err.stream)
    screen.err("unheard", label="warning:")
    screen.out("heard")

    assert out.read() == "heard\n"


def test_a_document_is_not_written_anywhere_else_than_stdout() -> None:
    out, err = Pipe(), Pipe()
    out.leave()

    with pytest.raises(OutputClosed):
        Screen(out.stream, err.stream).data(b"{}\n")


def test_labels_are_coloured_on_a_terminal_only(streams: Streams, terminal: Terminal) -> None:
    streams.screen.err("what", label="error:", style="31")
    Screen(None, terminal.stream, environ={"TERM": "xterm"}).err("what", label="error:", style="31")

    assert streams.err == "error: what\n"
    assert terminal.shown() == "\x1b[31merror:\x1b[0m what\r\n"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(terminal: Terminal, environ: dict[str, str]) -> None:
    Screen(None, terminal.stream, environ=environ).err("what", label="error:", style="31")

    assert terminal.shown() == "error: what\r\n"


# -- progress


def upload(meter: LineMeter | BarMeter, clock: ManualClock, *, steps: int = 200, each: float = 0.1) -> None:
    for step in range(1, steps + 1):
        clock.advance(each)
        meter.show("Uploading x.jsonl", step * MB, steps * MB)


def test_off_a_terminal_there_is_a_line_at_every_tenth(streams: Streams) -> None:
    clock = ManualClock()
    upload(LineMeter(streams.screen, clock.monotonic), clock)

    lines = streams.err.splitlines()
    assert lines[0] == "Uploading x.jsonl: 10 % (20.0 MB of 200.0 MB)"
    assert [line.split()[2] for line in lines] == ["10", "20", "30", "40", "50", "60", "70", "80", "90", "100"]
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", streams.err)


def test_what_is_done_in_no_time_has_no_progress(streams: Streams, terminal: Terminal) -> None:
    clock = ManualClock()
    each = QUIET_FOR / 400
    upload(LineMeter(streams.screen, clock.monotonic), clock, each=each)
    upload(BarMeter(Screen(None, terminal.stream, environ={"TERM": "xterm"}), clock.monotonic), clock, each=each)

    assert streams.err == ""
    assert terminal.shown() == ""


def test_another_attempt_begins_anew(streams: Streams) -> None:
    clock = ManualClock()
    meter = LineMeter(streams.screen, clock.monotonic)
    upload(meter, clock, steps=10, each=1.0)
    upload(meter, clock, steps=10, each=1.0)

    assert len(streams.err.splitlines()) == 2 * 9  # 10 % comes too early to be shown


def test_an_empty_file_is_done_at_once(streams: Streams) -> None:
    clock = ManualClock()
    meter = LineMeter(streams.screen, clock.monotonic)
    meter.show("x", 0, 0)
    clock.advance(1)
    meter.show("x", 0, 0)

    assert streams.err == "x: 100 % (0 bytes of 0 bytes)\n"


def test_on_a_terminal_there_is_a_bar_which_the_next_line_takes_away(terminal: Terminal) -> None:
    clock = ManualClock()
    screen = Screen(None, terminal.stream, environ={"TERM": "xterm"})
    transcript = Transcript(screen, monotonic=clock.monotonic)
    for step in range(10):
        clock.advance(1)
        transcript.tell(UploadProgress(path=Path("[x].jsonl"), sent=step * MB, size=10 * MB))
    transcript.tell(Noted(text="done"))
    transcript.tell(DatasetProgress(path=Path("y.jsonl"), done=1, total=2))

    shown = terminal.shown()
    assert "Uploading [x].jsonl" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    assert shown.index("\x1b[?25h") < shown.index("note: done")


def test_a_bar_without_colour_moves_the_cursor_only(terminal: Terminal) -> None:
    clock = ManualClock()
    screen = Screen(None, terminal.stream, environ={"TERM": "xterm", "NO_COLOR": "1"})
    upload(BarMeter(screen, clock.monotonic), clock, steps=5, each=1.0)
    screen.close()

    assert not re.search(r"\x1b\[[0-9;]*m", terminal.shown())


def test_a_dumb_terminal_gets_lines(terminal: Terminal) -> None:
    clock = ManualClock()
    screen = Screen(None, terminal.stream, environ={"TERM": "dumb"})
    transcript = Transcript(screen, monotonic=clock.monotonic)
    for step in range(1, 11):
        clock.advance(1)
        transcript.tell(UploadProgress(path=Path("x"), sent=step, size=10))

    shown = terminal.shown()
    assert "Uploading x: 50 %" in shown
    assert "\x1b" not in shown


def test_a_terminal_that_is_gone_gets_no_bar_and_stops_nothing(terminal: Terminal) -> None:
    clock = ManualClock()
    screen = Screen(None, terminal.stream, environ={"TERM": "xterm"})
    with open(os.devnull, "rb") as nowhere:  # noqa: PTH123 - a descriptor that cannot be written to
        os.dup2(nowhere.fileno(), terminal.stream.fileno())
    screen.err("unheard")
    upload(BarMeter(screen, clock.monotonic), clock, steps=5, each=1.0)

    assert screen.err_stream is None


# -- for programs


def test_a_program_hears_of_the_job_at_once_and_of_warnings_at_the_end(streams: Streams) -> None:
    events = Events(streams.screen)
    problem = Problem(Place("a.toml", 3), "x", "is odd", Severity.WARNING)
    for moment in (
        ProblemFound(problem=problem),
        Noted(text="mind", warning=True),
        Noted(text="know"),
        Created(job_id=JOB, kind=Kind.RL, status=201, reply="{}"),
        Resumed(stage="created", opened_at=0, key=IdempotencyKey("k"), job_id=JOB),
    ):
        events.tell(moment)

    event = {"version": 1, "event": "created", "job_id": "job_abc123"}
    assert [json.loads(line) for line in streams.err.splitlines()] == [event, event]
    assert streams.out == ""
    assert events.warnings == ["a.toml:3: x: is odd", "mind"]
