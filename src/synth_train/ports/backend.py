"""Promises of a service that accepts training jobs. In memory: `adapters.in_memory.backend.InMemoryBackend`.

True of every adapter, and checked in tests/contracts/test_backend.py: each call is one request (a GET may
follow redirects on its own origin); no call waits, tries again or prints; durations are seconds; only
`BackendError`s and `KeyRefused` come out, with the library's error as their cause, and neither their text nor
what is returned holds a secret. An id from the server never changes the path it is put into.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from synth_train.domain.model.jobs import (
    Accepted,
    Features,
    FileId,
    FileState,
    IdempotencyKey,
    JobId,
    JobState,
    Kind,
    Verification,
)
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.ports.job_admin import JobAdmin
from synth_train.ports.job_feed import JobFeed
from synth_train.ports.streams import Readable


class Upload(Struct, frozen=True, kw_only=True):
    """A file to send. `open` gives the same `size` bytes from the first one each time it is called."""

    filename: str
    purpose: str
    size: int
    open: Callable[[], Readable]


class BackendPort(Protocol):
    """Files and jobs."""

    @property
    def base(self) -> str:
        """The base in use, without a trailing slash; `local` for the embedded backend."""
        ...

    def features(self) -> Features:
        """What this backend is. Asked once, before anything is posted.

        A base without a path whose `GET /health` is 404 while `/api/health` is not has its API there: from then
        on `base` ends in `/api`. A backend that has no such route at all has no features, which is no error.

        Raises:
            BackendUnreachable: no reply came.
            BackendBusy: it cannot say now.
        """
        ...

    def upload(self, upload: Upload) -> FileId:
        """Send a file as multipart form data, in memory that does not grow with its size.

        Raises:
            BackendRefused, BackendBusy, UnexpectedReply, BackendUnreachable: no file id came back.
            KeyRefused: the API key does not open this backend.
        """
        ...

    def file(self, file_id: FileId) -> FileState:
        """Read the state of an uploaded file.

        Raises:
            NotKnown: not visible (yet).
            BackendRefused, BackendBusy, UnexpectedReply, BackendUnreachable, KeyRefused: as for `upload`.
        """
        ...

    def create(self, kind: Kind, request: bytes, key: IdempotencyKey) -> Accepted:
        """Ask for a job. The same request under the same key gives the same job, however often it is asked.

        Raises:
            BackendRefused: understood and refused; 409 when the key belongs to a different request.
            UnexpectedReply: accepted, but no usable id came back: the job may exist.
            BackendUnreachable: `sent` tells whether the job may exist.
            BackendBusy, KeyRefused: no job was made by this call.
        """
        ...

    def start(self, kind: Kind, job_id: JobId) -> None:
        """Let an SFT job begin. Starting it again changes nothing; a backend without the route starts by itself.

        Raises:
            BackendRefused, BackendBusy, UnexpectedReply, BackendUnreachable, KeyRefused: as for `create`.
        """
        ...

    def job(self, kind: Kind, job_id: JobId) -> JobState:
        """Read the state of a job.

        Raises:
            NotKnown: no such job (404, 410).
            BackendRefused, BackendBusy, UnexpectedReply, BackendUnreachable, KeyRefused: this read failed.
        """
        ...


class TaskAppVerifier(Protocol):
    """The backend's own look at a task app."""

    def verify_task_app(self, task_url: str) -> Verification:
        """Let the backend try every environment key it holds for us on the task app.

        A refusal by status (400 and above) comes back as a `Verification` that is not ok, not as an error.

        Raises:
            NotOffered: the backend does not verify task apps (404, 405).
            BackendBusy, UnexpectedReply, BackendUnreachable, KeyRefused: the question was not answered.
        """
        ...


class EnvKeyVault(Protocol):
    """Where a backend keeps the environment keys of an account (wire-contract §5)."""

    def holds_environment_key(self) -> bool:
        """Whether an ENVIRONMENT_API_KEY is stored.

        Raises:
            NotOffered: the backend has no vault (404, 405).
            BackendError, KeyRefused: it could not be asked.
        """
        ...

    def public_key(self) -> bytes:
        """The 32 bytes that a new key is sealed with.

        Raises:
            NotOffered: the backend has no vault.
            UnexpectedReply: no key, or one for another algorithm than `libsodium.sealedbox.v1`.
            BackendError, KeyRefused: it could not be asked.
        """
        ...

    def store_environment_key(self, sealed: bytes) -> None:
        """Store a sealed ENVIRONMENT_API_KEY, replacing the one before. Storing it again changes nothing.

        Raises:
            NotOffered: the backend has no vault.
            BackendError, KeyRefused: it was not stored.
        """
        ...


class EnvKeyBorrower(Protocol):
    """A backend on this machine, which calls the task app with the key that its user has."""

    def lend_environment_key(self, keys: TaskAppKeys, *, name: str, file: Path | None) -> None:
        """Let the RL jobs created from here on use these keys. A backend elsewhere has keys of its own and is told
        nothing: it leaves this method as it is.

        Args:
            name: the variable that the key came from.
            file: the env file that holds it; None when it is in the process environment, or was typed.
        """
        return


class Backend(BackendPort, TaskAppVerifier, EnvKeyVault, EnvKeyBorrower, JobFeed, JobAdmin, Protocol):
    """A backend, whole. What it may lack, it answers with `NotOffered`."""


class BackendsPort(Protocol):
    """Ways to backends. In memory: `adapters.in_memory.backend.InMemoryBackends`."""

    def connect(self, base: str, api_key: Secret | None) -> Backend:
        """A backend at `base` for the holder of `api_key`; no request is made yet."""
        ...
