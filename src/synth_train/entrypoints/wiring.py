"""Which adapter plays which part when the real command runs. The only place that knows them all.

What is heavy to load (requests, tenacity, nacl, rich) is loaded when it is first used: a dry run needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from synth_train.domain.model.secret import Secret
    from synth_train.domain.usecases.train import Train
    from synth_train.ports.backend import BackendsPort
    from synth_train.ports.clock import ClockPort
    from synth_train.ports.config_source import ConfigSourcePort
    from synth_train.ports.datasets import DatasetPort
    from synth_train.ports.entropy import EntropyPort
    from synth_train.ports.env_source import EnvSourcePort
    from synth_train.ports.journal import JournalPort
    from synth_train.ports.patience import PatiencePort
    from synth_train.ports.progress import ProgressPort
    from synth_train.ports.prompt import PromptPort
    from synth_train.ports.sealer import SealerPort
    from synth_train.ports.task_app import TaskAppPort

T = TypeVar("T")
