"""One plan becomes one job, exactly once (design §4).

    intent ── upload, wait for ready ── uploaded ── creating ── POST ── created ── start, tell ── handed over

Every word above is a journal entry, written before anybody else can see the effect of the step that follows it. A
run that stops anywhere is taken up there by the next run of the same request, under the same idempotency key and so
with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from msgspec import Struct, field
from msgspec.json import encode
from msgspec.structs import replace

from synth_train.domain.model.commands import watching
from synth_train.domain.model.dataset import Part
from synth_train.domain.model.errors import (
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnreachable,
    FileRejected,
    GaveUpWaiting,
    KeyRefused,
    NotKnown,
    OutcomeUnknown,
    TrainingError,
    UnexpectedReply,
)
from synth_train.domain.model.fingerprints import account_of, fingerprint_of
from synth_train.domain.model.jobs import (
    Accepted,
    FileId,
    FilePhase,
    FileState,
    IdempotencyKey,
    JobId,
    Kind,
    Phase,
    phase_of,
)
from synth_train.domain.model.moments import (
    Created,
    Creating,
    FileReady,
    FileWaiting,
    Noted,
    Resumed,
    UploadBegun,
    UploadProgress,
)
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.specs import JobRequest, RlRequest
from synth_train.domain.model.submission import Stage, Submission, entry_id
from synth_train.domain.usecases.retries import retried
from synth_train.ports.backend import BackendPort, Upload
from synth_train.ports.clock import ClockPort
from synth_train.ports.datasets import DatasetPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.journal import JournalPort
from synth_train.ports.patience import PatiencePort, RetryPolicy
from synth_train.ports.progress import ProgressPort
from synth_train.ports.streams import Readable

T = TypeVar("T")

KEY_BYTES = 16
"""128 random bits: no two submissions will ever draw the same key."""

READY_INTERVAL = 2.0
"""Seconds between looks at a file that is not ready (wire-contract §3.3)."""

_UPLOAD_POLICY = RetryPolicy(total=None)
_PROGRESS_STEP = 1 << 20


class PreparedJob(Struct, frozen=True, kw_only=True):
    """What is to be submitted: a checked plan, put in the shape of the wire."""

    kind: Kind
    config: str
    """Path of the TOML, for showing."""
    table: dict[str, object]
    """The resolved TOML."""
    request: JobRequest
    """With null file ids."""
    training: Part | None = None
    validation: Part | None = None


class SubmitOptions(Struct, frozen=True, kw_only=True):
    """How it is to be submitted."""

    key: IdempotencyKey | None = None
    """The user's; None draws one."""
    fresh: bool = False
    """Leave a run that stopped half-way alone."""
    file_timeout: float = 3600.0
    """Seconds to wait for all files to be ready."""
    file_interval: float = READY_INTERVAL
    env_files: tuple[Path, ...] = ()
    """Those that the keys come from, for showing."""


