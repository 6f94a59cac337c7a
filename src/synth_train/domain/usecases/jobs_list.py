"""List jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from synth_train.domain.model.hosting import JobFilter
from synth_train.domain.model.jobs import JobSummary
from synth_train.domain.usecases.jobs_reach import ReachBackend


class ListJobs(ReachBackend, frozen=True, kw_only=True):
    """Built once with its ports; asked for one list at a time."""

    def __call__(
        self,
        wanted: JobFilter,
        *,
        backend: str | None = None,
        env_files: Sequence[Path] = (),
        insecure_http: bool = False,
    ) -> tuple[JobSummary, ...]:
        """The newest jobs that `wanted` admits. The other arguments are those of `FindJob`.

        Raises:
            NotOffered: this backend does not list jobs.
            UsageError, CredentialsError, LocalStateError: there is no base, or no key.
            BackendError, KeyRefused: the backend could not be asked.
        """
        reached = self.reach(backend, env_files, insecure_http)
        return tuple(self.retrying(lambda: reached.list_jobs(wanted), what="list the jobs"))
