"""Workers without processes, and a trainer that trains nothing."""

from __future__ import annotations

import threading
from collections.abc import Generator

from synth_train.domain.model.hosting import Happening, Step, Task, Tick, TrainingFailed, WorkerId
from synth_train.domain.usecases.hosting.work import Activity, Queue, Worker
from synth_train.ports.clock import ClockPort
from synth_train.ports.hosting import Executor, Trainer


class ScriptedTrainer(Trainer):
    """Trainer that takes time on the clock and nothing else. Arrange it before a job begins.

    A job runs for `lasts` seconds in `steps` even steps, whose `train.loss` (SFT) or `train.reward_mean` (RL) gets
    better; then it succeeds, or fails if `failure` says why.
    """

    def __init__(self, clock: ClockPort, *, lasts: float = 20.0, steps: int = 4, failure: str = "") -> None:
        self.lasts = lasts
        self.steps = steps
        self.failure = failure
        self._clock = clock

    def train(self, task: Task) -> Generator[Happening, None, None]:
        began, lasts, steps, failure = self._clock.monotonic(), self.lasts, self.steps, self.failure
        for step in range(1, steps + 1):
            while self._clock.monotonic() < began + lasts * step / steps:
                yield Tick()
            part = step / steps
            points = {"train.loss": 6.0 - 5.5 * part} if task.training else {"train.reward_mean": 0.4 + 0.5 * part}
            yield Step(step=step, total=steps, points=points)
        if failure:
            raise TrainingFailed(failure)


class InMemoryExecutor(Executor):
    """Executor whose one worker goes on whenever somebody wakes it, until its trainer has to wait.

    So jobs move with the clock and with being looked at, in no thread of their own. A job stays queued for `delay`
    seconds; arrange it at any time.
    """

    def __init__(self, queue: Queue, trainer: Trainer, *, delay: float = 10.0) -> None:
        self.delay = delay
        self._queue = queue
        self._trainer = trainer
        self._lock = threading.Lock()
        self._hired = 0
        self._worker = self._hire()

    def wake(self) -> None:
        with self._lock:
            while self._may_go_on() and self._worker.step() is Activity.BUSY:
                pass

    def kill(self, worker: WorkerId) -> None:
        with self._lock:
            if worker == self._worker.id:
                self._worker = self._hire()

    def _may_go_on(self) -> bool:
        if self._worker.has_a_job:
            return True
        with self._queue.store.transaction() as rows:
            waiting = rows.waiting_jobs()
        return not waiting or self._queue.clock.now() - waiting[0].updated_at >= self.delay

    def _hire(self) -> Worker:
        self._hired += 1
        return Worker(id=WorkerId(f"worker_{self._hired}"), queue=self._queue, trainer=self._trainer)
