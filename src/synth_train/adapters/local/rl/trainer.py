"""`Trainer` for RL jobs. Importing it is quick; torch and its family come with the first job, in the thread that
trains, so that a worker shows from the first second that it is alive."""

from __future__ import annotations

from collections.abc import Generator

from synth_train.adapters.local.background import Say, Stop, telling
from synth_train.adapters.local.trainers import Bench
from synth_train.domain.model.hosting import Happening, Task
from synth_train.ports.hosting import Trainer


class RlTrainer(Trainer):
    """Trains with GSPO on the rewards of a task app: the whole model, or an adapter."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def train(self, task: Task) -> Generator[Happening, None, None]:
        def work(say: Say, stop: Stop) -> None:
            from synth_train.adapters.local.models import shelf_of
            from synth_train.adapters.local.rl.training import Training

            Training(task, self._bench, shelf_of(self._bench.home), say, stop).run()

        yield from telling(work)
