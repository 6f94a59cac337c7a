"""The facade for programs that embed us. It does what the command line does, and neither prints, asks nor exits.

Keys and addresses come from where the command line has them: the process environment, then `./.env`. What goes wrong
is raised as a `TrainingError`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.in_memory.backend import InMemoryBackend
from synth_train.adapters.in_memory.configs import InMemoryConfigs
from synth_train.adapters.in_memory.rehearsal import Rehearsal
from synth_train.adapters.stdin_prompt import NobodyToAsk
from synth_train.domain.model.config.check import DEEPEST
from synth_train.domain.model.dataset import DatasetReport
from synth_train.domain.model.errors import InvalidConfig
from synth_train.domain.model.jobs import JobId, JobState, Kind, idempotency_key
from synth_train.domain.model.places import KeyPath, Place, Problem, dotted
from synth_train.domain.model.plan import Plan
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import API_KEY
from synth_train.domain.usecases.batch import ConfigResult
from synth_train.domain.usecases.train import TrainRequest
from synth_train.entrypoints.wiring import App, build_app, on_clock, rehearsed
from synth_train.ports.backend import Backend, BackendsPort
from synth_train.ports.config_source import ConfigDocument
from synth_train.ports.progress import ProgressPort

Config = str | os.PathLike[str] | Mapping[str, Any]
"""The path of a TOML, or what such a TOML would hold: then paths in it begin at the working directory, and may be of
any type that stands for a path."""

Service = Backend | Rehearsal | str
"""An object, or the base URL of one."""


def submit(
    config: Config,
    *,
    backend: Service | None = None,
    api_key: Secret | None = None,
    model: str | None = None,
    task_url: str | None = None,
    dataset: str | os.PathLike[str] | None = None,
    examples: int | None = None,
    idempotency: str | None = None,
    any_model: bool = False,
    wait: bool = True,
    timeout: float = 3600.0,
    interval: float = 5.0,
    progress: ProgressPort | None = None,
) -> ConfigResult:
    """Create the job that `config` describes, exactly once, and follow it to its end.

    Args:
        backend: an object, a base URL, or None for what the environment says, else the hosted one.
        api_key: None takes SYNTH_API_KEY from the environment or `./.env`.
        model, task_url, dataset, examples: each comes before what the config says.
        idempotency: one job for this key, however often it is asked for.
        any_model: ask no catalogue, since the backend is a `synth-ai serve`, which trains what its machine has.
        wait: False returns as soon as the job is created and started.
        timeout, interval: seconds to wait at most, and between two looks.
        progress: told what happens, in the thread that calls.

    Returns:
        The job's id and how it ended. A job that failed is a result, not an error: see `phase` and `ok`.

    Raises:
        TrainingError: there is no job (any kind but the next two); the job may exist (`OutcomeUnknown`), and the same
            call again finds out; the job goes on (`GaveUpWaiting`).
        ValueError: `idempotency` cannot stand in an HTTP header.
    """
    request = TrainRequest(
        configs=(_path(config),),
        backend=_base(backend),
        model=model,
        task_url=task_url,
        dataset=_text(dataset),
        examples=examples,
        key=None if idempotency is None else idempotency_key(idempotency),
        any_model=any_model,
        poll=wait,
        poll_timeout=timeout,
        poll_interval=interval,
    )
    return _only(_app(config, backend, api_key, progress).train(request))


def watch(
    job_id: str,
    *,
    kind: Kind | None = None,
    backend: Service | None = None,
    api_key: Secret | None = None,
    timeout: float = 3600.0,
    interval: float = 5.0,
    progress: ProgressPort | None = None,
) -> JobState:
    """Follow a job that exists to its end, which may be a bad one.

    Args:
        kind: None asks the route of SFT jobs and then that of RL jobs.
        backend, api_key, timeout, interval, progress: as for `submit`.

    Raises:
        GaveUpWaiting: the time is over; the job goes on.
        TrainingError: there is no such job, or the backend cannot be asked.
    """
    app = _app(None, backend, api_key, progress)
    found = app.find_job(JobId(job_id), kind=kind, backend=_base(backend))
    return app.watch(found, interval=interval, timeout=timeout)


def check_config(
    config: Config,
    *,
    kind: Kind | None = None,
    model: str | None = None,
    task_url: str | None = None,
    dataset: str | os.PathLike[str] | None = None,
    allow_experimental: bool | None = None,
    any_model: bool = False,
) -> Plan:
    """What `config` asks for, checked. Needs no key and no network; of the dataset only that it is
    there, can be read, and is not empty.

    Raises:
        InvalidConfig: with every problem.
    """
    return _app(config, None, None, None).check_config(
        _path(config),
        kind=kind,
        model=model,
        task_url=task_url,
        dataset=_text(dataset),
        allow_experimental=allow_experimental,
        any_model=any_model,
    )


def check_dataset(
    path: str | os.PathLike[str], *, examples: int | None = None, progress: ProgressPort | None = None
) -> DatasetReport:
    """What a dataset holds, every row of it checked, or the first `examples` rows.

    Raises:
        InvalidDataset: with the first problems.
    """
    return _app(None, None, None, progress).check_dataset(os.fspath(path), examples=examples)


def build_payload(
    config: Config,
    *,
    backend: str | None = None,
    model: str | None = None,
    task_url: str | None = None,
    dataset: str | os.PathLike[str] | None = None,
    examples: int | None = None,
    any_model: bool = False,
) -> bytes:
    """The body that `submit` would post, with null for the ids of files. Sends nothing; checks the dataset.

    Raises:
        InvalidConfig, InvalidDataset, UsageError: there is no such body.
    """
    request = TrainRequest(
        configs=(_path(config),),
        backend=backend,
        model=model,
        task_url=task_url,
        dataset=_text(dataset),
        examples=examples,
        any_model=any_model,
        dry_run=True,
    )
    return _only(_app(config, None, None, None).train(request)).payload or b""


# -- the adapters


class _GivenConfig(InMemoryConfigs):
    """One config that is no file."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__({}, working_directory=Path.cwd())
        self._table = table

    def read(self, path: Path) -> ConfigDocument:
        place = Place(str(path))
        problems: list[Problem] = []
        table = _as_toml(self._table, (), place, problems)
        if problems:
            raise InvalidConfig("\n".join(map(str, problems)), problems=tuple(problems))
        return ConfigDocument(path=Path.cwd() / path, shown=str(path), table=table, place_of=lambda _: place)


