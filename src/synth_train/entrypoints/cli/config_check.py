"""`synth-ai config check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.console.words import counted
from synth_train.domain.model.errors import TrainingError
from synth_train.domain.model.moments import Noted, ProblemFound
from synth_train.domain.model.plan import Plan
from synth_train.entrypoints.cli.report import described, described_problem
from synth_train.entrypoints.cli.train import kind_of, unknown_keys_of
from synth_train.entrypoints.exit_codes import ExitCode, exit_code_for

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Check each file, and tell everything that is wrong with it. The exit code is that of the first broken one."""
    args = session.args
    code, files = ExitCode.OK, []
    for name in args.files:
        try:
            plan = session.app.check_config(
                Path(name),
                kind=kind_of(args),
                model=args.model,
                task_url=args.task_url,
                dataset=args.dataset,
                allow_experimental=args.allow_experimental,
                any_model=args.any_model,
                overrides=tuple(args.set),
                unknown_keys=unknown_keys_of(args),
            )
        except TrainingError as error:
            session.report.error(error, config=name)
            code = code or exit_code_for(error)
            files.append({"config": name, "ok": False, "error": described(error)})
        else:
            files.append(_described(plan))
            if not session.as_json:
                _tell(session, plan)
    if session.as_json:
        session.document(code, files=files)
    return code


def _tell(session: Session, plan: Plan) -> None:
    for problem in plan.warnings:
        session.progress.tell(ProblemFound(problem=problem))
    for note in plan.notes:
        session.progress.tell(Noted(text=note))
    warned = f", {counted(len(plan.warnings), 'warning')}" if plan.warnings else ""
    session.screen.out(f"Config OK ({plan.config}, type={plan.kind.value}, model={plan.model}{warned})")


def _described(plan: Plan) -> dict[str, object]:
    return {
        "config": plan.config,
        "ok": True,
        "kind": plan.kind.value,
        "model": plan.model,
        "warnings": [described_problem(problem) for problem in plan.warnings],
    }
