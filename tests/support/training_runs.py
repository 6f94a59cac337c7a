"""What a trainer of the embedded backend told of a job, and what it left."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from typing import Any

from synth_train.adapters.local.home import JobFolder
from synth_train.domain.model.hosting import Happening, Note, Step


class Run:
    """A job that was trained to its end, or until it was stopped."""

    def __init__(
        self, happenings: Generator[Happening, None, None], folder: JobFolder, *, until_step: int | None = None
    ) -> None:
        """Let the trainer work; stop it after the step `until_step`, if it is given."""
        self.folder = folder
        self.told: list[Happening] = []
        with closing(happenings):
            for happening in happenings:
                self.told.append(happening)
                if isinstance(happening, Step) and happening.step == until_step:
                    break

    @property
    def steps(self) -> list[Step]:
        return [happening for happening in self.told if isinstance(happening, Step)]

    def curve(self, name: str) -> dict[int, float]:
        """A metric by step."""
        return {step.step: step.points[name] for step in self.steps if name in step.points}

    @property
    def losses(self) -> dict[int, float]:
        """`train.loss` by step; every step has one."""
        return {step.step: step.points["train.loss"] for step in self.steps}

    def notes(self, type: str) -> list[Note]:
        return [happening for happening in self.told if isinstance(happening, Note) and happening.type == type]

    @property
    def warnings(self) -> list[str]:
        return [note.message for note in self.notes("warning")]

    @property
    def provenance(self) -> dict[str, Any]:
        """As it stands beside the model."""
        return dict(json.loads((self.folder.model / "provenance.json").read_text(encoding="utf-8")))
