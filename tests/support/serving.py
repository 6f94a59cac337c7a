"""Hosting behind a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from synth_train.domain.usecases.hosting.service import Hosting


def needs_the_server() -> None:
    """Skip where the extra `[serve]` is not installed."""
    for package in ("litestar", "uvicorn"):
        pytest.importorskip(package, reason="needs the extra [serve]: pip install 'synth-train[serve]'")


@contextmanager
def serving(hosting: Hosting, **more: Any) -> Iterator[str]:
    """Serve hosting on loopback while the block lasts; gives the base URL, without a path.

    A bug on the other side fails the test: the server's log is asserted on at the end.

    Args:
        more: what else `Server` takes.
    """
    needs_the_server()
    from synth_train.adapters.serving.server import ServerThread

    lines: list[str] = []
    with ServerThread(hosting, log=lines.append, **more) as server:
        yield server.url
    assert not [line for line in lines if "Traceback" in line]
