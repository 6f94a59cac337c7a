"""Which adapter plays which part when the real command runs. The only place that knows them all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.jsonl_datasets import JsonlDatasets
from synth_train.adapters.stdin_prompt import prompt_for
from synth_train.adapters.system_clock import SystemClock
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.adapters.toml_configs import TomlConfigs
from synth_train.adapters.user_paths import expanded
from synth_train.domain.model.catalog import Gate
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.errors import InvalidDataset, LocalStateError, TrainingError
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.plan import Plan
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import ENVIRONMENT_KEY, EnvFile, Variables
from synth_train.domain.usecases.plan import Choices, PlanConfig
from synth_train.domain.usecases.train import Train
from synth_train.ports.progress import ProgressPort

if TYPE_CHECKING:
    from synth_train.adapters.in_memory.rehearsal import Rehearsal
    from synth_train.domain.model.checkup import Finding
    from synth_train.domain.model.dataset import DatasetReport
    from synth_train.domain.model.hosting import ResultFile
    from synth_train.domain.model.jobs import Accepted, JobState
    from synth_train.domain.usecases.doctor import Doctor
    from synth_train.domain.usecases.find_job import FindJob, FoundJob
    from synth_train.domain.usecases.inspect_task_app import Inspection
    from synth_train.domain.usecases.jobs_cancel import CancelJob
    from synth_train.domain.usecases.jobs_follow import FollowJob
    from synth_train.domain.usecases.jobs_list import ListJobs
    from synth_train.domain.usecases.jobs_metrics import ReadMetrics
    from synth_train.domain.usecases.jobs_open import FindPage
    from synth_train.domain.usecases.jobs_reach import ReachBackend
    from synth_train.domain.usecases.watch import WatchJob
    from synth_train.ports.backend import Backend, BackendsPort
    from synth_train.ports.clock import ClockPort
    from synth_train.ports.journal import JournalPort
    from synth_train.ports.patience import PatiencePort
    from synth_train.ports.sealer import SealerPort
    from synth_train.ports.task_app import TaskAppPort

T = TypeVar("T")
R = TypeVar("R", bound="ReachBackend")


class App(Struct, frozen=True):
    """Every use case, over the ports of `train`."""

    train: Train

    def check_config(
        self,
        path: Path,
        *,
        kind: Kind | None = None,
        model: str | None = None,
        task_url: str | None = None,
        dataset: str | None = None,
        allow_experimental: bool | None = None,
        any_model: bool = False,
        overrides: tuple[str, ...] = (),
        unknown_keys: UnknownKeys = UnknownKeys.BY_LIKENESS,
    ) -> Plan:
        """One TOML as a plan: neither keys nor a network are needed. The options are those of `TrainRequest`.

        Raises:
            InvalidConfig, UsageError: as `PlanConfig`.
        """
        process = Variables(process=self.train.env.process())
        choices = Choices(
            kind=kind,
            model=model,
            task_url=task_url,
            dataset=dataset,
            overrides=tuple(map(self.train.configs.override, overrides)),
            unknown_keys=unknown_keys,
            gate=Gate.of(allow_experimental, process),
            catalogue=not any_model,
        )
        return PlanConfig(datasets=self.train.datasets)(self.train.configs.read(path), choices)

    def check_dataset(self, name: str, *, examples: int | None) -> DatasetReport:
        """Every row of one file, or the first `examples` rows.

        Raises:
            InvalidDataset: there is no such file, or rows that cannot be trained on.
        """
        located = self.train.datasets.locate(name, beside=None)
        if located.path is None:
            raise InvalidDataset(f"{name}: {located.nowhere}")
        from synth_train.domain.usecases.check_dataset import CheckDataset

        check = CheckDataset(datasets=self.train.datasets, progress=self.train.progress)
        return check(located.path, examples=examples, shown=name)

    @property
    def find_job(self) -> FindJob:
        """See `FindJob`."""
        from synth_train.domain.usecases.find_job import FindJob

        return replace(self._reaching(FindJob), journal=self.train.journal)

    @property
    def list_jobs(self) -> ListJobs:
        """See `ListJobs`."""
        from synth_train.domain.usecases.jobs_list import ListJobs

        return self._reaching(ListJobs)

    @property
    def follow_job(self) -> FollowJob:
        """See `FollowJob`."""
        from synth_train.domain.usecases.jobs_follow import FollowJob

        return FollowJob(patience=self.train.patience, clock=self.train.clock, progress=self.train.progress)

    @property
    def read_metrics(self) -> ReadMetrics:
        """See `ReadMetrics`."""
        from synth_train.domain.usecases.jobs_metrics import ReadMetrics

        return ReadMetrics(patience=self.train.patience, progress=self.train.progress)

    @property
    def find_page(self) -> FindPage:
        """See `FindPage`."""
        from synth_train.domain.usecases.jobs_open import FindPage

        return FindPage(patience=self.train.patience, progress=self.train.progress)

    @property
    def cancel_job(self) -> CancelJob:
        """See `CancelJob`."""
        from synth_train.domain.usecases.jobs_cancel import CancelJob

        return CancelJob(patience=self.train.patience, clock=self.train.clock, progress=self.train.progress)

    def retry_job(self, found: FoundJob, *, env_files: Sequence[Path]) -> Accepted:
        """Run a job again; see `RetryJob`. A backend on this machine is lent the environment key, if there is one."""
        from synth_train.domain.usecases.jobs_retry import RetryJob
        from synth_train.domain.usecases.keys import ResolveKeys

        keys = ResolveKeys(env=self.train.env, prompt=self.train.prompt, progress=ProgressPort())
        variables = keys.variables(given=env_files, needed=())
        held, place = keys.environment_key(variables), variables.environment_key()
        if held is not None and place is not None:
            found.backend.lend_environment_key(held, name=place.name, file=variables.file_of(place))
        retry = RetryJob(
            patience=self.train.patience,
            progress=self.train.progress,
            journal=self.train.journal,
            clock=self.train.clock,
            entropy=self.train.entropy,
        )
        return retry(found)

    def download_model(self, found: FoundJob, folder: Path, *, replace: bool) -> tuple[ResultFile, ...]:
        """Fetch what a job has made into a folder; see `DownloadModel`."""
        from synth_train.adapters.folder_destination import FolderDestination
        from synth_train.domain.usecases.jobs_download import DownloadModel

        download = DownloadModel(patience=self.train.patience, progress=self.train.progress)
        return download(found, FolderDestination(folder), replace=replace)

    @property
    def doctor(self) -> Doctor:
        """See `Doctor`."""
        from synth_train.adapters.this_machine import ThisMachine
        from synth_train.domain.usecases.doctor import Doctor

        return Doctor(
            env=self.train.env,
            prompt=self.train.prompt,
            backends=self.train.backends,
            task_app=self.train.task_app,
            machine=ThisMachine(state_home(), os.environ),
        )

    def inspect_task_app(
        self,
        task_url: str,
        *,
        env_files: Sequence[Path],
        section: Mapping[str, Any],
        rollout_time: float,
        tell: Callable[[Finding], None],
    ) -> Inspection:
        """Hold a task app against the contract, with the keys that the variables have; see `InspectTaskApp`.

        Raises:
            CredentialsError: there is no environment key, or it cannot be sent.
            UsageError: the URL is none.
        """
        from synth_train.adapters.http.scripted_policy import LoopbackPolicy
        from synth_train.adapters.http.task_app import HttpTaskApp
        from synth_train.domain.usecases.inspect_task_app import InspectTaskApp
        from synth_train.domain.usecases.keys import ResolveKeys

        keys = ResolveKeys(env=self.train.env, prompt=self.train.prompt, progress=self.train.progress)
        variables = keys.variables(given=env_files, needed=((ENVIRONMENT_KEY,),))
        found = keys.environment_key(variables)
        if found is None:
            found = keys.with_aliases(keys.ask(ENVIRONMENT_KEY, variables), variables)
        inspect = InspectTaskApp(
            app=HttpTaskApp(), policy=LoopbackPolicy(), clock=self.train.clock, entropy=self.train.entropy
        )
        return inspect(task_url, found, tell=tell, section=section, rollout_time=rollout_time)

    def watch(self, found: FoundJob, *, interval: float, timeout: float, env_files: tuple[Path, ...] = ()) -> JobState:
        """Follow a job to its end; see `WatchJob`."""
        watch = self._watching(found.backend, env_files)
        return watch(found.kind, found.state.job_id, interval=interval, timeout=timeout)

    def watch_several(
        self, found: Sequence[FoundJob], *, interval: float, timeout: float, env_files: tuple[Path, ...] = ()
    ) -> tuple[JobState | TrainingError, ...]:
        """Follow jobs of one backend to their ends; see `WatchJob.several`."""
        jobs = [(one.kind, one.state.job_id) for one in found]
        return self._watching(found[0].backend, env_files).several(jobs, interval=interval, timeout=timeout)

    def _watching(self, backend: Backend, env_files: tuple[Path, ...]) -> WatchJob:
        from synth_train.domain.usecases.watch import WatchJob

        return WatchJob(
            backend=backend,
            feed=backend,
            journal=self.train.journal,
            patience=self.train.patience,
            clock=self.train.clock,
            progress=self.train.progress,
            env_files=env_files,
        )

    def _reaching(self, usecase: type[R]) -> R:
        return usecase(
            env=self.train.env,
            prompt=self.train.prompt,
            backends=self.train.backends,
            patience=self.train.patience,
            progress=self.train.progress,
        )

    def secrets(self, env_files: Sequence[Path]) -> tuple[Secret, ...]:
        """Every key in sight, for redaction."""
        files: list[EnvFile] = []
        for path in env_files:
            try:
                files.append(self.train.env.read(path))
            except TrainingError:
                # It was there a moment ago. What cannot be read any more can still be redacted from the others.
                continue
        return Variables(process=self.train.env.process(), files=tuple(files)).secrets()


def build_app(progress: ProgressPort) -> App:
    """The app that `synth-ai` runs, told of progress through `progress`. Nothing is opened or connected yet.

    Raises:
        LocalStateError: the process stands nowhere.
    """
    clock = SystemClock()
    return App(
        Train(
            configs=TomlConfigs(_here(), home=_known_home()),
            datasets=JsonlDatasets(),
            env=DotenvEnv(),
            prompt=prompt_for(sys.stdin, sys.stdout, sys.stderr, os.environ),
            backends=_late(_backends),
            task_app=_late(_http_task_app),
            sealer=_late(_sealer),
            journal=_late(lambda: _journal(state_home() / "submissions")),
            patience=_late(lambda: _patience(clock)),
            clock=clock,
            entropy=SystemEntropy(),
            progress=progress,
        )
    )


def state_home() -> Path:
    """Our folder for state.

    Raises:
        LocalStateError: no home directory is known, as for a bare user number in a container.
    """
    home = expanded(os.environ.get("SYNTH_AI_HOME") or "~/.synth-ai")
    if str(home).startswith("~"):
        raise LocalStateError(
            f"there is no place for our own files: no home directory is known for {home.parts[0]}",
            hint="Set SYNTH_AI_HOME, or HOME, to a directory that can be written to.",
        )
    return home


def _known_home() -> Path | None:
    """`state_home`, or None: many a command needs none."""
    with suppress(LocalStateError):
        return state_home()
    return None


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise LocalStateError(
            f"the working directory is gone, or closed to us: {error.strerror}",
            hint="Change to a directory that is there.",
        ) from error


def on_clock(train: Train, clock: ClockPort) -> Train:
    """`train` with `clock` for all that it waits for. A backend in memory does nothing while its own clock stands."""
    return replace(train, clock=clock, patience=_patience(clock))


def rehearsed(train: Train, rehearsal: Rehearsal) -> Train:
    """`train` with all that lies outside this process and its files taken from `rehearsal`."""
    return replace(
        on_clock(train, rehearsal.clock),
        env=rehearsal.env,
        backends=rehearsal.backends,
        task_app=rehearsal.task_app,
        sealer=rehearsal.sealer,
        journal=rehearsal.journal,
        entropy=rehearsal.entropy,
    )


# What follows is loaded when it is first used: it would take longer to load than a dry run takes.


def _backends() -> BackendsPort:
    from synth_train.entrypoints.backends import Backends

    return Backends(state_home)


def _http_task_app() -> TaskAppPort:
    from synth_train.adapters.http.task_app import HttpTaskApp

    return HttpTaskApp()


def _sealer() -> SealerPort:
    from synth_train.adapters.sealed_box import SealedBoxSealer

    return SealedBoxSealer()


def _journal(directory: Path) -> JournalPort:
    from synth_train.adapters.file_journal import FileJournal

    return FileJournal(directory)


def _patience(clock: ClockPort) -> PatiencePort:
    from synth_train.adapters.tenacity_patience import TenacityPatience

    return TenacityPatience(clock)


def _late(make: Callable[[], T]) -> T:
    """Something that is made when it is first asked for anything."""
    return cast("T", _Late(make))


class _Late:
    def __init__(self, make: Callable[[], object]) -> None:
        self._make = cache(make)

    def __getattr__(self, name: str) -> object:
        return getattr(self._make(), name)
