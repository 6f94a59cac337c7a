"""Which adapter reaches which backend."""

from __future__ import annotations

from synth_train.domain.model.backend_base import EMBEDDED
from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.secret import Secret
from synth_train.ports.backend import Backend, BackendsPort


class Backends(BackendsPort):
    """BackendsPort by what stands before the base: `local` is the embedded backend, all else is HTTP."""

    def connect(self, base: str, api_key: Secret | None) -> Backend:
        if base == EMBEDDED:
            raise UsageError(
                "the embedded backend is not part of this version yet",
                hint="Give --backend the URL of a backend, or leave it out for the hosted one.",
            )
        from synth_train.adapters.http.backend import HttpBackends

        return HttpBackends().connect(base, api_key)
