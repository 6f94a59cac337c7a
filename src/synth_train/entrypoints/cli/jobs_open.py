"""`synth-ai jobs open`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from synth_train.adapters.system_browser import show
from synth_train.entrypoints.cli.jobs_show import described_job, find
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Tell where the page of the job is, and open it where somebody sits who can look at it."""
    found = find(session)
    page = session.app.find_page(found)
    if session.as_json:
        session.document(ExitCode.OK, job=described_job(found.kind, found.state), page=page)
        return ExitCode.OK
    session.screen.out(page)
    if session.screen.pretty and not show(page, os.environ):
        session.screen.err("There is no browser here to open it in.")
    return ExitCode.OK
