"""Environment keys that clients have left in the vault of `synth-ai serve`, for the workers of its jobs."""

from __future__ import annotations

import os

from synth_train.adapters.local.home import LocalHome, keeping, private_folder
from synth_train.adapters.raw_file import create, write_all
from synth_train.adapters.sealed_box import SealedBoxUnsealer
from synth_train.domain.model.hosting import Owner
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import ENVIRONMENT_KEY
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.ports.hosting import JobStore


def unsealer_in(home: LocalHome) -> SealedBoxUnsealer:
    """What opens the keys of a folder. Its private key is made when it is first asked for, and stays.

    Raises:
        Refusal: it cannot be kept.
    """
    path = home.path / "vault.key"
    with keeping(path):
        if not path.exists():
            private_folder(path.parent)
            aside = path.with_name(f"{path.name}.{os.getpid()}.new")
            with create(aside, 0o600) as file:
                write_all(file, os.urandom(32).hex().encode())
                os.fsync(file.fileno())
            try:
                os.link(aside, path)
            except FileExistsError:
                pass  # another process was quicker
            finally:
                aside.unlink()
        return SealedBoxUnsealer(Secret(path.read_text(encoding="ascii").strip()))


class StoredKeys:
    """The environment keys of owners, opened: the one last stored, and those before it as aliases."""

    def __init__(self, home: LocalHome, store: JobStore) -> None:
        self._home = home
        self._store = store

    def of(self, owner: Owner) -> TaskAppKeys | None:
        """The keys of an owner; None when there are none that can be opened."""
        with self._store.transaction() as rows:
            sealed = [key.sealed for key in rows.keys(owner) if key.name == ENVIRONMENT_KEY]
        if not sealed:
            return None
        unsealer = unsealer_in(self._home)
        opened: list[Secret] = []
        for key in sealed:
            try:
                opened.append(unsealer.unseal(key))
            except ValueError:
                continue
        return TaskAppKeys(opened[0], tuple(opened[1:])) if opened else None
