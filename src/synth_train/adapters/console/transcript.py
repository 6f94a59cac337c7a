"""What happens, in the words of the doc page's session (design §3)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from synth_train.adapters.console.course import Course, event_text
from synth_train.adapters.console.meters import BarMeter, LineMeter
from synth_train.adapters.console.words import clock, counted, seconds, size
from synth_train.domain.model.events import Event
from synth_train.domain.model.jobs import JobId, Phase
from synth_train.domain.model.moments import (
    ApiRootFound,
    BackendChosen,
    ConfigBegun,
    Created,
    Creating,
    DatasetChecked,
    DatasetProgress,
    EnvFilesUsed,
    EventSeen,
    FileReady,
    FileWaiting,
    JobEnded,
    KeyMinted,
    Moment,
    Noted,
    PointsSeen,
    PollFailed,
    PollingBegun,
    ProblemFound,
    Resumed,
    Retrying,
    SeveralWatched,
    StatusSeen,
    TaskAppHealthy,
    TaskAppVerified,
    UploadBegun,
    UploadProgress,
)
from synth_train.domain.model.submission import Stage
from synth_train.ports.progress import ProgressPort

if TYPE_CHECKING:
    from synth_train.adapters.console.screen import Screen
    from synth_train.domain.model.dataset import DatasetReport

SAME_TROUBLE = 30.0
"""Seconds before the same failure of a poll is said again."""

RED, YELLOW = "31", "33"


class Transcript(ProgressPort):
    """ProgressPort that writes for people: the transcript to stdout, all else to stderr. With `aside` all of it goes
    to stderr, because stdout is for a result.

    Raises `OutputClosed` from `tell` when a line of the transcript could be shown nowhere.
    """

    def __init__(self, screen: Screen, *, monotonic: Callable[[], float], aside: bool = False) -> None:
        self._screen = screen
        self._write = screen.err if aside else screen.out
        self._monotonic = monotonic
        self._meter = (BarMeter if screen.steerable else LineMeter)(screen, monotonic)
        self._trouble = ("", 0.0)
        self._course = Course()
        self._several = False

    def tell(self, moment: Moment) -> None:
        if isinstance(moment, SeveralWatched):
            self._several = True
        for line in _transcript(moment, several=self._several):
            self._write(line)
        match moment:
            case ProblemFound():
                self._warn(str(moment.problem))
            case Noted(warning=True):
                self._warn(moment.text)
            case Noted():
                self._note(moment.text)
            case Resumed():
                self._note(_resumed(moment))
            case Retrying():
                self._warn(f"could not {moment.what}: {moment.error}; {_again(moment)}")
            case FileWaiting():
                self._note(f"file {moment.file_id} is {moment.word!r}; waiting until it is ready")
            case PollFailed():
                self._poll_failed(moment)
            case JobEnded(phase=Phase.SUCCEEDED):
                self._screen.err(f"Job {moment.job_id}: {moment.word}")
            case JobEnded():
                reason = f": {moment.reason}" if moment.reason else ""
                self._screen.err(f"job {moment.job_id}: {moment.word}{reason}", label="error:", style=RED)
            case EventSeen(event=Event(level="warning")):
                self._course.of_event(moment)
                self._warn(f"job {moment.job_id}: {event_text(moment.event)}")
            case EventSeen():
                self._happened(moment.job_id, self._course.of_event(moment))
            case PointsSeen():
                self._happened(moment.job_id, self._course.of_points(moment))
            case DatasetProgress():
                self._meter.show(f"Checking {moment.path.name}", moment.done, moment.total)
            case UploadProgress():
                self._meter.show(f"Uploading {moment.path.name}", moment.sent, moment.size)
            case _:
                pass

    def _happened(self, job_id: JobId, line: str) -> None:
        if line:
            self._screen.err(line, label=f"{job_id}:" if self._several else "job:")

    def _poll_failed(self, moment: PollFailed) -> None:
        said, at = self._trouble
        now = self._monotonic()
        if moment.error != said or now - at >= SAME_TROUBLE:
            self._trouble = (moment.error, now)
            self._warn(f"{moment.error}; the job goes on, and is asked for again")

    def _warn(self, text: str) -> None:
        for line in text.splitlines():
            self._screen.err(line, label="warning:", style=YELLOW)

    def _note(self, text: str) -> None:
        self._screen.err(text, label="note:")


def _transcript(moment: Moment, *, several: bool) -> list[str]:
    """The lines that a moment adds to the transcript; `several` tells whether they have to say which job they mean."""
    match moment:
        case EnvFilesUsed():
            return [f"Using env file: {path}" for path in moment.paths]
        case BackendChosen(key_mask=None):
            return [f"Backend base: {moment.base}"]
        case BackendChosen():
            return [f"Backend base: {moment.base} (key {moment.key_mask})"]
        case ApiRootFound():
            return [f"Backend base: {moment.base} (the API answers there)"]
        case ConfigBegun():
            return [f"Config {moment.ordinal} of {moment.of}: {moment.config}"]
        case KeyMinted():
            return [f"Minted ENVIRONMENT_API_KEY {moment.mask}: saved to {moment.path}, uploaded to the backend"]
        case TaskAppVerified():
            return [f"Verification OK (candidates={moment.candidates}, statuses={list(moment.statuses)})"]
        case TaskAppHealthy():
            return ["Task app healthy"]
        case DatasetChecked():
            return [dataset_line(moment.report)]
        case UploadBegun():
            return [f"Uploading {moment.path} ({size(moment.size)}, {moment.purpose})..."]
        case FileReady():
            return [f"File ready (id={moment.file_id})"]
        case Creating():
            return [f"POST {moment.url}", f"Payload preview:{moment.body.decode()}"]
        case Created():
            return [f"Response {moment.status}: {moment.reply}"]
        case PollingBegun():
            return [f"Polling job status (interval={seconds(moment.interval)}s, timeout={seconds(moment.timeout)}s)..."]
        case SeveralWatched():
            times = f"(interval={seconds(moment.interval)}s, timeout={seconds(moment.timeout)}s)"
            return [f"Polling the status of {len(moment.job_ids)} jobs {times}..."]
        case StatusSeen():
            strange = " (a status we do not know)" if moment.phase is Phase.UNKNOWN else ""
            job = f"{moment.job_id} " if several else ""
            return [f"[{clock(moment.elapsed)}] {job}{moment.word}{strange}"]
        case Resumed(job_id=str()):
            return [f"Job {moment.job_id} exists already"]
        case JobEnded(fine_tuned_model=str()) if several:
            return [f"Fine-tuned model of {moment.job_id}: {moment.fine_tuned_model}"]
        case JobEnded(fine_tuned_model=str()):
            return [f"Fine-tuned model: {moment.fine_tuned_model}"]
        case _:
            return []


def dataset_line(report: DatasetReport) -> str:
    """One line on a dataset that can be trained on: `Dataset OK (rows=200, turns=600, …)`."""
    parts = [
        f"rows={report.rows}",
        f"turns={report.turns}",
        *(f"{role}={count}" for role, count in report.roles.items()),
        f"longest={size(report.longest_row)} at line {report.longest_line}",
    ]
    if report.warnings:
        parts.append(counted(report.warnings, "warning"))
    return f"Dataset OK ({', '.join(parts)})"


def _resumed(moment: Resumed) -> str:
    when = datetime.fromtimestamp(moment.opened_at).astimezone().isoformat(sep=" ", timespec="seconds")
    if moment.stage == Stage.HANDED_OVER.value:
        seen = f", last seen {moment.word!r}" if moment.word else ""
        return f"the key {moment.key} was used for this request before, {when}: its job is {moment.job_id}{seen}"
    job = f"its job is {moment.job_id}" if moment.job_id else f"Idempotency-Key {moment.key}"
    return f"an earlier run, begun {when}, stopped {_STOPPED[moment.stage]}; this run goes on from there ({job})"


_STOPPED = {
    Stage.INTENT.value: "before it had asked for the job",
    Stage.UPLOADED.value: "after the upload",
    Stage.CREATING.value: "while it asked for the job",
    Stage.CREATED.value: "after the job was created",
}


def _again(moment: Retrying) -> str:
    wait = f"in {seconds(round(moment.wait, 1))} s" if moment.wait >= 0.05 else "at once"
    return f"trying again {wait} (attempt {moment.attempt} of {moment.attempts})"
