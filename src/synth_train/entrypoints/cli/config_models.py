"""`synth-ai config models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth_train.adapters.console.tables import table
from synth_train.domain.model.catalog import MODELS, Model
from synth_train.domain.model.jobs import Kind
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_HEADINGS = ("MODEL", "KINDS", "EXPERIMENTAL")


def run(session: Session) -> int:
    """Print the models of the catalogue, or those that one kind of job can train."""
    kinds = [Kind(session.args.kind)] if session.args.kind else list(Kind)
    models = [model for model in MODELS if any(model.trains(kind) for kind in kinds)]
    if session.as_json:
        session.document(ExitCode.OK, models=[_described(model) for model in models])
        return ExitCode.OK
    for line in table([_HEADINGS, *map(_cells, models)]):
        session.screen.out(line)
    return ExitCode.OK


def _kinds(model: Model) -> list[str]:
    return [kind.value for kind in Kind if model.trains(kind)]


def _cells(model: Model) -> tuple[str, ...]:
    return (model.id, ", ".join(_kinds(model)), "--allow-experimental" if model.experimental else "")


def _described(model: Model) -> dict[str, object]:
    return {
        "id": model.id,
        "kinds": _kinds(model),
        "experimental": model.experimental,
        "thinking": model.thinking,
    }
