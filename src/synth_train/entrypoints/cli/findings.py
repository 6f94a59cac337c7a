"""How the findings of a check are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synth_train.domain.model.checkup import Finding, Outcome

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session

_WIDTH = max(map(len, Outcome))


def tell_finding(session: Session, finding: Finding) -> None:
    """A line for a person, with the remedy below it."""
    what = f": {finding.what}" if finding.what else ""
    session.screen.out(f"{finding.outcome.value:<{_WIDTH}}  {finding.rule}{what}")
    if finding.remedy:
        session.screen.out(f"{'':<{_WIDTH}}  {finding.remedy}")


def described_finding(finding: Finding) -> dict[str, object]:
    """A finding as the value that stands in JSON documents."""
    return {
        "rule": finding.rule,
        "outcome": finding.outcome.value,
        "what": finding.what or None,
        "remedy": finding.remedy or None,
    }
