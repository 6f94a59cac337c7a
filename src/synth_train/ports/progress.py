"""Being told what happens. In memory: `adapters.in_memory.progress.RecordedProgress`."""

from __future__ import annotations

from synth_train.domain.model.moments import Moment


class ProgressPort:
    """Told what is happening. Answers nothing and decides nothing; this class, which does nothing, is a full adapter.

    `tell` may be called from any thread. What it raises ends the run, so that an adapter that cannot show a job's id
    (a closed pipe) is not mistaken for one that did.
    """

    def tell(self, moment: Moment) -> None:
        """Called once for each moment, when it happens."""
