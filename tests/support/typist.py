"""Somebody at a terminal: answers are typed once a question has appeared there."""

from __future__ import annotations

import os
import pty
import select
import threading
from contextlib import ExitStack
from typing import TextIO

PATIENCE = 10.0
"""Seconds without a question after which the typist leaves, so that a test that waits for an answer ends."""


class Typist:
    """A pseudo-terminal with somebody at it.

    `stdin` and `stderr` are the terminal as a program sees it. Each of `answers` is typed when a question has come,
    which ends in a colon and a blank; `shown` is all that appeared, echoes included.
    """

    def __init__(self, *answers: str | bytes, errors: str = "strict") -> None:
        self.shown = ""
        self._answers = [answer.encode() if isinstance(answer, str) else answer for answer in answers]
        self._errors = errors
        self._stack = ExitStack()
        self._thread = threading.Thread(target=self._type)

    def __enter__(self) -> Typist:
        self._ours, theirs = pty.openpty()
        self._terminal = theirs
        self.stdin: TextIO = self._stack.enter_context(os.fdopen(os.dup(theirs), encoding="utf-8", errors=self._errors))
        self.stderr: TextIO = self._stack.enter_context(os.fdopen(os.dup(theirs), "w", encoding="utf-8"))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        os.close(self._terminal)
        self._thread.join()
        os.close(self._ours)

    def _type(self) -> None:
        said = bytearray()
        unanswered = bytearray()
        while select.select([self._ours], [], [], PATIENCE)[0]:
            try:
                part = os.read(self._ours, 65536)
            except OSError:  # Linux: nobody has the terminal open any more
                break
            if not part:
                break
            said += part
            unanswered += part
            if self._answers and unanswered.endswith(b": "):
                unanswered.clear()
                os.write(self._ours, self._answers.pop(0))
        self.shown = said.decode(errors="replace").replace("\r\n", "\n")
