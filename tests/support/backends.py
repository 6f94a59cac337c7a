"""The same backend, asked directly and over HTTP."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from support.serving import serving
from synth_train.adapters.http.backend import HttpBackend
from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.hosting import Owner
from synth_train.domain.model.jobs import FileId, IdempotencyKey
from synth_train.domain.model.secret import Secret
from synth_train.ports.backend import Backend, Upload
from synth_train.ports.hosting import Unsealer

OUR_KEY = Secret("fake-synth-key-0001-abcdefgh")
THEIR_KEY = Secret("fake-synth-key-0002-zyxwvuts")

TASK_URL = "https://task.test"


@dataclass(frozen=True)
class Side:
    """A backend, and what is behind it."""

    backend: Backend
    """As we see it, the holder of `OUR_KEY`."""
    seen_by: Callable[[Secret | None], Backend]
    world: InMemoryHosting
    task_app: InMemoryTaskApp
    clock: ManualClock


@contextmanager
def backend_side(
    kind: str,
    *,
    owners: frozenset[Owner] | None = None,
    takes_config: bool = False,
    unsealer: Unsealer | None = None,
) -> Iterator[Side]:
    """A backend of that kind (`in-memory` or `http`), with a clock that stands still."""
    clock, task_app = ManualClock(), InMemoryTaskApp()
    world = InMemoryHosting(clock=clock, task_app=task_app, owners=owners, takes_config=takes_config, unsealer=unsealer)
    if kind == "in-memory":

        def directly(key: Secret | None) -> Backend:
            return InMemoryBackend(world=world, api_key=key)

        yield Side(directly(OUR_KEY), directly, world, task_app, clock)
        return
    with serving(world.hosting) as url:

        def over_http(key: Secret | None) -> Backend:
            return HttpBackend(url, api_key=key)

        yield Side(over_http(OUR_KEY), over_http, world, task_app, clock)


def upload_of(content: bytes, *, filename: str = "train.jsonl", purpose: str = "fine-tune") -> Upload:
    """An upload of these bytes."""
    return Upload(filename=filename, purpose=purpose, size=len(content), open=lambda: io.BytesIO(content))


def rl_request(**data: object) -> bytes:
    """The smallest body of an RL job."""
    return msgspec.json.encode(
        {"job_type": "rl", "data": {"endpoint_base_url": TASK_URL, "config": {}, "base_model": "Qwen/Qwen3-4B", **data}}
    )


def sft_request(training_file: FileId | None, **more: object) -> bytes:
    """The smallest body of an SFT job."""
    return msgspec.json.encode({"model": "Qwen/Qwen3-4B", "training_file_id": training_file, **more})


K = IdempotencyKey("K-77")
OTHER_K = IdempotencyKey("K-78")
