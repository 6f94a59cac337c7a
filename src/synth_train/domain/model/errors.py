"""Everything we raise on purpose.

    TrainingError
    ├── UsageError                what was asked for makes no sense as asked
    │   └── AnswerNeeded          a question had nobody to answer it
    ├── LocalStateError           this machine will not let us keep what must be kept
    ├── InvalidConfig             the TOML cannot become a job
    ├── InvalidDataset            the rows cannot be trained on
    ├── CredentialsError          a key is missing, or cannot be kept
    │   └── KeyRefused            the backend does not accept the key (401, 403)
    ├── TaskAppUnhealthy          the task app did not pass its checks
    ├── BackendError              the backend failed us
    │   ├── BackendRefused        it understood, and said no
    │   │   ├── NotOffered        it has no such route
    │   │   ├── NotKnown          it has no such file or job (404, 410)
    │   │   └── FileRejected      the uploaded file ended in a bad state
    │   ├── BackendBusy           it asked for another try: 408, 425, 429, 5xx
    │   ├── UnexpectedReply       what came back is not what the contract says
    │   ├── BackendUnreachable    no reply came
    │   └── OutcomeUnknown        the job may or may not exist
    └── GaveUpWaiting             the time allowed is over; what was waited for goes on

`str(error)` is what happened; `hint` is what to do next, and may be empty. Neither ever holds a secret.
The numbers a shell sees are in `entrypoints/exit_codes.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from synth_train.domain.model.places import Problem


class TrainingError(Exception):
    """Base of all we raise on purpose."""

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


class UsageError(TrainingError):
    """What was asked for makes no sense as asked, whatever the files say."""


class AnswerNeeded(UsageError):
    """A question had nobody to answer it. The hint names the option or variable that answers it."""


class LocalStateError(TrainingError):
    """A file or directory of ours cannot be read or written, so that going on would lose something."""


class InvalidConfig(TrainingError):
    """The TOML cannot become a job. `problems` holds all of them, in the order of the file."""

    def __init__(self, what: str, *, problems: tuple[Problem, ...] = (), hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.problems = problems


class InvalidDataset(TrainingError):
    """The rows cannot be trained on. `problems` holds the first ones, in the order of the file."""

    def __init__(self, what: str, *, problems: tuple[Problem, ...] = (), hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.problems = problems


class CredentialsError(TrainingError):
    """A key is missing, or could not be kept."""


class KeyRefused(CredentialsError):
    """The backend does not accept the key it was given (401 or 403)."""


class TaskAppUnhealthy(TrainingError):
    """The task app did not pass its checks, so no job was created."""


class BackendError(TrainingError):
    """The backend failed us. `status` is the HTTP status when there was one."""

    def __init__(self, what: str, *, hint: str = "", status: int | None = None) -> None:
        super().__init__(what, hint=hint)
        self.status = status


class BackendRefused(BackendError):
    """The backend understood the request and said no. Asking again would not help."""


class NotOffered(BackendRefused):
    """This backend has no such route."""


class NotKnown(BackendRefused):
    """This backend has no such file or job (404, 410). Right after creation it may not be visible yet."""


class FileRejected(BackendRefused):
    """The uploaded file ended in a bad state on the backend."""


class BackendBusy(BackendError):
    """The backend could not answer now (408, 425, 429, 5xx). Asking again may help.

    `retry_after` is the wait in seconds that the server asked for, None when it named none that could be read.
    """

    def __init__(
        self, what: str, *, hint: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(what, hint=hint, status=status)
        self.retry_after = retry_after


class UnexpectedReply(BackendError):
    """What came back is not what the contract says: no JSON, no id, a redirect of a POST."""


class BackendUnreachable(BackendError):
    """No whole reply came. `sent` tells whether the request may have reached the backend."""

    def __init__(self, what: str, *, hint: str = "", sent: bool = True) -> None:
        super().__init__(what, hint=hint)
        self.sent = sent


class OutcomeUnknown(BackendError):
    """The job may or may not exist. `key` is the idempotency key under which asking again is safe."""

    def __init__(self, what: str, *, key: str, hint: str = "", status: int | None = None) -> None:
        super().__init__(what, hint=hint, status=status)
        self.key = key


class GaveUpWaiting(TrainingError):
    """The time allowed is over. What was waited for goes on without us; `word` is its status as last seen."""

    def __init__(self, what: str, *, hint: str = "", word: str = "") -> None:
        super().__init__(what, hint=hint)
        self.word = word
