"""Which versions are here. Outside the rings, so that `--version` loads none of them."""

from __future__ import annotations


def installed_version(package: str) -> str | None:
    """The version of an installed package; None when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here, because it takes long to load

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def install_command(extras: str) -> str:
    """What installs extras of ours (`local`, or `local,serve`), given how we were installed: from a checkout or an
    index."""
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    root = Path(__file__).parents[2]
    try:
        origin = json.loads(distribution("synth-train").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a source tree that was never installed
        origin = {"url": root.as_uri(), "dir_info": {"editable": True}}
    if "dir_info" not in origin:
        return f"pip install 'synth-train[{extras}]'"
    folder = Path(unquote(urlsplit(origin["url"]).path))
    editable = "-e " if origin["dir_info"].get("editable") else ""
    constraints = folder / "constraints" / "local.txt"
    pinned = f" -c {shlex.quote(str(constraints))}" if "local" in extras and constraints.is_file() else ""
    return f"pip install {editable}'{folder}[{extras}]'{pinned}"


def own_version() -> str:
    """Ours; `0+not.installed` for a source tree that was never installed."""
    return installed_version("synth-train") or "0+not.installed"
