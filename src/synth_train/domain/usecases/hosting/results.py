"""What jobs have made, for their owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from synth_train.domain.model.hosting import Job, JobStatus, Owner, Refusal, ResultFile, maker_of
from synth_train.domain.model.jobs import JobId
from synth_train.domain.usecases.hosting.jobs import known_job
from synth_train.ports.clock import ClockPort
from synth_train.ports.hosting import JobStore, ResultStore, Rows


@dataclass(frozen=True, kw_only=True)
class Results:
    """The models of all owners."""

    store: JobStore
    made: ResultStore
    clock: ClockPort

    def listed(self, owner: Owner, job_id: JobId) -> list[ResultFile]:
        """The files of the model that a job has made, by name, each with its hash.

        Raises:
            Refusal: 404 without such a job, 409 when it has not succeeded, 410 when its files are gone or were removed.
        """
        with self.store.transaction() as rows:
            job = known_job(rows, owner, job_id)
        if job.model_removed_at is not None:
            raise Refusal(410, "result_removed", f"the model of job {job_id} was deleted")
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

    def maker(self, owner: Owner, model: str) -> Job:
        """The job that made a model of this owner.

        Raises:
            Refusal: 404 when there is no such model, or not any more.
        """
        with self.store.transaction() as rows:
            return _maker(rows, owner, model)

    def remove(self, owner: Owner, model: str) -> Job:
        """Forget a model and its files; the job that made it stays, and tells that it has none any more.

        Raises:
            Refusal: as for `maker`; 409 when a job that has not ended begins with it.
        """
        with self.store.transaction() as rows:
            job = _maker(rows, owner, model)
            user = next((other for other in rows.unfinished_jobs(owner) if other.order.model == model), None)
            if user is not None:
                raise Refusal(
                    409,
                    "model_in_use",
                    f"model {model} is needed by job {user.id}, which has not ended; cancel that job, or wait for it",
                )
            rows.save_job(job.without_model(self.clock.now()))
        self.made.remove(job.id)
        return job


def _maker(rows: Rows, owner: Owner, model: str) -> Job:
    job_id = maker_of(model)
    job = None if job_id is None else rows.job(job_id)
    if job is None or job.owner != owner or job.model != model:
        raise Refusal(404, "unknown_model", f"there is no model {model}")
    return job
