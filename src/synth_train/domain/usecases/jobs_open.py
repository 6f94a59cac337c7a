"""Find where a job can be looked at in a browser."""

from __future__ import annotations

from synth_train.domain.model.backend_base import is_embedded
from synth_train.domain.model.commands import on_jobs, watching
from synth_train.domain.model.errors import NotOffered
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient


class FindPage(Patient, frozen=True, kw_only=True):
    """Built once with its ports; finds one page at a time."""

    def __call__(self, found: FoundJob) -> str:
        """The address of the page of a job.

        Raises:
            NotOffered: this backend shows nothing to browsers.
            BackendError, KeyRefused: the backend could not be asked.
        """
        backend, job_id = found.backend, found.state.job_id
        page = self.retrying(lambda: backend.page(job_id), what="find the page of the job")
        if page is not None:
            return page
        if is_embedded(backend.base):
            raise NotOffered(
                "the jobs of this machine have a page only while they are served",
                hint=f"Start `synth-ai serve`, then run: {on_jobs('open', job_id, base='http://127.0.0.1:8000')}",
            )
        raise NotOffered(
            f"the backend {backend.base} has no page for its jobs",
            hint=f"Look at the job here with: {watching(job_id, base=backend.base, kind=found.kind)}",
        )
