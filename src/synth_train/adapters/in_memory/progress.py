"""A progress that remembers."""

from __future__ import annotations

from typing import TypeVar

from synth_train.domain.model.moments import Moment
from synth_train.ports.progress import ProgressPort

M = TypeVar("M", bound=Moment)


class RecordedProgress(ProgressPort):
    """ProgressPort that keeps every moment, in order, in `moments`."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def tell(self, moment: Moment) -> None:
        self.moments.append(moment)

    def of(self, kind: type[M]) -> list[M]:
        """The moments of one kind."""
        return [moment for moment in self.moments if isinstance(moment, kind)]
