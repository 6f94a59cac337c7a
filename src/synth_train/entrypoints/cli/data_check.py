"""`synth-ai data check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth_train.domain.model.dataset import DatasetReport
from synth_train.domain.model.errors import TrainingError
from synth_train.entrypoints.cli.report import described, described_problem
from synth_train.entrypoints.exit_codes import ExitCode, exit_code_for

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Check each file, and tell everything that is wrong with it. The exit code is that of the first broken one."""
    code, files = ExitCode.OK, []
    for name in session.args.files:
        try:
            report = session.app.check_dataset(name, examples=session.args.examples)
        except TrainingError as error:
            session.report.error(error)
            code = code or exit_code_for(error)
            files.append({"file": name, "ok": False, "error": described(error)})
        else:
            files.append(_described(name, report))
    if session.as_json:
        session.document(code, files=files)
    return code


def _described(name: str, report: DatasetReport) -> dict[str, object]:
    return {
        "file": name,
        "ok": True,
        "rows": report.rows,
        "turns": report.turns,
        "roles": report.roles,
        "longest_row": {"bytes": report.longest_row, "line": report.longest_line},
        "warnings": [described_problem(problem) for problem in report.problems],
        "warning_count": report.warnings,
        "by_reason": report.by_reason,
    }
