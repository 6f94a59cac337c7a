"""The door before the routes, where no socket is needed to see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from support.serving import needs_the_server

needs_the_server()


def test_a_client_that_leaves_as_its_stream_begins_is_no_bug() -> None:
    from litestar import Litestar, get
    from litestar.response import Stream

    from synth_train.adapters.serving.door import Door

    async def for_ever() -> AsyncIterator[bytes]:
        while True:
            yield b"data: 1\n\n"
            await asyncio.sleep(0)

    @get("/")
    async def stream() -> Any:
        return Stream(for_ever())

    async def gone() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    sent: list[str] = []
    lines: list[str] = []
    door = Door(Litestar([stream], openapi_config=None), largest_file=1, stall=1.0, log=lines.append)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": None,
        "server": None,
        "scheme": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0"},
        "state": {},
    }
    asyncio.run(door(scope, gone, send))
    assert sent[0] == "http.response.start"
    assert lines == ["GET / 200"]
