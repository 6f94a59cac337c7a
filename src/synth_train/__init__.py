"""Run RL and SFT training jobs from TOML files.

    import synth_train

    result = synth_train.submit("sft.toml", backend="https://api.usesynth.ai")
    print(result.job_id, result.word)

Nothing here prints, asks or exits; what goes wrong is raised as a `TrainingError`, with a `hint` on what to do. Each
name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from synth_train.adapters.http.backend import HttpBackend
    from synth_train.adapters.in_memory.backend import InMemoryBackend
    from synth_train.adapters.in_memory.progress import RecordedProgress
    from synth_train.adapters.in_memory.rehearsal import Rehearsal
    from synth_train.domain.model.dataset import DatasetReport
    from synth_train.domain.model.errors import (
        AnswerNeeded,
        BackendBusy,
        BackendError,
        BackendRefused,
        BackendUnreachable,
        CredentialsError,
        FileRejected,
        GaveUpWaiting,
        InvalidConfig,
        InvalidDataset,
        KeyRefused,
        LocalStateError,
        NotKnown,
        NotOffered,
        OutcomeUnknown,
        TaskAppUnhealthy,
        TrainingError,
        UnexpectedReply,
        UsageError,
    )
    from synth_train.domain.model.jobs import JobState, Kind, Phase
    from synth_train.domain.model.places import Place, Problem
    from synth_train.domain.model.plan import Plan
    from synth_train.domain.model.secret import Secret
    from synth_train.domain.usecases.batch import ConfigResult
    from synth_train.entrypoints.library import build_payload, check_config, check_dataset, submit, watch
    from synth_train.ports.backend import Backend
    from synth_train.ports.progress import ProgressPort

    __version__: str

__all__ = [
    "AnswerNeeded",
    "Backend",
    "BackendBusy",
    "BackendError",
    "BackendRefused",
    "BackendUnreachable",
    "ConfigResult",
    "CredentialsError",
    "DatasetReport",
    "FileRejected",
    "GaveUpWaiting",
    "HttpBackend",
    "InMemoryBackend",
    "InvalidConfig",
    "InvalidDataset",
    "JobState",
    "KeyRefused",
    "Kind",
    "LocalStateError",
    "NotKnown",
    "NotOffered",
    "OutcomeUnknown",
    "Phase",
    "Place",
    "Plan",
    "Problem",
    "ProgressPort",
    "RecordedProgress",
    "Rehearsal",
    "Secret",
    "TaskAppUnhealthy",
    "TrainingError",
    "UnexpectedReply",
    "UsageError",
    "__version__",
    "build_payload",
    "check_config",
    "check_dataset",
    "submit",
    "watch",
]

_HOMES = {
    "entrypoints.library": ("build_payload", "check_config", "check_dataset", "submit", "watch"),
    "domain.usecases.batch": ("ConfigResult",),
    "domain.model.dataset": ("DatasetReport",),
    "domain.model.jobs": ("JobState", "Kind", "Phase"),
    "domain.model.places": ("Place", "Problem"),
    "domain.model.plan": ("Plan",),
    "domain.model.secret": ("Secret",),
    "ports.backend": ("Backend",),
    "ports.progress": ("ProgressPort",),
    "adapters.http.backend": ("HttpBackend",),
    "adapters.in_memory.backend": ("InMemoryBackend",),
    "adapters.in_memory.progress": ("RecordedProgress",),
    "adapters.in_memory.rehearsal": ("Rehearsal",),
}
"""Where a name is at home; those that stand nowhere here are errors."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        from synth_train.version import own_version

        return own_version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((home for home, names in _HOMES.items() if name in names), "domain.model.errors")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
