"""Find a job that exists already, with nothing but what it is called and what the variables say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.commands import on_jobs
from synth_train.domain.model.errors import NotKnown, NotOffered, UsageError
from synth_train.domain.model.hosting import JobFilter
from synth_train.domain.model.jobs import JobId, JobState, JobSummary, Kind
from synth_train.domain.model.submission import Submission
from synth_train.domain.usecases.jobs_reach import ReachBackend
from synth_train.ports.backend import Backend
from synth_train.ports.journal import JournalPort

LAST = "@last"
"""Stands for the job that was created last."""

PAGE = 100
PAGES = 20
"""So many jobs, newest first, are looked through for one whose id begins so."""


class FoundJob(Struct, frozen=True, kw_only=True):
    """A job, and where it lives."""

    backend: Backend
    kind: Kind
    """As the backend says; where it does not, that of the route that knows the job."""
    state: JobState


class FindJob(ReachBackend, frozen=True, kw_only=True):
    """Built once with its ports; asked for one job at a time."""

    journal: JournalPort | None = None
    """Knows the backends of jobs that were submitted from this machine; None: only the options and variables do."""

    def __call__(
        self,
        job_id: JobId,
        *,
        kind: Kind | None = None,
        backend: str | None = None,
        env_files: Sequence[Path] = (),
        insecure_http: bool = False,
    ) -> FoundJob:
        """The job as it is now.

        Args:
            job_id: its id; or the beginning of it, with or without `job_`, if no other job's begins so; or `@last`.
                The latter two are looked up in the journal, else need a backend that lists jobs.
            kind: None asks the route of SFT jobs and then that of RL jobs.
            backend: base URL; None takes the one that the job went to from this machine, else that of the variables.
            env_files: where the key is looked for besides the process environment.

        Raises:
            NotKnown: the backend has no such job.
            UsageError: the id is cut so short that it fits several jobs, or the backend does not list any.
            UsageError, CredentialsError, LocalStateError: there is no base, or no key.
            BackendError, KeyRefused: the backend could not be asked.
        """
        return self.several((job_id,), kind=kind, backend=backend, env_files=env_files, insecure_http=insecure_http)[0]

    def several(
        self,
        job_ids: Sequence[JobId],
        *,
        kind: Kind | None = None,
        backend: str | None = None,
        env_files: Sequence[Path] = (),
        insecure_http: bool = False,
    ) -> tuple[FoundJob, ...]:
        """Jobs of one backend, each once, in the order of their names. Arguments and errors are those for one job."""
        names = list(job_ids)
        if backend is None:
            remembered = [self._remembered(kind, name) for name in names]
            bases = {entry.backend for entry in remembered if entry is not None}
            if len(bases) > 1:
                raise UsageError(
                    f"these jobs went to several backends: {', '.join(sorted(bases))}",
                    hint="Ask for those of one backend at a time, or name it with --backend.",
                )
            backend = next(iter(bases), None)
            names = [
                name if entry is None or entry.job_id is None else entry.job_id
                for name, entry in zip(names, remembered, strict=True)
            ]
        reached = self.reach(backend, env_files, insecure_http)
        found = [self._named(reached, kind, name) for name in names]
        return tuple({one.state.job_id: one for one in found}.values())

    def _remembered(self, kind: Kind | None, name: str) -> Submission | None:
        """The submission from this machine whose job is called so; None when there is none, or several are."""
        if self.journal is None:
            return None
        entries = [entry for entry in self.journal.with_jobs() if kind in (None, entry.kind)]
        if name == LAST:
            return next(iter(entries), None)
        fitting = {entry.job_id: entry for entry in reversed(entries) if (entry.job_id or "").startswith(_begins(name))}
        return fitting.get(JobId(name)) or (next(iter(fitting.values())) if len(fitting) == 1 else None)

    def _named(self, reached: Backend, kind: Kind | None, job_id: JobId) -> FoundJob:
        if job_id == LAST:
            return self._last(reached, kind)
        try:
            return self._read(reached, kind, job_id)
        except NotKnown as error:
            found = self._beginning_so(reached, kind, job_id)
            if found is None:
                listing = on_jobs("list", base=reached.base)
                hint = f"`{listing}` shows what there is. A job of another backend is found with --backend URL."
                raise NotKnown(str(error), status=error.status, hint=hint) from error
            return self._read(reached, kind, found)

    def _read(self, backend: Backend, kind: Kind | None, job_id: JobId) -> FoundJob:
        if kind is not None:
            return self._read_as(backend, kind, job_id)
        try:
            return self._read_as(backend, Kind.SFT, job_id)
        except NotKnown:
            return self._read_as(backend, Kind.RL, job_id)

    def _read_as(self, backend: Backend, kind: Kind, job_id: JobId) -> FoundJob:
        state = self.retrying(lambda: backend.job(kind, job_id), what="read the job")
        # The route of SFT jobs may know RL jobs, too (wire-contract §4.1).
        return FoundJob(backend=backend, kind=state.kind or kind, state=state)

    def _last(self, backend: Backend, kind: Kind | None) -> FoundJob:
        try:
            rows = self._listed(backend, JobFilter(kind=kind, limit=1))
        except NotOffered as error:
            raise UsageError(f"{LAST} is not to be had: {error}", hint="Give the id of the job.") from error
        if not rows:
            raise NotKnown(f"{backend.base} has no jobs")
        return self._read(backend, kind, rows[0].job_id)

    def _beginning_so(self, backend: Backend, kind: Kind | None, text: str) -> JobId | None:
        """The only job whose id begins so; None when there is none, or no list to look it up in."""
        found: list[JobSummary] = []
        after: JobId | None = None
        try:
            for _ in range(PAGES):
                rows = self._listed(backend, JobFilter(kind=kind, limit=PAGE, after=after))
                found += [row for row in rows if row.job_id.startswith(_begins(text))]
                if len(rows) < PAGE:
                    break
                after = rows[-1].job_id
        except NotOffered:
            return None
        if len(found) > 1:
            ids = ", ".join(row.job_id for row in found[:5])
            raise UsageError(f"several jobs begin with {text}: {ids}", hint="Give more of the id.")
        return found[0].job_id if found else None

    def _listed(self, backend: Backend, wanted: JobFilter) -> Sequence[JobSummary]:
        return self.retrying(lambda: backend.list_jobs(wanted), what="list the jobs")


def _begins(name: str) -> tuple[str, str]:
    """How the id of a job may begin that is called so."""
    return name, f"job_{name}"
