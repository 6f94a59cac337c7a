"""`synth-ai config schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Print the JSON Schema of one kind of TOML."""
    raise NotImplementedError
