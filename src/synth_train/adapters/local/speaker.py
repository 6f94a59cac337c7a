"""Models that answer, each in a process of its own, one at a time: the one who asks never imports torch."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager

import msgspec
from msgspec import Raw

from synth_train.adapters.local.home import LocalHome, keeping
from synth_train.adapters.local.speaking import LONGEST_ANSWER, Question, Said
from synth_train.domain.model.hosting import Refusal
from synth_train.ports.speaker import Speaker

SPEAKER = (sys.executable, "-m", "synth_train.adapters.local.speaking")

AT_ONCE = 8
"""Requests that wait for answers at the same time. Each holds a thread as long as it lasts."""

IDLE = 300.0
"""Seconds without a request after which the model is let go of."""

LOADING = 25.0
"""Seconds that a request waits for its model, which goes on being loaded after them. Clients that wait half a minute
for a reply, as the public one does, hear of it."""

ANSWERING = 2 * LONGEST_ANSWER + 60.0
"""Seconds after which the process is given up: the batch before, one's own, and the reading of the prompts."""

_DYING = 5.0
_LONGEST_LOG = 1 << 20


class ChildSpeaker(Speaker):
    """Speaker that starts a process for the model that is asked, and ends it when nobody has asked for a while, when
    another model is asked, or with the process that this one lives in.

    Args:
        environ: what the process inherits.
        program: what to run; tests give another that loads nothing.
        obstacle: why no model could be loaded here, with what to do about it; empty when one could.
    """

    def __init__(
        self,
        home: LocalHome,
        environ: Mapping[str, str],
        *,
        program: Sequence[str] = SPEAKER,
        obstacle: str = "",
        at_once: int = AT_ONCE,
        idle: float = IDLE,
        loading: float = LOADING,
        answering: float = ANSWERING,
    ) -> None:
        self._home, self._environ, self._program, self._obstacle = home, dict(environ), program, obstacle
        self._at_once, self._idle, self._loading, self._answering = at_once, idle, loading, answering
        self._lock = threading.Lock()
        self._asking = 0
        self._child: _Child | None = None
        self._rest: threading.Timer | None = None

    def complete(self, model: str, request: bytes) -> bytes:
        if self._obstacle:
            raise Refusal(501, "not_installed", self._obstacle)
        with self._a_place(model) as child:
            return child.ask(request, loading=self._loading, answering=self._answering)

    def close(self) -> None:
        with self._lock:
            self._let_go()

    @contextmanager
    def _a_place(self, model: str) -> Iterator[_Child]:
        with self._lock:
            if self._asking >= self._at_once:
                raise Refusal(429, "too_many", f"there are {self._asking} requests already; try again later")
            if self._child is None or self._child.ended or self._child.model != model:
                if self._asking and self._child is not None and not self._child.ended:
                    raise Refusal(
                        429,
                        "other_model",
                        f"the model {self._child.model} is answering, and one model answers at a time; try again later",
                    )
                self._let_go()
                self._child = _Child(self._home, self._environ, self._program, model)
            child = self._child
            self._stop_rest()
            self._asking += 1
        try:
            yield child
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    self._rest = threading.Timer(self._idle, self._after_a_rest)
                    self._rest.daemon = True
                    self._rest.start()

    def _after_a_rest(self) -> None:
        with self._lock:
            if not self._asking:
                self._let_go()

    def _stop_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _let_go(self) -> None:
        self._stop_rest()
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """A process that answers for one model."""

    def __init__(self, home: LocalHome, environ: dict[str, str], program: Sequence[str], model: str) -> None:
        self.model = model
        self._lock = threading.Lock()
        self._ready: Future[None] = Future()
        self._waiting: dict[int, Future[bytes]] = {}
        self._count = 0
        self._over = False
        home.make()
        log_file = home.path / "speaker.log"
        with keeping(log_file):
            if log_file.exists() and log_file.stat().st_size > _LONGEST_LOG:
                log_file.unlink()
            log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                [*program, str(home.path), model],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home.path,  # what lies in the user's folder is not to be imported
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or str(error)
            raise Refusal(503, "no_speaker", f"cannot start what answers ({program[0]}): {why}") from error
        finally:
            os.close(log)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._ear, self._mouth = self._process.stdin, self._process.stdout
        threading.Thread(target=self._listen, name="speaker", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether it will not answer any more."""
        return self._over

    def ask(self, request: bytes, *, loading: float, answering: float) -> bytes:
        """Have it answer.

        Raises:
            Refusal: as for `Speaker.complete`.
        """
        try:
            self._ready.result(loading)
        except NotYet:
            raise Refusal(503, "loading", f"the model {self.model} is being loaded; try again soon") from None
        answer: Future[bytes] = Future()
        with self._lock:
            if self._over:
                raise self._is_over()
            self._count += 1
            number = self._count
            self._waiting[number] = answer
            with contextlib.suppress(OSError):  # then it has ended, and `_listen` tells so
                self._ear.write(msgspec.json.encode(Question(id=number, body=Raw(request))) + b"\n")
                self._ear.flush()
        try:
            return answer.result(answering)
        except NotYet:
            self.end()
            raise Refusal(503, "too_slow", f"the model {self.model} gave no answer in {answering:g} s") from None

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.wait(_DYING)
        self._break_off(self._is_over())

    def _listen(self) -> None:
        with self._mouth:
            for line in self._mouth:
                said = msgspec.json.decode(line, type=Said)
                no = None if said.status == 200 else Refusal(said.status, said.code, said.message)
                if said.id is not None:
                    with self._lock:
                        answer = self._waiting.pop(said.id, None)
                    if answer is not None:
                        answer.set_result(bytes(said.body)) if no is None else answer.set_exception(no)
                elif no is None:
                    with self._lock:
                        if not self._over:
                            self._ready.set_result(None)
                else:
                    self._break_off(no)
        self._process.wait()
        self._break_off(self._is_over())

    def _break_off(self, no: Refusal) -> None:
        """Nothing more comes: refuse all who wait."""
        with self._lock:
            if self._over:
                return
            self._over = True
            waiting = [*self._waiting.values()]
            self._waiting.clear()
            if not self._ready.done():
                self._ready.set_exception(no)
            with contextlib.suppress(OSError):  # it has not read what was written last
                self._ear.close()
        for answer in waiting:
            answer.set_exception(no)

    def _is_over(self) -> Refusal:
        return Refusal(
            503,
            "speaker_ended",
            f"the process that answers for {self.model} has ended; try again (speaker.log in the folder of the backend "
            "tells what it said)",
        )
