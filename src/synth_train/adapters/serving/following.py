"""The events of a job as a stream (server-sent events, wire-contract §4.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from anyio import to_thread

from synth_train.adapters.serving.serving import Serving
from synth_train.domain.model.events import Event
from synth_train.domain.model.hosting import Owner
from synth_train.domain.model.jobs import JobId
from synth_train.domain.usecases.hosting import wire

LOOK = 0.5
"""Seconds between two looks at a job that is followed."""

QUIET = 10.0
"""Seconds of silence after which a comment shows that the stream is alive."""

_AT_ONCE = 500


async def followed(serving: Serving, owner: Owner, job_id: JobId, since: int) -> AsyncIterator[bytes]:
    """Events after `since` as they happen, each once, until the job has ended and all has been told."""
    serving.followers += 1
    try:
        silent = 0.0
        while True:
            over, events = await to_thread.run_sync(_news, serving, owner, job_id, since)
            for event in events:
                since = event.seq
                yield b"id: %d\ndata: %s\n\n" % (event.seq, msgspec.json.encode(wire.event(job_id, event)))
            if len(events) == _AT_ONCE:
                continue
            if over or serving.closing.is_set():
                return
            silent = 0.0 if events else silent + LOOK
            if silent >= QUIET:
                silent = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(LOOK)
    finally:
        serving.followers -= 1


def _news(serving: Serving, owner: Owner, job_id: JobId, since: int) -> tuple[bool, list[Event]]:
    # The status first: what is told before the job is over is then among the events.
    over = serving.hosting.jobs.show(owner, job_id).status.over
    return over, serving.hosting.jobs.events(owner, job_id, since=since, limit=_AT_ONCE)
