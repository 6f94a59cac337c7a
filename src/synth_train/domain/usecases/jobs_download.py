"""Fetch the model that a job has made."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from synth_train.domain.model.errors import BackendBusy, BackendRefused, BackendUnreachable, UnexpectedReply
from synth_train.domain.model.hosting import ResultFile
from synth_train.domain.model.moments import Noted
from synth_train.domain.usecases.find_job import FoundJob
from synth_train.domain.usecases.patient import Patient
from synth_train.ports.destination import DestinationPort, Part

_CHUNK = 1 << 20


class DownloadModel(Patient, frozen=True, kw_only=True):
    """Built once with its ports; fetches one model at a time."""

    def __call__(
        self, found: FoundJob, destination: DestinationPort, *, replace: bool = False
    ) -> tuple[ResultFile, ...]:
        """Put the files of a job's model into `destination`, all of them or none. Tells which.

        Each is held against the size and the hash that the backend names. What has come of a file before a connection
        was lost, or a run ended, is not fetched again; and nothing is, when all is in place.

        Args:
            replace: whether they may take the place of other files.

        Raises:
            BackendRefused: the job has made no model.
            NotOffered: this backend gives out no models.
            LocalStateError: they cannot be written, or something is there already.
            UnexpectedReply: a name leads out of the destination, or a file is not what the backend says it is.
            BackendError, KeyRefused: the backend could not be asked.
        """
        backend, kind, job_id = found.backend, found.kind, found.state.job_id
        files = self.retrying(lambda: backend.results(kind, job_id), what="list the files of the model")
        if not files:
            raise BackendRefused(
                f"job {job_id} has no files: the backend lists none", hint="A job has them once it has succeeded."
            )
        for file in files:
            if not _stays_inside(file.name):
                raise UnexpectedReply(f"the backend names a file {file.name!r}, which is no name inside a folder")
        if all(map(destination.has, files)):
            return tuple(files)
        destination.open_to(replace=replace)
        for file in files:
            with closing(destination.part(file)) as part:
                try:
                    self._fetch(found, file, part)
                except (BackendBusy, BackendUnreachable):
                    self.progress.tell(Noted(text="what has come so far is kept: the same command goes on from there"))
                    raise
        unhashed = sum(file.sha256 is None for file in files)
        if unhashed:
            text = f"the backend gives no hash of {unhashed} of {len(files)} files, so only their size is known to fit"
            self.progress.tell(Noted(text=text, warning=True))
        destination.settle(files)
        return tuple(files)

    def _fetch(self, found: FoundJob, file: ResultFile, part: Part) -> None:
        """Make a part the whole file."""
        if part.size > file.size:
            part.drop()
        from_before = part.size > 0
        self._go_on(found, file, part)
        if from_before and not _fits(file, part):
            part.drop()  # the model may have become another one since
            self._go_on(found, file, part)
        if _fits(file, part):
            return
        came, what = part.size, f"{file.name} is not what the backend says it is"
        part.drop()
        if came != file.size:
            raise UnexpectedReply(f"{what}: {came} bytes came in place of {file.size}", hint=_AGAIN)
        raise UnexpectedReply(f"{what}: its SHA-256 is not {file.sha256}", hint=_AGAIN)

    def _go_on(self, found: FoundJob, file: ResultFile, part: Part) -> None:
        """Fetch what is missing, in as many goes as it takes; each must bring something."""
        backend, kind, job_id = found.backend, found.kind, found.state.job_id
        while part.size < file.size:
            before = part.size
            stream = self.retrying(
                partial(backend.open_result, kind, job_id, file.name, start=before), what=f"fetch {file.name}"
            )
            try:
                with closing(stream):
                    while part.size <= file.size and (chunk := stream.read(_CHUNK)):
                        part.write(chunk)
            except BackendUnreachable:
                if part.size == before:
                    raise
            if part.size == before:
                return


_AGAIN = "Nothing of it was kept. Run the same command again. If that does not help, the backend's copy is damaged."


def _fits(file: ResultFile, part: Part) -> bool:
    return part.size == file.size and file.sha256 in (None, part.sha256)


def _stays_inside(name: str) -> bool:
    """Whether a name, on any system, means something below the folder that it is put into."""
    parts = name.split("/")
    return all(
        part not in ("", ".", "..") and part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts
    )
