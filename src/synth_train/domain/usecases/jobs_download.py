"""Fetch the model that a job has made."""

from __future__ import annotations

from functools import partial

from synth_train.domain.model.errors import UnexpectedReply
from synth_train.domain.model.hosting import ResultFile
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient
from synth_train.ports.destination import DestinationPort


class DownloadModel(Patient, frozen=True, kw_only=True):
    """Built once with its ports; fetches one model at a time."""

    def __call__(self, found: FoundJob, destination: DestinationPort) -> tuple[ResultFile, ...]:
        """Put the files of a job's model into `destination`, all of them or none. Tells which.

        Raises:
            BackendRefused: the job has made no model.
            NotOffered: this backend gives out no models.
            LocalStateError: they cannot be written.
            UnexpectedReply: a name leads out of the destination.
            BackendError, KeyRefused: the backend could not be asked.
        """
        backend, kind, job_id = found.backend, found.kind, found.state.job_id
        files = self.retrying(lambda: backend.results(kind, job_id), what="list the files of the model")
        for file in files:
            if not _stays_inside(file.name):
                raise UnexpectedReply(f"the backend names a file {file.name!r}, which is no name inside a folder")
        destination.receive((file, partial(backend.open_result, kind, job_id, file.name)) for file in files)
        return tuple(files)


def _stays_inside(name: str) -> bool:
    """Whether a name, on any system, means something below the folder that it is put into."""
    parts = name.split("/")
    return all(
        part not in ("", ".", "..") and part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts
    )
