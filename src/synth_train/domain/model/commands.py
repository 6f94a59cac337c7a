"""Commands that a person may want to type next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import join

from synth_train.domain.model.addresses import address
from synth_train.domain.model.jobs import JobId, Kind


def watching(*jobs: JobId, base: str, kind: Kind | None = None, env_files: Sequence[Path] = ()) -> str:
    """The command that watches jobs, with all that it needs in a shell that stands anywhere.

    Args:
        base: of their backend.
        kind: of all of them; None lets the command find out.
        env_files: those that the keys come from, absolute.
    """
    words = ["synth-ai", "jobs", "watch", *jobs]
    if kind is not None:
        words += ["--type", kind.value]
    words += ["--backend", base]
    for path in env_files:
        words += ["--env-file", str(path)]
    if base.startswith("http://") and not address(base).loopback:
        words.append("--insecure-http")
    return join(words)
