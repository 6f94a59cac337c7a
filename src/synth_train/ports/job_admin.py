"""What can be done with jobs that exist. In memory: `adapters.in_memory.backend.InMemoryBackend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from synth_train.domain.model.errors import NotOffered
from synth_train.domain.model.hosting import JobFilter, ResultFile
from synth_train.domain.model.jobs import JobId, JobState, JobSummary, Kind
from synth_train.ports.streams import Readable


class JobAdmin(Protocol):
    """List jobs, cancel one, read its request, fetch what it has made. What a backend lacks is left as it is here.

    One request each, as with `BackendPort`.

    Raises everywhere:
        NotOffered: this backend cannot do that.
        NotKnown: no such job, or no such file.
        BackendError, KeyRefused: it was not done, or could not be asked.
    """

    def list_jobs(self, wanted: JobFilter) -> Sequence[JobSummary]:
        """The jobs of the key's holder that `wanted` admits, the newest first, `wanted.limit` at most."""
        raise NotOffered("this backend does not list jobs", status=404)

    def cancel(self, kind: Kind, job_id: JobId) -> JobState:
        """Ask a job to end, and tell how it stands then: one that runs ends soon after. One that is over stays so."""
        raise NotOffered("this backend cannot cancel a job", status=404)

    def request_of(self, kind: Kind, job_id: JobId) -> bytes:
        """The request that a job was created with, fit to create another one like it."""
        raise NotOffered("this backend does not tell what a job was asked with", status=404)

    def results(self, kind: Kind, job_id: JobId) -> Sequence[ResultFile]:
        """The files of the model that a job has made, by name.

        Raises:
            BackendRefused: the job has made none (yet).
        """
        raise NotOffered("this backend does not give out models", status=404)

    def page(self, job_id: JobId) -> str | None:
        """Where a person can look at a job in a browser; None: nowhere. The job itself is not asked for."""
        return None

    def open_result(self, kind: Kind, job_id: JobId, name: str, *, start: int = 0) -> Readable:
        """The bytes of one of these files, from byte `start` on, which must be one of them. The caller closes it."""
        raise NotOffered("this backend does not give out models", status=404)
