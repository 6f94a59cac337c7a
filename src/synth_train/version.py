"""Which versions are here. Outside the rings, so that `--version` loads none of them."""

from __future__ import annotations


def installed_version(package: str) -> str | None:
    """The version of an installed package; None when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here, because it takes long to load

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def own_version() -> str:
    """Ours; `0+not.installed` for a source tree that was never installed."""
    return installed_version("synth-train") or "0+not.installed"
