"""One plan from its preflight to the end of its job, on a backend that is connected (design §3)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from synth_train.domain.model.errors import GaveUpWaiting, TrainingError, UsageError
from synth_train.domain.model.jobs import Features, JobId, Kind
from synth_train.domain.model.moments import ApiRootFound, Noted, ProblemFound
from synth_train.domain.model.plan import Plan, TaskUrl
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import ENVIRONMENT_KEY, Variables
from synth_train.domain.model.specs import not_sent, request_of
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.domain.usecases.batch import ConfigResult, Turn
from synth_train.domain.usecases.check_rows import check_rows
from synth_train.domain.usecases.check_task_app import CheckTaskApp
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.domain.usecases.mint import MintEnvironmentKey, PatientVault, publish_environment_key
from synth_train.domain.usecases.retries import retried
from synth_train.domain.usecases.submit import READY_INTERVAL, PreparedJob, SubmitJob, SubmitOptions
from synth_train.domain.usecases.watch import WatchJob
from synth_train.ports.backend import Backend

if TYPE_CHECKING:
    from synth_train.domain.usecases.train import Train, TrainRequest


class CarryOut:
    """Called once for each config of a run; what all of them need is asked for once, when it is first needed."""

    def __init__(
        self,
        *,
        ports: Train,
        request: TrainRequest,
        keys: ResolveKeys,
        variables: Variables,
        backend: Backend,
        api_key: Secret | None,
    ) -> None:
        self._ports = ports
        self._request = request
        self._keys = keys
        self._variables = variables
        self._backend = backend
        self._api_key = api_key
        self._vault = PatientVault(backend, ports.patience, ports.progress)

    def __call__(self, turn: Turn, plan: Plan) -> ConfigResult:
        """What became of the config, errors of the watch included.

        Raises:
            TrainingError: no job was created, or it may exist; see `SubmitJob`, `CheckTaskApp`, `CheckDataset`.
        """
        # Rows first: what is wrong with them is known without a request.
        training, validation = check_rows(plan, self._ports.datasets, self._ports.progress)
        features = self._features
        if features.obstacle:
            raise UsageError(features.obstacle, hint=features.remedy)
        for problem in not_sent(plan, features.takes_config):
            self._ports.progress.tell(ProblemFound(problem=problem))
        if plan.kind is Kind.RL:
            self._check_task_app(cast("TaskUrl", plan.task_url).url)
        submit = SubmitJob(
            backend=self._backend,
            api_key=self._api_key,
            datasets=self._ports.datasets,
            journal=self._ports.journal,
            patience=self._ports.patience,
            clock=self._ports.clock,
            entropy=self._ports.entropy,
            progress=self._ports.progress,
        )
        job = PreparedJob(
            kind=plan.kind,
            config=plan.config,
            table=plan.table,
            request=request_of(plan, features.base, features.takes_config),
            training=training,
            validation=validation,
        )
        options = SubmitOptions(
            key=turn.key(self._request.key),
            fresh=self._request.fresh,
            file_timeout=self._request.poll_timeout,
            file_interval=min(READY_INTERVAL, self._request.poll_interval),
            env_files=self._env_files,
        )
        result = ConfigResult(config=turn.config, kind=plan.kind, job_id=submit(job, options))
        return self._watched(result) if self._request.poll else result

    def _watched(self, result: ConfigResult) -> ConfigResult:
        watch = WatchJob(
            backend=self._backend,
            feed=self._backend,
            journal=self._ports.journal,
            patience=self._ports.patience,
            clock=self._ports.clock,
            progress=self._ports.progress,
            env_files=self._env_files,
        )
        try:
            state = watch(
                cast("Kind", result.kind),
                cast("JobId", result.job_id),
                interval=self._request.poll_interval,
                timeout=self._request.poll_timeout,
            )
        except TrainingError as error:
            return replace(result, word=error.word if isinstance(error, GaveUpWaiting) else "", error=error)
        return replace(
            result,
            word=state.word,
            phase=state.phase,
            reason=state.reason,
            fine_tuned_model=state.fine_tuned_model,
        )

    @property
    def _env_files(self) -> tuple[Path, ...]:
        return tuple(file.path for file in self._variables.files)

    @cached_property
    def _features(self) -> Features:
        before = self._backend.base
        features = retried(
            self._backend.features,
            what="reach the backend",
            patience=self._ports.patience,
            progress=self._ports.progress,
        )
        if features.base != before:
            self._ports.progress.tell(ApiRootFound(base=features.base))
        return features

    def _check_task_app(self, task_url: str) -> None:
        check = CheckTaskApp(
            backend=self._backend,
            task_app=self._ports.task_app,
            patience=self._ports.patience,
            clock=self._ports.clock,
            progress=self._ports.progress,
        )
        keys = self._environment_keys
        check(task_url, keys, publish=lambda: publish_environment_key(self._vault, self._ports.sealer, keys.primary))

    @cached_property
    def _environment_keys(self) -> TaskAppKeys:
        """The keys of the task app: found, or minted once for all configs."""
        mint = MintEnvironmentKey(
            keys=self._keys,
            sealer=self._ports.sealer,
            entropy=self._ports.entropy,
            progress=self._ports.progress,
        )
        keys = self._keys.environment_key(self._variables) or mint(
            self._vault, self._variables, replace=self._request.mint
        )
        found = self._variables.environment_key()
        if found and self._request.mint:
            self._ports.progress.tell(
                Noted(text=f"--mint has no effect: there is {found.where}; take it out for a new one.", warning=True)
            )
        self._backend.lend_environment_key(
            keys,
            name=found.name if found else ENVIRONMENT_KEY,
            file=self._variables.file_of(found) if found else None,
        )
        return keys
