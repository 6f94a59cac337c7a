"""The machine that this process runs on."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from synth_train.adapters.local.backend import NEEDED
from synth_train.domain.model.addresses import without_credentials
from synth_train.ports.machine import Machine, MachinePort
from synth_train.version import install_command, installed_version

PACKAGES = (
    "synth-train",
    "requests",
    "urllib3",
    "msgspec",
    "pynacl",
    "rich",
    "tenacity",
    "tomli",
    "python-dotenv",
    *NEEDED,
    "litestar",
    "uvicorn",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class ThisMachine(MachinePort):
    """MachinePort over the operating system and the installed packages.

    Args:
        home: our folder for state, which need not be there yet.
        environ: the process environment.
    """

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home = home
        self._environ = environ

    def look(self, *, devices: bool) -> Machine:
        existing = next(path for path in (self._home, *self._home.absolute().parents) if path.exists())
        packages = {name: installed_version(name) for name in PACKAGES}
        return Machine(
            python=platform.python_version(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            packages=packages,
            training_lacks=tuple(name for name in NEEDED if packages[name] is None),
            training_remedy=install_command("local"),
            home=str(self._home),
            home_fault=_write_fault(existing),
            free_disk=shutil.disk_usage(existing).free,
            proxies=self._set(_PROXIES),
            certificates={f"{name}={path}": Path(path).exists() for name, path in self._set(_CERTIFICATES).items()},
            cores=os.cpu_count() or 1,
            devices=_devices() if devices else None,
        )

    def _set(self, names: tuple[str, ...]) -> dict[str, str]:
        """Those variables that are set, in capitals or not, as proxies are."""
        either = (spelling for name in names for spelling in (name, name.lower()))
        return {name: without_credentials(self._environ[name]) for name in either if self._environ.get(name)}


def _write_fault(folder: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder}: {error.strerror or error}"


def _devices() -> tuple[str, ...]:
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return ()
    found = [f"cuda:{index} ({torch.cuda.get_device_name(index)})" for index in range(torch.cuda.device_count())]
    found += ["mps"] if torch.backends.mps.is_available() else []
    return (*found, "cpu")
