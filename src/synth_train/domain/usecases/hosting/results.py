"""What jobs have made, for their owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from synth_train.domain.model.hosting import JobStatus, Owner, Refusal, ResultFile
from synth_train.domain.model.jobs import JobId
from synth_train.domain.usecases.hosting.jobs import known_job
from synth_train.ports.hosting import JobStore, ResultStore


@dataclass(frozen=True, kw_only=True)
class Results:
    """The models of all owners."""

    store: JobStore
    made: ResultStore

    def listed(self, owner: Owner, job_id: JobId) -> list[ResultFile]:
        """The files of the model that a job has made, by name, each with its hash.

        Raises:
            Refusal: 404 without such a job, 409 when it has not succeeded, 410 when its files are gone.
        """
        with self.store.transaction() as rows:
            job = known_job(rows, owner, job_id)
        if job.status is not JobStatus.SUCCEEDED:
            raise Refusal(409, "no_result", f"job {job_id} is {job.status.value}: there is no model to fetch")
        files = self.made.files(job_id)
        if not files:
            raise Refusal(410, "result_gone", f"the model of job {job_id} is not there any more")
        return files

    def open(self, owner: Owner, job_id: JobId, name: str) -> BinaryIO:
        """The bytes of one of these files.

        Raises:
            Refusal: as for `listed`; 404 when the job has made no such file.
        """
        if name not in [file.name for file in self.listed(owner, job_id)]:
            raise Refusal(404, "unknown_result", f"job {job_id} has made no file {name}")
        return self.made.open(job_id, name)
