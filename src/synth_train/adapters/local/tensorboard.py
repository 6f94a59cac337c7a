"""Points as TensorBoard reads them: event files in the job's folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType

from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from synth_train.adapters.local.home import JobFolder, private_folder


class TensorBoard:
    """An event file in `tensorboard/` of a job's folder, open while entered.

    Written in the thread that adds: the writer of torch has one of its own, which a removed folder or a full disk
    kills. The database is what counts, so a point that cannot be written is left out.
    """

    def __init__(self, folder: JobFolder, *, after: int = 0) -> None:
        """
        Args:
            after: the step that a run goes on from; later ones, of a worker that died, no longer count.
        """
        place = folder.path / "tensorboard"
        private_folder(place)
        self._file = (place / f"events.out.tfevents.{time.time_ns()}").open("wb")
        self._records = RecordWriter(self._file)
        self._write(Event(file_version="brain.Event:2"))
        if after:
            self._write(Event(step=after + 1, session_log=SessionLog(status=SessionLog.START)))

    def add(self, step: int, points: Mapping[str, float]) -> None:
        """Write the points of a step. `train.loss` is shown as `train/loss`, in a group with its like."""
        values = [Summary.Value(tag=_tag(name), simple_value=value) for name, value in points.items()]
        self._write(Event(step=step, summary=Summary(value=values)))

    def add_histogram(self, step: int, name: str, counts: Sequence[float], edges: Sequence[float]) -> None:
        """Write how values are spread at a step: how many there are between each edge and the next."""
        spread = HistogramProto(
            min=edges[0], max=edges[-1], num=sum(counts), bucket_limit=edges[1:], bucket=list(counts)
        )
        self._write(Event(step=step, summary=Summary(value=[Summary.Value(tag=_tag(name), histo=spread)])))

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        with suppress(OSError):
            self._records.write(event.SerializeToString())
            self._file.flush()


def _tag(name: str) -> str:
    """`train.loss` is shown as `train/loss`, in a group with its like."""
    return name.replace(".", "/", 1)
