"""What the machine is that we run on. In memory: `adapters.in_memory.machine.FixedMachine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class Machine(Struct, frozen=True, kw_only=True):
    """Facts, read once."""

    python: str
    system: str
    """Such as `Linux 6.1 x86_64`."""
    packages: Mapping[str, str | None]
    """Versions by distribution; None for what is not installed."""
    training_lacks: tuple[str, ...] = ()
    """Distributions that training here needs and that are not installed."""
    training_remedy: str = ""
    """What installs them, to be pasted into a shell."""
    home: str
    """Our folder for state."""
    home_fault: str = ""
    """Why it cannot be written to; empty when it can."""
    free_disk: int = 0
    """Bytes, where it is."""
    proxies: Mapping[str, str] = {}
    """Variables that name a proxy, and the proxy without its login."""
    certificates: Mapping[str, bool] = {}
    """`VARIABLE=path` of those that name certificates, and whether the path exists."""
    cores: int = 1
    devices: tuple[str, ...] | None = None
    """Where can be trained, best first; None when nobody looked."""


class MachinePort(Protocol):
    """Somebody who looks."""

    def look(self, *, devices: bool) -> Machine:
        """The facts. Nothing is raised.

        Args:
            devices: whether devices are looked for too, which loads torch and takes seconds.
        """
        ...
