"""Environment keys of jobs: in memory and in the environment of workers, in their env files, and nowhere else.

The database has a `KeyPlace` only: the names of a file and of a variable, and a mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from synth_train.domain.model.errors import TrainingError
from synth_train.domain.model.hosting import Job, KeyPlace, Owner
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import (
    API_KEY,
    ENVIRONMENT_KEY,
    ENVIRONMENT_KEY_ALIASES,
    EnvFile,
    Variables,
)
from synth_train.domain.model.task_app import TaskAppKeys

_HANDED_DOWN = "SYNTH_LOCAL_KEY_"
"""Begins the names of variables in which a worker inherits keys; the mark of the key follows."""

_ALIASES = "_ALIASES"


class KeyRing:
    """The keys that this process can get hold of.

    Args:
        environ: the environment of this process.
        read: reads an env file, as `EnvSourcePort.read`.
        stored: the keys that an owner has left here; for jobs that came over HTTP.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        read: Callable[[Path], EnvFile],
        *,
        stored: Callable[[Owner], TaskAppKeys | None] = lambda owner: None,
    ) -> None:
        self._environ = environ
        self._read = read
        self._stored = stored
        self._lent: dict[str, TaskAppKeys] = {}

    def lend(self, keys: TaskAppKeys, *, name: str, file: Path | None) -> KeyPlace:
        """Remember keys for the jobs of this process, and how others may find them."""
        place = KeyPlace(mark=_mark(keys.primary), name=name, file=None if file is None else str(file))
        self._lent[place.mark] = keys
        return place

    def of(self, job: Job) -> TaskAppKeys | None:
        """The keys of a job: those it was asked for with, or what its env file holds by now; None when they are not to
        be had."""
        place = job.key_place
        if place is None:
            return self._stored(job.owner)
        return self._lent.get(place.mark) or self._inherited(place) or self._in_file(place)

    def hindrance(self, job: Job) -> str:
        """Why a job cannot run in this process; empty when it can."""
        place = job.key_place
        if place is None or self.of(job) is not None:
            return ""
        if place.file is not None:
            return f"its key is not in {place.file} any more; put {place.name} back there, or cancel the job"
        return (
            f"its {place.name} was in the environment of the command that asked for it and is not in this one; set it "
            f"and run: synth-ai jobs watch {job.id} --backend local"
        )

    def handed_down(self) -> dict[str, str]:
        """The environment for a worker: that of this process, with the keys that were lent and without SYNTH_API_KEY,
        for which a worker has no use."""
        environ = {name: value for name, value in self._environ.items() if name != API_KEY}
        for mark, keys in self._lent.items():
            environ[_HANDED_DOWN + mark] = keys.primary.reveal()
            if keys.aliases:
                environ[_HANDED_DOWN + mark + _ALIASES] = ",".join(alias.reveal() for alias in keys.aliases)
        return environ

    def secrets(self) -> tuple[Secret, ...]:
        """Every key in sight, for redaction."""
        own = Variables(process=self._environ).secrets()
        inherited = [Secret(value) for name, value in self._environ.items() if name.startswith(_HANDED_DOWN) and value]
        return (*own, *inherited, *(secret for keys in self._lent.values() for secret in keys.all))

    def _inherited(self, place: KeyPlace) -> TaskAppKeys | None:
        handed_down = self._environ.get(_HANDED_DOWN + place.mark)
        if handed_down:
            return _keys(handed_down, self._environ.get(_HANDED_DOWN + place.mark + _ALIASES, ""))
        own = self._environ.get(ENVIRONMENT_KEY, "").strip()
        if own and _mark(Secret(own)) == place.mark:
            return _keys(own, self._environ.get(ENVIRONMENT_KEY_ALIASES, ""))
        return None

    def _in_file(self, place: KeyPlace) -> TaskAppKeys | None:
        if place.file is None:
            return None
        try:
            values = self._read(Path(place.file)).values
        except TrainingError:
            return None
        key = values.get(place.name, "").strip()
        return _keys(key, values.get(ENVIRONMENT_KEY_ALIASES, "")) if key else None


def _keys(primary: str, aliases: str) -> TaskAppKeys:
    return TaskAppKeys(Secret(primary), tuple(Secret(alias.strip()) for alias in aliases.split(",") if alias.strip()))


def _mark(key: Secret) -> str:
    return hashlib.sha256(b"synth-train environment key\0" + key.reveal().encode()).hexdigest()[:16].upper()
