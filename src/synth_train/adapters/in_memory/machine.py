"""A machine as arranged."""

from __future__ import annotations

from msgspec.structs import replace

from synth_train.ports.machine import Machine, MachinePort


class FixedMachine(MachinePort):
    """MachinePort that tells `facts`; devices only to whom asks for them."""

    def __init__(self) -> None:
        self.facts = Machine(
            python="3.11.7",
            system="Linux 6.1 x86_64",
            packages={"synth-train": "1.0", "torch": None},
            training_lacks=("torch",),
            training_remedy="pip install 'synth-train[local]'",
            home="/home/me/.synth-ai",
            free_disk=100_000_000_000,
            cores=8,
            devices=("cpu",),
        )

    def look(self, *, devices: bool) -> Machine:
        return self.facts if devices else replace(self.facts, devices=None)
