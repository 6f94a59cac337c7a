"""The page at `/`: what a browser shows of the jobs. It reads the same routes as every other client.

Nothing comes from elsewhere: the charts are drawn by the browser file that the package plotly brings along.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyio import to_thread
from litestar import Request, get
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath
from litestar.response import Response

from synth_train.domain.model.hosting import Refusal

_HERE = Path(__file__).parent

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "style-src 'self' 'unsafe-inline'",  # plotly writes styles of its own
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_DAY = "private, max-age=86400"


@get("/", opt={"open": True}, include_in_schema=False)
async def index(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The page, for browsers. Other clients have nothing to look for here."""
    if "text/html" not in request.headers.get("accept", ""):
        raise Refusal(404, "no_such_route", "there is no route GET /; the page is for browsers")
    content = await to_thread.run_sync(_read, _HERE / "index.html")
    return Response(content, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _POLICY})


@get("/page/{name:str}", opt={"open": True}, include_in_schema=False)
async def part(name: FromPath[str]) -> Response[bytes]:
    """What the page is made of."""
    path = _parts().get(name)
    if path is None:
        raise Refusal(404, "no_such_route", "there is no such part of the page")
    headers = {"Cache-Control": _DAY if name.startswith("plotly") else "no-cache"}
    return Response(await to_thread.run_sync(_read, path), media_type=_TYPES[path.suffix], headers=headers)


HANDLERS: list[BaseRouteHandler] = [index, part]


@cache
def _parts() -> dict[str, Path]:
    """The files that are given out, and no others, by name."""
    parts = {name: _HERE / name for name in ("page.js", "charts.js", "page.css")}
    plotly = find_spec("plotly")
    if plotly is not None and plotly.submodule_search_locations:
        parts["plotly.min.js"] = Path(plotly.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    return parts


@cache
def _read(path: Path) -> bytes:
    return path.read_bytes()
