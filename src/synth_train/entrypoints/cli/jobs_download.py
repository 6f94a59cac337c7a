"""`synth-ai jobs download`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.console.words import counted, size
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Fetch the model."""
    found = find(session)
    folder = Path(session.args.out or found.state.job_id)
    files = session.app.download_model(found, folder, replace=session.args.force)
    if session.as_json:
        session.document(
            ExitCode.OK,
            job=described_job(found.kind, found.state),
            folder=str(folder.absolute()),
            files=[{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in files],
        )
        return ExitCode.OK
    total = sum(file.size for file in files)
    session.screen.out(f"Model of job {found.state.job_id}: {folder} ({counted(len(files), 'file')}, {size(total)})")
    return ExitCode.OK
