"""Everything outside the process at once, for programs that test what they do with us."""

from __future__ import annotations

from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryBackends, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.in_memory.sealer import ReadableSealer
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import API_KEY, ENVIRONMENT_KEY

_KEY = Secret("sk-rehearsal-qvzjxkwy")


class Rehearsal:
    """A backend, a task app, keys and time, all in memory. Give it to `submit` and `watch` as `backend`.

    The backend refuses and reports by the code that serves real users; jobs take no time and end as
    `backend.world.trainer` is told. Arrange and inspect `backend` and `task_app`; `env` holds the keys.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.task_app = InMemoryTaskApp()
        self.backend = InMemoryBackend(api_key=_KEY, world=InMemoryHosting(clock=self.clock, task_app=self.task_app))
        self.backends = InMemoryBackends(self.backend)
        self.env = InMemoryEnv({API_KEY: _KEY.reveal(), ENVIRONMENT_KEY: "environment-rehearsal-wkxq"})
        self.journal = InMemoryJournal()
        self.sealer = ReadableSealer()
        self.entropy = CountingEntropy()