def _as_toml(value: Any, key: KeyPath, place: Place, problems: list[Problem]) -> Any:
    """What a TOML would have made of `value`, a path being text; `problems` gets what no TOML can hold."""
    if len(key) > DEEPEST:
        return value  # refused where the depth of files is, and perhaps without end
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                what = f"a key must be text, not {type(name).__name__}"
                problems.append(Problem(place, dotted(key), what))
        return {
            name: _as_toml(item, (*key, name), place, problems) for name, item in value.items() if isinstance(name, str)
        }
    if isinstance(value, list | tuple):
        return [_as_toml(item, (*key, index), place, problems) for index, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str | int | float | date | time):
        remedy = "; leave the key out" if value is None else ""
        problems.append(Problem(place, dotted(key), f"TOML has no {type(value).__name__}{remedy}"))
    return value


class _GivenBackend(BackendsPort):
    """One backend, wherever one is connected to."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def connect(self, base: str, api_key: Secret | None) -> Backend:
        return self._backend


_GIVEN = "config"
"""Stands for a config that is no file, in messages and in results."""

_KEY_OF_THE_OBJECT = Secret("held by the backend object")
"""Stands for the key of a backend that was given as an object: only the object knows it."""


def _app(config: Config | None, backend: Service | None, api_key: Secret | None, progress: ProgressPort | None) -> App:
    train = replace(build_app(progress or ProgressPort()).train, prompt=NobodyToAsk())
    if isinstance(config, Mapping):
        train = replace(train, configs=_GivenConfig(config))
    if isinstance(backend, Rehearsal):
        return App(rehearsed(train, backend))
    if isinstance(backend, InMemoryBackend):
        train = on_clock(train, backend.world.clock)
    if backend is not None and not isinstance(backend, str):
        train = replace(train, backends=_GivenBackend(backend))
        api_key = api_key or _KEY_OF_THE_OBJECT
    if api_key is not None:
        train = replace(train, env=DotenvEnv({**os.environ, API_KEY: api_key.reveal()}))
    return App(train)


def _only(results: tuple[ConfigResult, ...]) -> ConfigResult:
    (result,) = results
    if result.error is not None:
        raise result.error
    return result


def _base(backend: Service | None) -> str | None:
    if backend is None or isinstance(backend, str):
        return backend
    return backend.backend.base if isinstance(backend, Rehearsal) else backend.base


def _path(config: Config) -> Path:
    return Path(_GIVEN) if isinstance(config, Mapping) else Path(config)


def _text(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
