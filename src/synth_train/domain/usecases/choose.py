"""Which config is meant when none was named: look for them, and ask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import join

from msgspec import Struct

from synth_train.domain.model.config.algorithm import kind_of
from synth_train.domain.model.errors import AnswerNeeded, UsageError
from synth_train.domain.model.jobs import Kind
from synth_train.ports.config_source import ConfigSourcePort
from synth_train.ports.prompt import PromptPort

_REMEDY = "--config FILE"
_MOST_NAMED = 10
"""Configs that a message names."""


class ChooseConfig(Struct, frozen=True, kw_only=True):
    """Let a person pick one of the training configs that are there, the one picked last time first."""

    configs: ConfigSourcePort
    prompt: PromptPort

    def __call__(self, kind: Kind | None = None) -> Path:
        """The config that was picked, relative to the working directory; it is remembered for the next time.

        Args:
            kind: only configs of this kind are offered; None for both.

        Raises:
            UsageError: there is nothing to choose from, or nothing was chosen (0).
            AnswerNeeded: nobody is there to ask.
        """
        found = [(document, kind_of(document.table)) for document in self.configs.discover()]
        offered = [(document, its) for document, its in found if its is not None and kind in (None, its)]
        if not offered:
            raise UsageError(self._nothing(kind), hint=f"Name one with {_REMEDY}.")
        last = self.configs.last_chosen()
        offered.sort(key=lambda pair: pair[0].path != last)
        options = [
            f"{document.shown} ({its.value}{', used last' if document.path == last else ''})"
            for document, its in offered
        ]
        if not self.prompt.somebody:
            raise self._nobody(options, offered[0][0].shown)
        chosen = self.prompt.choose("Which config?", options, remedy=_REMEDY)
        if chosen is None:
            raise UsageError("no config was chosen, so nothing was done", hint=f"Name one with {_REMEDY}.")
        document, _ = offered[chosen]
        self.configs.remember(document.path)
        return Path(document.shown)

    def _nobody(self, options: Sequence[str], first: str) -> AnswerNeeded:
        named = ", ".join(options[:_MOST_NAMED])
        more = f" and {len(options) - _MOST_NAMED} more" if len(options) > _MOST_NAMED else ""
        there = "there is" if len(options) == 1 else "there are"
        return AnswerNeeded(
            f"no config was named, and nobody is here to pick one; {there} {named}{more}",
            hint=f"Name one with {_REMEDY}, such as {join(['--config', first])}.",
        )

    def _nothing(self, kind: Kind | None) -> str:
        what = "training configs" if kind is None else f"{kind.value.upper()} configs"
        return f"there are no {what} in {' or '.join(map(str, self.configs.searched()))}"
