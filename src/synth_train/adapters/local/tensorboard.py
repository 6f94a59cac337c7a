"""Points as TensorBoard reads them: event files in the job's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from synth_train.adapters.local.home import JobFolder


class TensorBoard:
    """Event files in `tensorboard/` of a job's folder. A context manager: its end writes the rest."""

    def __init__(self, folder: JobFolder, *, after: int = 0) -> None:
        """
        Args:
            after: the step that a run goes on from; later ones, of a worker that died, no longer count.
        """
        self._writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=after + 1 if after else None)  # type: ignore[no-untyped-call]

    def add(self, step: int, points: Mapping[str, float]) -> None:
        """Write the points of a step."""
        for name, value in points.items():
            self._writer.add_scalar(name.replace(".", "/", 1), value, step)  # type: ignore[no-untyped-call]

    def add_histogram(self, step: int, name: str, values: Sequence[float]) -> None:
        """Write how values are spread at a step."""
        self._writer.add_histogram(name.replace(".", "/", 1), np.array(values), step)  # type: ignore[no-untyped-call]

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()  # type: ignore[no-untyped-call]
