"""The browser of whoever sits at this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def show(url: str, environ: Mapping[str, str]) -> bool:
    """Open an address in a browser. Whether there is one to open it in.

    A browser that would take over the terminal is not one, unless `BROWSER` names it.
    """
    graphical = sys.platform in ("darwin", "win32") or any(environ.get(name) for name in _DISPLAYS)
    if not graphical and not environ.get("BROWSER"):
        return False
    import webbrowser

    return webbrowser.open(url)
