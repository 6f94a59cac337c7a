"""The key of a folder's own user: made when the folder is first served, shown once, and kept as a hash."""

from __future__ import annotations

import os

from synth_train.adapters.local.home import LocalHome, keeping, sync_folder
from synth_train.adapters.raw_file import create, write_all
from synth_train.domain.model.hosting import Owner, owner_of
from synth_train.domain.model.secret import Secret


def own_key(home: LocalHome) -> tuple[Owner, Secret | None]:
    """Whom the folder's key stands for, and the key itself if it had to be made now. To get another, remove the file
    `serve.key`.

    Raises:
        Refusal: it cannot be kept.
    """
    path = home.path / "serve.key"
    with keeping(path):
        try:
            return Owner(path.read_text(encoding="ascii").strip()), None
        except FileNotFoundError:
            pass
        key = Secret(f"serve-{os.urandom(32).hex()}")
        owner = owner_of(key)
        aside = path.with_name(f"{path.name}.{os.getpid()}.new")
        with create(aside, 0o600) as file:
            write_all(file, f"{owner}\n".encode())
            os.fsync(file.fileno())
        aside.rename(path)
        sync_folder(path.parent)
        return owner, key