class SubmitJob(Struct, frozen=True, kw_only=True):
    """Submit one job for the holder of `api_key` (None on a backend that takes no key)."""

    backend: BackendPort
    api_key: Secret | None
    datasets: DatasetPort
    journal: JournalPort
    patience: PatiencePort
    clock: ClockPort
    entropy: EntropyPort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def __call__(self, job: PreparedJob, options: SubmitOptions) -> JobId:
        """The id of the job, which exists once and is started.

        Raises:
            InvalidDataset: a file has changed or gone since it was checked.
            FileRejected: the backend does not take an uploaded file; no job was created.
            GaveUpWaiting: a file was not ready in time; no job was created.
            BackendRefused, KeyRefused: the backend said no; no job was created.
            BackendUnreachable, BackendBusy, UnexpectedReply: no job was created.
            OutcomeUnknown: the job may exist. The same request again goes on where this one stopped.
            LocalStateError: the journal cannot be kept; nothing was sent.
        """
        submission = self._begin(job, options)
        try:
            return self._go_on(job, options, submission)
        finally:
            self.journal.release(submission)

    # -- where it begins

    def _begin(self, job: PreparedJob, options: SubmitOptions) -> Submission:
        account = account_of(self.backend.base, self.api_key)
        fingerprint = fingerprint_of(
            backend=self.backend.base,
            account=account,
            kind=job.kind,
            config=encode(job.table),
            request=job.request.encode(),
            uploads=tuple(self.datasets.sha256(part) for part in (job.training, job.validation) if part),
        )
        earlier = self._earlier(fingerprint, account, options)
        if earlier is not None:
            return earlier
        now = self.clock.now()
        submission = Submission(
            id=entry_id(now, self.entropy.token(8)),
            fingerprint=fingerprint,
            backend=self.backend.base,
            account=account,
            kind=job.kind,
            config=job.config,
            key=options.key or IdempotencyKey(self.entropy.token(KEY_BYTES)),
            key_is_users=options.key is not None,
            opened_at=now,
            updated_at=now,
        )
        self._name_the_running_one(fingerprint, options)
        self.journal.open(submission)
        return submission

    def _earlier(self, fingerprint: str, account: str, options: SubmitOptions) -> Submission | None:
        if options.key is not None:
            return self._under_the_users_key(options.key, fingerprint, account)
        if options.fresh:
            return None
        stopped = self.journal.take_up(fingerprint)
        if stopped is not None:
            self._tell_resumed(stopped)
        return stopped

    def _under_the_users_key(self, key: IdempotencyKey, fingerprint: str, account: str) -> Submission | None:
        earlier = self.journal.with_key(self.backend.base, account, key)
        if earlier is None or earlier.stage is Stage.REFUSED:
            return None
        if earlier.fingerprint == fingerprint:
            self._tell_resumed(earlier)
            return earlier
        if earlier.stage not in (Stage.INTENT, Stage.UPLOADED):
            self._note(
                f"the idempotency key {key} was used before for another request ({earlier.config}); "
                "a backend that remembers it will refuse this one",
                warning=True,
            )
        return None

    def _tell_resumed(self, earlier: Submission) -> None:
        self.progress.tell(
            Resumed(
                stage=earlier.stage.value,
                opened_at=earlier.opened_at,
                key=earlier.key,
                job_id=earlier.job_id,
                word=earlier.last_word,
            )
        )

    def _name_the_running_one(self, fingerprint: str, options: SubmitOptions) -> None:
        before = self.journal.latest_handed_over(fingerprint)
        if before is not None and (not before.last_word or phase_of(before.last_word) is Phase.LIVE):
            seen = f"was last seen {before.last_word!r}" if before.last_word else "was not watched"
            job_id = cast("JobId", before.job_id)
            watch = watching(job_id, base=before.backend, kind=before.kind, env_files=options.env_files)
            self._note(
                f"job {job_id} of the same request {seen}; this run makes another one. To watch that one: {watch}",
                warning=True,
            )

    # -- the steps

    def _go_on(self, job: PreparedJob, options: SubmitOptions, submission: Submission) -> JobId:
        if submission.stage is Stage.INTENT or (submission.stage is Stage.UPLOADED and self._files_gone(submission)):
            submission = self._uploaded(job, options, submission)
        if submission.stage is Stage.UPLOADED:
            self._wait_until_ready(submission, options)
            submission = self._advance(submission, Stage.CREATING)
        if submission.stage is Stage.CREATING or submission.key_is_users:
            submission = self._created(job, submission)
        job_id = cast("JobId", submission.job_id)
        if job.kind is Kind.SFT:
            self._start(job_id)
        if submission.open:
            self._advance(submission, Stage.HANDED_OVER)
        return job_id

    def _uploaded(self, job: PreparedJob, options: SubmitOptions, submission: Submission) -> Submission:
        training = self._upload(job.training, "training set") if job.training else None
        validation = self._upload(job.validation, "validation set") if job.validation else None
        return self._advance(submission, Stage.UPLOADED, training_file=training, validation_file=validation)

    def _created(self, job: PreparedJob, submission: Submission) -> Submission:
        request = job.request
        if not isinstance(request, RlRequest):
            request = replace(
                request, training_file=submission.training_file, validation_file=submission.validation_file
            )
        body = request.encode()
        self.progress.tell(Creating(url=f"{self.backend.base}/{job.kind.route}", body=body, key=submission.key))
        accepted = self._create(job.kind, body, submission)
        if submission.open:
            submission = self._advance(submission, Stage.CREATED, job_id=accepted.job_id)
        self.progress.tell(Created(job_id=accepted.job_id, kind=job.kind, status=accepted.status, reply=accepted.reply))
        return replace(submission, job_id=accepted.job_id)

    def _create(self, kind: Kind, body: bytes, submission: Submission) -> Accepted:
        lost: list[Exception] = []

        def once() -> Accepted:
            try:
                return self.backend.create(kind, body, submission.key)
            except TrainingError as error:
                if _may_have_created(error):
                    lost.append(error)
                raise

        try:
            return self._retrying(once, what="create the job")
        except (BackendError, KeyRefused) as error:
            if lost:
                wait = f"{error.hint} " if isinstance(error, BackendBusy) and error.retry_after is not None else ""
                raise OutcomeUnknown(
                    f"the job may exist: {error}",
                    key=submission.key,
                    status=error.status if isinstance(error, BackendError) else None,
                    hint=f"{wait}Run the same command again: it asks under the same idempotency key, "
                    f"{submission.key}, and gets the job if there is one. --new would begin afresh.",
                ) from error
            if isinstance(error, BackendRefused):
                if error.status == 409:
                    raise BackendRefused(str(error), status=409, hint=_after_a_conflict(submission)) from error
                self._advance(submission, Stage.REFUSED)
            raise

    def _start(self, job_id: JobId) -> None:
        try:
            self._retrying(lambda: self.backend.start(Kind.SFT, job_id), what="start the job")
        except (BackendRefused, UnexpectedReply) as error:
            self._note(f"starting job {job_id} was not confirmed: {error}", warning=True)

    def _advance(
        self,
        submission: Submission,
        stage: Stage,
        *,
        training_file: FileId | None = None,
        validation_file: FileId | None = None,
        job_id: JobId | None = None,
    ) -> Submission:
        submission = replace(
            submission,
            stage=stage,
            training_file=training_file or submission.training_file,
            validation_file=validation_file or submission.validation_file,
            job_id=job_id or submission.job_id,
            updated_at=self.clock.now(),
        )
        self.journal.advance(submission)
        return submission

    # -- files

    def _upload(self, part: Part, purpose: str) -> FileId:
        def once() -> FileId:
            self.progress.tell(UploadBegun(path=part.path, purpose=purpose, size=part.size))
            return self.backend.upload(
                Upload(
                    filename=part.path.name,
                    purpose="fine-tune",
                    size=part.size,
                    open=lambda: _Told(self.datasets.open(part), part, self.progress),
                )
            )

        return self._retrying(once, what=f"upload {part.path.name}", policy=_UPLOAD_POLICY)

    def _files_gone(self, submission: Submission) -> bool:
        """Whether a file that an earlier run uploaded is not there any more."""
        try:
            for file_id in _files_of(submission):
                self._retrying(partial(self.backend.file, file_id), what="look for the file")
        except NotKnown:
            return True
        return False

    def _wait_until_ready(self, submission: Submission, options: SubmitOptions) -> None:
        deadline = self.clock.monotonic() + options.file_timeout
        for file_id, purpose in _files_of(submission).items():
            told: set[str] = set()
            state = self.patience.until(
                partial(self._look_at, file_id, told),
                done=lambda state: state is not None and state.phase in (FilePhase.READY, FilePhase.REJECTED),
                interval=lambda _: options.file_interval,
                deadline=deadline,
            )
            if state is None:
                raise GaveUpWaiting(
                    f"file {file_id} was not ready after {options.file_timeout:g} s; no job was created",
                    hint="The file stays on the backend. Run the same command again to go on from here; "
                    "--poll-timeout allows more time.",
                )
            if state.phase is FilePhase.REJECTED:
                self._advance(submission, Stage.REFUSED)
                detail = f": {state.detail}" if state.detail else ""
                raise FileRejected(
                    f"the backend does not take file {file_id} ({state.word}){detail}; no job was created",
                    hint="Mend the dataset and run the command again.",
                )
            self.progress.tell(FileReady(file_id=file_id, purpose=purpose))

    def _look_at(self, file_id: FileId, told: set[str]) -> FileState | None:
        try:
            state = self.backend.file(file_id)
        except BackendError as error:
            if not isinstance(error, NotKnown) and str(error) not in told:
                self._note(f"file {file_id} cannot be looked at, asking again: {error}", warning=True)
                told.add(str(error))
            return None
        if state.phase in (FilePhase.WAITING, FilePhase.UNKNOWN) and state.word not in told:
            self.progress.tell(FileWaiting(file_id=file_id, word=state.word))
            told.add(state.word)
        return state

    # -- small things

    def _retrying(self, call: Callable[[], T], *, what: str, policy: RetryPolicy | None = None) -> T:
        return retried(call, what=what, patience=self.patience, progress=self.progress, policy=policy)

    def _note(self, text: str, *, warning: bool = False) -> None:
        self.progress.tell(Noted(text=text, warning=warning))


