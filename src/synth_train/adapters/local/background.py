"""Work in a thread, told as a generator: what `Trainer.train` promises, for work that takes its own time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator

from synth_train.domain.model.hosting import Happening, Tick

TICK = 2.0
"""Seconds of silence after which a `Tick` comes."""

PATIENCE = 5.0
"""Seconds in which work that was asked to stop should have ended. After them it is left to itself."""

Say = Callable[[Happening], None]
"""Called with what happens, from any thread."""


class Stopped(BaseException):
    """Raised inside work to leave it, once it was asked to stop. Nobody but `telling` sees it."""


class Stop:
    """The request to stop, as work sees it."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self) -> None:
        """Request it."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether it was requested."""
        return self._asked.is_set()

    def check(self) -> None:
        """Go on, or raise `Stopped`. To be called at least every few seconds."""
        if self.asked:
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Let time pass, or raise `Stopped` as soon as it is requested."""
        if self._asked.wait(seconds):
            raise Stopped


def telling(work: Callable[[Say, Stop], None], *, tick: float = TICK) -> Generator[Happening, None, None]:
    """What `work` says, as it says it, with a `Tick` whenever it is silent for `tick` seconds.

    The generator ends when the work does, and raises what it raises. Closing it asks the work to stop and waits until
    it has, for `PATIENCE` seconds at most.
    """
    said: queue.SimpleQueue[Happening | None] = queue.SimpleQueue()
    stop = Stop()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work(said.put, stop)
        except BaseException as error:  # noqa: BLE001 - it is raised again on the other side
            raised.append(error)
        said.put(None)

    thread = threading.Thread(target=run, name="synth-train training", daemon=True)
    thread.start()
    try:
        while True:
            try:
                happening = said.get(timeout=tick)
            except queue.Empty:
                yield Tick()
                continue
            if happening is None:
                break
            yield happening
    finally:
        stop.ask()
        thread.join(PATIENCE)
    if raised:
        raise raised[0]
