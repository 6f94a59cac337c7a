"""The page at `/`."""

from __future__ import annotations

from litestar.handlers import BaseRouteHandler

HANDLERS: list[BaseRouteHandler] = []
