"""Hosting over the embedded backend: its folder, its workers, with a door in front."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from synth_train.adapters.http.task_app import HttpTaskApp
from synth_train.adapters.jsonl_datasets import JsonlDatasets
from synth_train.adapters.local.backend import NEEDED, lacking, workshop_in
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.speaker import ChildSpeaker
from synth_train.adapters.local.stored_keys import unsealer_in
from synth_train.adapters.local.subprocess_executor import WORKER, inherited
from synth_train.adapters.system_clock import SystemClock
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.errors import InvalidDataset
from synth_train.domain.model.hosting import Owner, StoredFile, Verdict
from synth_train.domain.usecases.check_dataset import CheckDataset
from synth_train.domain.usecases.hosting.chats import Chats
from synth_train.domain.usecases.hosting.files import LARGEST_FILE, Files
from synth_train.domain.usecases.hosting.service import Hosting
from synth_train.domain.usecases.hosting.vault import Vault
from synth_train.ports.hosting import BlobStore, Inspector

SMALL = 32 << 20
"""Bytes of a dataset that is looked into while its sender waits; that takes less than a second."""


def hosting_in(
    home: LocalHome,
    key_ring: KeyRing,
    *,
    owners: frozenset[Owner],
    aliases: Mapping[Owner, Owner],
    largest: int = LARGEST_FILE,
    program: Sequence[str] = WORKER,
) -> Hosting:
    """Hosting over the state in a folder.

    Args:
        owners: who may come in.
        aliases: see `Hosting`.
        largest: bytes of a file.
        program: what a worker runs.

    Raises:
        Refusal: the folder cannot be used.
    """
    home.make()
    workshop = workshop_in(home, key_ring, program=program)
    store, clock, entropy = workshop.jobs.store, SystemClock(), SystemEntropy()
    blobs = DiskBlobStore(home.blobs, entropy)
    speaker = ChildSpeaker(home, inherited(key_ring.handed_down()), obstacle=lacking(NEEDED))
    return Hosting(
        files=Files(
            store=store, blobs=blobs, inspector=RowsInspector(blobs), clock=clock, entropy=entropy, largest=largest
        ),
        jobs=workshop.jobs,
        results=workshop.results,
        chats=Chats(results=workshop.results, speaker=speaker),
        takes_config=workshop.takes_config,
        vault=Vault(store=store, unsealer=unsealer_in(home), task_app=HttpTaskApp(), clock=clock, entropy=entropy),
        owners=owners,
        aliases=aliases,
    )


class RowsInspector(Inspector):
    """Inspector that reads every row, by the rules that `synth-ai data check` has: who uploads here may have another
    client. A large file is read in a thread, and ready when that has come to its end."""

    def __init__(self, blobs: DiskBlobStore) -> None:
        self._blobs = blobs
        self._check = CheckDataset(datasets=JsonlDatasets())
        self._lock = threading.Lock()
        self._verdicts: dict[str, Verdict | None] = {}

    def inspect(self, file: StoredFile, blobs: BlobStore) -> Verdict | None:
        if file.blob.size <= SMALL:
            return self._verdict(file)
        with self._lock:
            if file.blob.id not in self._verdicts:
                self._verdicts[file.blob.id] = None
                threading.Thread(target=self._look, args=(file,), name="inspector", daemon=True).start()
            verdict = self._verdicts[file.blob.id]
            if verdict is not None:
                del self._verdicts[file.blob.id]
            return verdict

    def _look(self, file: StoredFile) -> None:
        verdict = self._verdict(file)
        with self._lock:
            self._verdicts[file.blob.id] = verdict

    def _verdict(self, file: StoredFile) -> Verdict:
        try:
            self._check(self._blobs.path(file.blob), shown=file.filename)
        except InvalidDataset as error:
            problems = [f"{problem}" for problem in error.problems[:5]]
            return Verdict(ok=False, detail="; ".join(problems) or str(error))
        return Verdict(ok=True)
