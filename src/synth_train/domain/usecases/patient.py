"""What use cases have in common that ask a backend questions which may be asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from synth_train.domain.model.errors import NotOffered
from synth_train.domain.usecases.retries import retried
from synth_train.ports.patience import PatiencePort
from synth_train.ports.progress import ProgressPort

T = TypeVar("T")


class Patient(Struct, frozen=True, kw_only=True):
    """Has patience, and says when it needs it."""

    patience: PatiencePort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def retrying(self, call: Callable[[], T], *, what: str) -> T:
        """Make a call that changes nothing when it is repeated, again while that may help (design §4, Retries).

        Args:
            what: the call in words: `list the jobs`.

        Raises:
            NotOffered: the backend has no route for it, said in these words.
        """
        try:
            return retried(call, what=what, patience=self.patience, progress=self.progress)
        except NotOffered as error:
            raise NotOffered(
                f"cannot {what}, because the backend has no route for that: {error}",
                hint="What else it offers works all the same.",
                status=error.status,
            ) from error
