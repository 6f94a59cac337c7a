"""`synth-ai doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.entrypoints.cli.findings import described_finding, tell_finding
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_CODES = {"task-app": ExitCode.TASK_APP, "backend": ExitCode.UNREACHABLE, "home": ExitCode.USAGE}
"""What a failed point means for a job; a key that is none, or that is refused, is the rest."""


def run(session: Session) -> int:
    """Look, and tell. The exit code is that of the first point that failed."""
    args = session.args
    findings: list[Finding] = []
    for finding in session.app.doctor(
        backend=args.backend,
        env_files=tuple(map(Path, args.env_file)),
        task_url=args.task_url,
        insecure_http=args.insecure_http,
        devices=args.devices,
    ):
        findings.append(finding)
        if not session.as_json:
            tell_finding(session, finding)
    failed = next((finding.rule for finding in findings if finding.outcome is Outcome.FAILED), None)
    code = ExitCode.OK if failed is None else _CODES.get(failed, ExitCode.CREDENTIALS)
    if session.as_json:
        session.document(code, findings=[described_finding(finding) for finding in findings])
    return code