def _may_have_created(error: TrainingError) -> bool:
    """Whether the request that failed so may have made a job all the same."""
    if isinstance(error, BackendUnreachable):
        return error.sent
    if isinstance(error, UnexpectedReply):
        return error.status is None or error.status < 300
    return isinstance(error, BackendBusy) and (error.status or 500) >= 500


def _after_a_conflict(submission: Submission) -> str:
    if submission.key_is_users:
        return (
            f"If {submission.key} stands for another request on this backend: give another --idempotency key, or run "
            "the config and data that it was first used with, unchanged."
        )
    return "If the backend holds another request under the key of this run: --new begins afresh, under a new key."


def _files_of(submission: Submission) -> dict[FileId, str]:
    named = ((submission.training_file, "training set"), (submission.validation_file, "validation set"))
    return {file_id: purpose for file_id, purpose in named if file_id is not None}


class _Told(Readable):
    """A stream that tells how much of it has been read."""

    def __init__(self, stream: Readable, part: Part, progress: ProgressPort) -> None:
        self._stream, self._part, self._progress = stream, part, progress
        self._sent = self._told = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read on, and tell once in a while."""
        block = self._stream.read(size)
        self._sent += len(block)
        if self._sent - self._told >= _PROGRESS_STEP or (self._sent == self._part.size and block):
            self._told = self._sent
            self._progress.tell(UploadProgress(path=self._part.path, sent=self._sent, size=self._part.size))
        return block

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
