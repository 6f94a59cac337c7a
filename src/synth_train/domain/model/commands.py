"""Commands that a person may want to type next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import join

from synth_train.domain.model.addresses import address
from synth_train.domain.model.jobs import JobId, Kind


def watching(*jobs: JobId, base: str, kind: Kind | None = None, env_files: Sequence[Path] = ()) -> str:
    """The command that watches jobs; see `on_jobs`."""
    return on_jobs("watch", *jobs, base=base, kind=kind, env_files=env_files)


def on_jobs(
    action: str,
    *jobs: JobId,
    base: str,
    kind: Kind | None = None,
    options: Sequence[str] = (),
    env_files: Sequence[Path] = (),
) -> str:
    """The command that does something with jobs, with all that it needs in a shell that stands anywhere.

    Args:
        action: such as `watch`.
        base: of their backend.
        kind: of all of them; None lets the command find out.
        options: of the action itself.
        env_files: those that the keys come from, absolute.
    """
    words = ["synth-ai", "jobs", action, *jobs, *options]
    if kind is not None:
        words += ["--type", kind.value]
    words += ["--backend", base]
    for path in env_files:
        words += ["--env-file", str(path)]
    if base.startswith("http://") and not address(base).loopback:
        words.append("--insecure-http")
    return join(words)
