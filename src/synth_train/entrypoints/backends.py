"""Which adapter reaches which backend."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from synth_train.domain.model.backend_base import EMBEDDED
from synth_train.domain.model.secret import Secret
from synth_train.ports.backend import Backend, BackendsPort


class Backends(BackendsPort):
    """BackendsPort by what stands before the base: `local` is the embedded backend, all else is HTTP.

    Args:
        home: tells where the embedded backend has its folder, which is called `local`; not asked for any other.
    """

    def __init__(self, home: Callable[[], Path]) -> None:
        self._home = home

    def connect(self, base: str, api_key: Secret | None) -> Backend:
        if base == EMBEDDED:
            from synth_train.adapters.local.backend import LocalBackends

            return LocalBackends(self._home() / EMBEDDED, os.environ).connect(base, api_key)
        from synth_train.adapters.http.backend import HttpBackends

        return HttpBackends().connect(base, api_key)
