"""Hosting: the other side of the wire, whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from synth_train.domain.model.hosting import Owner, Refusal, owner_of
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting.chats import Chats
from synth_train.domain.usecases.hosting.files import Files
from synth_train.domain.usecases.hosting.jobs import Jobs
from synth_train.domain.usecases.hosting.results import Results
from synth_train.domain.usecases.hosting.vault import Vault


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Files, jobs and what they make, for owners who have been let in. The embedded backend is this and no more."""

    files: Files
    jobs: Jobs
    results: Results
    takes_config: bool = False
    """Whether the trainer reads `metadata.config` of an SFT job: what the hosted wire drops."""


@dataclass(frozen=True, kw_only=True)
class Hosting(Workshop):
    """A workshop with a door: who comes in shows an API key, and may leave environment keys."""

    vault: Vault
    chats: Chats
    owners: frozenset[Owner] | None = None
    """Who may come in; None: everybody who brings a key."""
    aliases: Mapping[Owner, Owner] = field(default_factory=dict)
    """Keys that stand for another owner: the key of a machine's user opens what is there already."""

    def owner(self, api_key: Secret | None) -> Owner:
        """Whom a key stands for.

        Raises:
            Refusal: 401 without a key, 403 for a key that is not known here.
        """
        if not api_key:
            raise Refusal(401, "no_api_key", "no API key came with the request; send `Authorization: Bearer <key>`")
        owner = owner_of(api_key)
        if self.owners is not None and owner not in self.owners:
            raise Refusal(403, "unknown_api_key", "this API key is not known here")
        return self.aliases.get(owner, owner)
