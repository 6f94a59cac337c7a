"""`synth-ai config schema`."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from synth_train.domain.model.config.schema import json_schema
from synth_train.domain.model.jobs import Kind
from synth_train.entrypoints.exit_codes import ExitCode

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Print the JSON Schema of one kind of TOML, or of our own output."""
    if session.args.kind == "output":
        session.screen.data((files("synth_train") / "schemas" / "output.json").read_bytes())
        return ExitCode.OK
    schema = msgspec.json.encode(json_schema(Kind(session.args.kind)))
    session.screen.data(msgspec.json.format(schema, indent=2) + b"\n")
    return ExitCode.OK
