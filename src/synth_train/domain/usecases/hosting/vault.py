"""Environment keys of an owner, and trying them on a task app (wire-contract §2.2, §5)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from msgspec import Struct

from synth_train.domain.model.addresses import address
from synth_train.domain.model.hosting import Owner, Refusal, SealedKey
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.hosting import JobStore, Unsealer
from synth_train.ports.sealer import LONGEST_SECRET
from synth_train.ports.task_app import TaskAppPort

ENVIRONMENT_KEY = "ENVIRONMENT_API_KEY"
MOST_CANDIDATES = 15
"""The newest keys are tried; a rotation leaves older ones behind."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Attempt(Struct, frozen=True, kw_only=True):
    """One key tried on a task app."""

    candidate: str
    """Tells keys apart; nothing of the key can be had back from it."""
    health: Probe
    task_info: Probe

    @property
    def ok(self) -> bool:
        """Whether the app took the key on both routes."""
        return self.health.status == 200 and self.task_info.status == 200

    @property
    def status(self) -> int:
        """The worse of both statuses; 0 when one of the routes could not be reached."""
        statuses = (self.health.status or 0, self.task_info.status or 0)
        return max(statuses) if all(statuses) else 0

    @property
    def error(self) -> str | None:
        """What went wrong, in the words of the first probe that failed."""
        for probe in (self.health, self.task_info):
            if probe.trouble is not None:
                return f"{probe.url}: {probe.trouble.value}"
            if probe.status != 200:
                return f"{probe.url}: {probe.status}"
        return None


@dataclass(frozen=True, kw_only=True)
class Vault:
    """The environment keys of all owners. They are kept as they came, sealed, and never told to anybody."""

    store: JobStore
    unsealer: Unsealer
    task_app: TaskAppPort
    clock: ClockPort
    entropy: EntropyPort

    def public_key(self) -> bytes:
        """The 32 bytes to seal a key with."""
        return self.unsealer.public_key()

    def store_key(self, owner: Owner, name: str, sealed: bytes) -> SealedKey:
        """Keep a key. Those before it stay candidates for `try_task_app`; one that is there already is not doubled.

        Raises:
            Refusal: 422 when the name is no name, or the key cannot be unsealed.
        """
        if not _NAME.fullmatch(name):
            raise Refusal(422, "invalid_name", "name: must be a name of letters, digits and underscores")
        try:
            secret = self.unsealer.unseal(sealed)
        except ValueError:
            raise Refusal(
                422,
                "not_sealed",
                "ciphertext_b64: cannot be unsealed; seal it with the key that this backend gives out",
            ) from None
        if not secret or len(secret.reveal().encode()) > LONGEST_SECRET:
            raise Refusal(422, "invalid_key", f"ciphertext_b64: must hold 1 to {LONGEST_SECRET} bytes")
        with self.store.transaction() as rows:
            twins = [key for key in rows.keys(owner) if key.name == name and self._opened(key) == secret]
            key = SealedKey(
                id=twins[0].id if twins else f"key_{self.entropy.token(12)}",
                owner=owner,
                name=name,
                sealed=sealed,
                updated_at=self.clock.now(),
            )
            rows.save_key(key)
        return key

    def holds_key(self, owner: Owner, name: str = ENVIRONMENT_KEY) -> bool:
        """Whether the owner has stored a key of that name."""
        with self.store.transaction() as rows:
            return any(key.name == name for key in rows.keys(owner))

    def try_task_app(self, owner: Owner, task_url: str) -> list[Attempt]:
        """Try the owner's environment keys on a task app, the newest first.

        Raises:
            Refusal: 422 when there is no URL to ask.
        """
        try:
            url = address(task_url).url
        except ValueError as reason:
            raise Refusal(
                422, "invalid_request", f"endpoint_base_url: must be the URL of the task app, but {reason}"
            ) from None
        with self.store.transaction() as rows:
            keys = [key for key in rows.keys(owner) if key.name == ENVIRONMENT_KEY]
        secrets = [secret for secret in map(self._opened, keys) if secret is not None]
        return [self._attempt(url, secret) for secret in secrets[:MOST_CANDIDATES]]

    def _opened(self, key: SealedKey) -> Secret | None:
        """The key itself; None when it was sealed with a key that is no more."""
        try:
            return self.unsealer.unseal(key.sealed)
        except ValueError:
            return None

    def _attempt(self, task_url: str, secret: Secret) -> Attempt:
        keys = TaskAppKeys(secret)
        return Attempt(
            candidate=hashlib.sha256(b"synth-train candidate\0" + secret.reveal().encode()).hexdigest()[:8],
            health=self.task_app.health(task_url, keys),
            task_info=self.task_app.task_info(task_url, keys),
        )
