"""Running the command with a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cases.harness import Ran, Workspace


@dataclass(frozen=True)
class Answer:
    """What to type once `after` has appeared on the terminal."""

    after: str
    type: str


def on_terminal(
    workspace: Workspace,
    *args: str,
    env: Mapping[str, str] = {},
    answers: Sequence[Answer] = (),
    within: float = 30.0,
) -> Ran:
    """Run with stdin, stdout and stderr on one terminal; all that appeared on it is in `stdout`."""
    ours, theirs = pty.openpty()
    shown = bytearray()
    try:
        running = workspace.start(*args, env={"TERM": "xterm", **env}, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        waiting = list(answers)
        while (left := running.began + within - time.monotonic()) > 0:
            if not select.select([ours], [], [], left)[0]:
                break
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not part:
                break
            shown += part
            if waiting and waiting[0].after in shown.decode(errors="replace"):
                os.write(ours, waiting.pop(0).type.encode())
        ended = running.end(within=max(0.1, running.began + within - time.monotonic()))
        assert not waiting, f"never asked: {waiting[0].after!r}; shown: {bytes(shown)!r}"
    finally:
        with contextlib.suppress(OSError):
            os.close(ours)
    ran = Ran(ended.code, bytes(shown), b"", ended.seconds)
    assert "Traceback" not in ran.out, ran.out
    return ran
