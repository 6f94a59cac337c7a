"""The whole command as one call: plan every config, find the keys, then submit and watch one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field

from synth_train.domain.model.backend_base import BackendBase, is_embedded, resolve_base
from synth_train.domain.model.catalog import Gate
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.errors import (
    InvalidConfig,
    UsageError,
)
from synth_train.domain.model.jobs import IdempotencyKey, Kind
from synth_train.domain.model.moments import (
    BackendChosen,
    Noted,
    ProblemFound,
)
from synth_train.domain.model.plan import Plan, secrets_in
from synth_train.domain.model.settings import API_KEY, ENVIRONMENT_KEY, TASK_URL, Variables
from synth_train.domain.model.specs import not_sent, request_of
from synth_train.domain.usecases.batch import Batch, ConfigResult, Turn
from synth_train.domain.usecases.check_rows import check_rows
from synth_train.domain.usecases.choose import ChooseConfig
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.domain.usecases.plan import Choices, PlanConfig, settle_task_url
from synth_train.ports.progress import ProgressPort

if TYPE_CHECKING:
    from synth_train.ports.backend import BackendsPort
    from synth_train.ports.clock import ClockPort
    from synth_train.ports.config_source import ConfigSourcePort
    from synth_train.ports.datasets import DatasetPort
    from synth_train.ports.entropy import EntropyPort
    from synth_train.ports.env_source import EnvSourcePort
    from synth_train.ports.journal import JournalPort
    from synth_train.ports.patience import PatiencePort
    from synth_train.ports.prompt import PromptPort
    from synth_train.ports.sealer import SealerPort
    from synth_train.ports.task_app import TaskAppPort


class TrainRequest(Struct, frozen=True, kw_only=True):
    """What the user asks for. Every field is an option of `synth-ai train`."""

    configs: tuple[Path, ...] = ()
    """Empty: discover, and let the prompt choose."""
    kind: Kind | None = None
    """None: inferred from each config."""
    env_files: tuple[Path, ...] = ()
    task_url: str | None = None
    dataset: str | None = None
    backend: str | None = None
    model: str | None = None
    allow_experimental: bool | None = None
    """None: `SDK_EXPERIMENTAL` decides."""
    any_model: bool = False
    """Ask no catalogue: the backend is a `synth-ai serve`, which trains what its machine has."""
    key: IdempotencyKey | None = None
    dry_run: bool = False
    poll: bool = True
    poll_timeout: float = 3600.0
    """Seconds, for the files and for the job each."""
    poll_interval: float = 5.0
    examples: int | None = None
    overrides: tuple[str, ...] = ()
    """Each as `a.b.c=TOML value`."""
    unknown_keys: UnknownKeys = UnknownKeys.BY_LIKENESS
    fresh: bool = False
    """Leave a submission that stopped half-way alone and begin a new one."""
    mint: bool = False
    """Replace an ENVIRONMENT_API_KEY that the backend already holds."""
    insecure_http: bool = False
    """Allow plain HTTP to a host that is not loopback."""

    @property
    def embedded(self) -> bool:
        """Whether the job is for the backend inside this program."""
        return is_embedded(self.backend)


class Train(Struct, frozen=True, kw_only=True):
    """Built once with all ports; called once for each run."""

    configs: ConfigSourcePort
    datasets: DatasetPort
    env: EnvSourcePort
    prompt: PromptPort
    backends: BackendsPort
    task_app: TaskAppPort
    sealer: SealerPort
    journal: JournalPort
    patience: PatiencePort
    clock: ClockPort
    entropy: EntropyPort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def __call__(self, request: TrainRequest) -> tuple[ConfigResult, ...]:
        """What became of each config, in order.

        All configs are planned before the first request goes out. What is wrong with one of them stands in its
        result; what is wrong with the run as a whole is raised.

        Raises:
            UsageError: the options make no sense together, or no config was chosen.
            CredentialsError: a key is missing, before anything was sent.
            LocalStateError: an env file cannot be read or written.
            BackendError, KeyRefused: the backend could not be asked for what every config needs.
        """
        return _Run(self, request).results()


class _Run:
    """One call of `Train`."""

    def __init__(self, ports: Train, request: TrainRequest) -> None:
        self._ports = ports
        self._request = request
        self._tell = ports.progress.tell
        self._keys = ResolveKeys(env=ports.env, prompt=ports.prompt, progress=ports.progress)

    def results(self) -> tuple[ConfigResult, ...]:
        batch = self._planned()
        self._refuse_idle_options(batch)
        if batch.sound:
            self._act_on(batch)
        return batch.results()

    def _act_on(self, batch: Batch) -> None:
        variables = self._variables(batch.plans)
        base = resolve_base(self._request.backend, variables, insecure_http=self._request.insecure_http)
        for note in base.notes:
            self._tell(Noted(text=note, warning=True))
        batch.plan(partial(self._settled, variables=variables))
        if not batch.sound:
            return
        if self._request.dry_run:
            batch.go_through(partial(self._preview, base=base.base))
        else:
            batch.go_through(self._carrying_out(base, variables))

    # -- planning

    def _planned(self) -> Batch:
        """Every config as a plan or with what is wrong with it."""
        choices = self._choices()
        configs = tuple(map(str, self._request.configs)) or (self._chosen(),)
        plan_config = PlanConfig(datasets=self._ports.datasets)

        def plan(turn: Turn) -> Plan:
            planned = plan_config(self._ports.configs.read(Path(turn.config)), choices)
            for problem in planned.warnings:
                self._tell(ProblemFound(problem=problem))
            for note in planned.notes:
                self._tell(Noted(text=note))
            return planned

        batch = Batch(configs, self._ports.progress)
        batch.plan(plan)
        return batch

    def _choices(self) -> Choices:
        # The other env files are chosen later, by what the plans turn out to need.
        named = Variables(
            process=self._ports.env.process(),
            files=tuple(self._ports.env.read(path) for path in self._request.env_files),
        )
        return Choices(
            kind=self._request.kind,
            model=self._request.model,
            task_url=self._request.task_url,
            dataset=self._request.dataset,
            examples=self._request.examples,
            overrides=tuple(map(self._ports.configs.override, self._request.overrides)),
            unknown_keys=self._request.unknown_keys,
            gate=Gate.of(self._request.allow_experimental, named),
            catalogue=not (self._request.embedded or self._request.any_model),
            models_here=self._request.embedded,
        )

    def _chosen(self) -> str:
        return str(ChooseConfig(configs=self._ports.configs, prompt=self._ports.prompt)(self._request.kind))

    def _refuse_idle_options(self, batch: Batch) -> None:
        """An option for a kind of config that is not there would be passed over in silence."""
        if not batch.all_planned:
            return
        kinds = {plan.kind for plan in batch.plans}
        request = self._request
        options = (
            (Kind.SFT, "--dataset", request.dataset is not None),
            (Kind.SFT, "--examples", request.examples is not None),
            (Kind.RL, "--task-url", request.task_url is not None),
            (Kind.RL, "--mint", request.mint),
        )
        for kind, option, given in options:
            if given and kind not in kinds:
                raise UsageError(
                    f"{option} is for {kind.name} configs, and there is none among these", hint=f"Leave {option} out."
                )

    def _variables(self, plans: list[Plan]) -> Variables:
        rl = [plan for plan in plans if plan.kind is Kind.RL]
        needed: list[tuple[str, ...]] = []
        if not (self._request.embedded or self._request.dry_run):
            needed.append((API_KEY,))
        if rl and not self._request.dry_run:
            needed.append((ENVIRONMENT_KEY,))
        if any(plan.task_url is None for plan in rl):
            needed.append(TASK_URL)
        return self._keys.variables(
            given=self._request.env_files,
            needed=needed,
            beside=tuple(dict.fromkeys(plan.path.parent for plan in plans)),
            dry_run=self._request.dry_run,
        )

    def _settled(self, turn: Turn, *, variables: Variables) -> Plan:
        """The plan with what only the variables can tell, and with no key in it."""
        plan = cast("Plan", turn.plan)
        found = variables.lookup(*TASK_URL)
        settled = settle_task_url(plan, found.value if found else None, found.where if found else "")
        for note in settled.notes[len(plan.notes) :]:
            self._tell(Noted(text=note))
        problems = secrets_in(settled, variables.secrets())
        if problems:
            raise InvalidConfig("\n".join(map(str, problems)), problems=problems)
        return settled

    # -- one after the other

    def _preview(self, turn: Turn, plan: Plan, *, base: str) -> ConfigResult:
        check_rows(plan, self._ports.datasets, self._ports.progress)
        for problem in not_sent(plan, self._request.embedded):
            self._tell(ProblemFound(problem=problem))
        request = request_of(plan, base, self._request.embedded)
        return ConfigResult(config=turn.config, kind=plan.kind, payload=request.encode())

    def _carrying_out(self, base: BackendBase, variables: Variables) -> Callable[[Turn, Plan], ConfigResult]:
        # Loaded here, because a dry run needs none of it and should take no time.
        from synth_train.domain.usecases.carry_out import CarryOut

        api_key = None if base.embedded else self._keys.api_key(variables)
        self._tell(BackendChosen(base=base.base, key_mask=api_key.mask if api_key else None))
        return CarryOut(
            ports=self._ports,
            request=self._request,
            keys=self._keys,
            variables=variables,
            backend=self._ports.backends.connect(base.base, api_key),
            api_key=api_key,
        )
