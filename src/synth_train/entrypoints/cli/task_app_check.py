"""`synth-ai task-app check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth_train.adapters.console.words import counted
from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.domain.model.errors import InvalidConfig
from synth_train.domain.usecases.inspect_task_app import Inspection
from synth_train.entrypoints.cli.findings import described_finding, tell_finding
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Check the app, and tell each rule as soon as it is known. Exit code 5 when one is broken."""
    args = session.args

    def tell(finding: Finding) -> None:
        if not session.as_json:
            tell_finding(session, finding)

    section = _section(session, args.config) if args.config else {}
    inspection = session.app.inspect_task_app(
        args.url, env_files=tuple(map(Path, args.env_file)), section=section, rollout_time=args.timeout, tell=tell
    )
    code = ExitCode.OK if inspection.ok else ExitCode.TASK_APP
    if session.as_json:
        findings = [described_finding(finding) for finding in inspection.findings]
        session.document(code, task_app=args.url, rollout_seconds=inspection.seconds, findings=findings)
    else:
        session.screen.out(_summary(inspection))
    return code


def _section(session: Session, name: str) -> Mapping[str, Any]:
    """The `[rollout]` of a config."""
    section = session.app.train.configs.read(Path(name)).table.get("rollout", {})
    if not isinstance(section, dict):
        raise InvalidConfig(f"{name}: rollout is no table")
    return section


def _summary(inspection: Inspection) -> str:
    counts = Counter(finding.outcome for finding in inspection.findings)
    words = [
        f"{counts[Outcome.OK]} ok",
        f"{counts[Outcome.FAILED]} failed",
        counted(counts[Outcome.WARNING], "warning"),
    ]
    words += [f"{counts[Outcome.SKIPPED]} skipped"] if counts[Outcome.SKIPPED] else []
    took = "" if inspection.seconds is None else f"; the first rollout took {inspection.seconds:.2f} s"
    return f"Task app: {', '.join(words)}{took}"
