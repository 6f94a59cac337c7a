"""Hosting behind a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from synth_train.adapters.serving.loopback import LoopbackServer
from synth_train.domain.usecases.hosting.service import Hosting


@contextmanager
def serving(hosting: Hosting) -> Iterator[str]:
    """Serve hosting on loopback while the block lasts; gives the base URL, without a path.

    A bug on the other side fails the test: the server's log is asserted on at the end.
    """
    lines: list[str] = []
    with LoopbackServer(hosting, log=lines.append) as server:
        yield server.url
    assert not [line for line in lines if "Traceback" in line]
