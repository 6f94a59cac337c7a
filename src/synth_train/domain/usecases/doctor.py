"""Look whether everything is there that jobs need, and say of each thing that is not what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from synth_train.domain.model.backend_base import BackendBase, resolve_base
from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.domain.model.errors import CredentialsError, KeyRefused, NotOffered, TrainingError
from synth_train.domain.model.hosting import JobFilter
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import API_KEY, ENVIRONMENT_KEY, TASK_URL, Found, Variables
from synth_train.domain.model.task_app import TaskAppKeys, health_fault, task_info_fault
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.ports.backend import Backend, BackendsPort
from synth_train.ports.env_source import EnvSourcePort
from synth_train.ports.machine import Machine, MachinePort
from synth_train.ports.progress import ProgressPort
from synth_train.ports.prompt import PromptPort
from synth_train.ports.task_app import TaskAppPort

LITTLE_DISK = 5_000_000_000
"""Bytes; a model of a few billion parameters takes more."""


class Doctor(Struct, frozen=True, kw_only=True):
    """Built once with its ports; looks once. It asks nobody, changes nothing, and creates no job."""

    env: EnvSourcePort
    prompt: PromptPort
    backends: BackendsPort
    task_app: TaskAppPort
    machine: MachinePort

    def __call__(
        self,
        *,
        backend: str | None,
        env_files: Sequence[Path],
        task_url: str | None,
        insecure_http: bool,
        devices: bool,
    ) -> Iterator[Finding]:
        """What was found, one after the other. Options are those of `train`.

        Args:
            devices: whether devices are looked for, which loads torch.

        Raises:
            UsageError, LocalStateError: an env file that was named cannot be read.
        """
        keys = ResolveKeys(env=self.env, prompt=self.prompt, progress=ProgressPort())
        variables = keys.variables(given=env_files, needed=())
        machine = self.machine.look(devices=devices)
        yield _versions(machine)
        yield from _env_files(variables)
        api_key = _checked_key(keys, variables.lookup(API_KEY))
        yield _key(API_KEY, variables.lookup(API_KEY), api_key, "the hosted backend asks for it")
        yield _key(
            ENVIRONMENT_KEY,
            variables.environment_key(),
            _checked_key(keys, variables.environment_key()),
            "RL jobs need it; `train` mints one where there is none",
        )
        yield from self._backend(backend, variables, api_key, insecure_http)
        yield from _network(machine)
        yield self._task_app(task_url, variables, keys)
        yield from _disk(machine)
        yield _training(machine)

    def _backend(
        self, option: str | None, variables: Variables, api_key: Secret | TrainingError | None, insecure_http: bool
    ) -> Iterator[Finding]:
        try:
            base = resolve_base(option, variables, insecure_http=insecure_http)
        except TrainingError as error:
            yield _failed("backend", error)
            return
        key = api_key if isinstance(api_key, Secret) and not base.embedded else None
        try:
            backend = self.backends.connect(base.base, key)
            features = backend.features()
        except TrainingError as error:
            yield _failed("backend", error)
            return
        root = f", API root {features.base}" if features.base != base.base else ""
        yield Finding(
            rule="backend", outcome=Outcome.OK, what=f"{base.base} answers{root} (from {_source(base)})", remedy=""
        )
        for note in base.notes:
            yield Finding(rule="backend", outcome=Outcome.WARNING, what=note)
        yield _account(backend, base, key)

    def _task_app(self, option: str | None, variables: Variables, keys: ResolveKeys) -> Finding:
        rule = "task-app"
        found = variables.lookup(*TASK_URL)
        url, source = (option, "--task-url") if option else (found.value, found.where) if found else ("", "")
        if not url:
            return Finding(
                rule=rule, outcome=Outcome.SKIPPED, what="no URL is set", remedy="Name one with --task-url for a look."
            )
        try:
            held = keys.environment_key(variables)
        except CredentialsError as error:
            return _failed(rule, error)
        if held is None:
            what = f"{url} (from {source}) was not asked, as there is no {ENVIRONMENT_KEY}"
            return Finding(rule=rule, outcome=Outcome.SKIPPED, what=what)
        fault = self._fault(url, held)
        if fault is not None:
            return fault
        what = f"{url} is healthy (from {source})"
        return Finding(rule=rule, outcome=Outcome.OK, what=what, remedy=f"All its rules: synth-ai task-app check {url}")

    def _fault(self, url: str, keys: TaskAppKeys) -> Finding | None:
        for fault in (
            health_fault(self.task_app.health(url, keys)),
            task_info_fault(self.task_app.task_info(url, keys)),
        ):
            if fault is not None:
                return Finding(rule="task-app", outcome=Outcome.FAILED, what=fault.what, remedy=fault.remedy)
        return None


def _versions(machine: Machine) -> Finding:
    installed = [f"{name} {version}" for name, version in machine.packages.items() if version]
    what = f"{', '.join(installed)}; Python {machine.python} on {machine.system}"
    return Finding(rule="versions", outcome=Outcome.OK, what=what)


def _env_files(variables: Variables) -> Iterator[Finding]:
    if not variables.files:
        yield Finding(rule="env-files", outcome=Outcome.OK, what="none; values come from the process environment")
    for file in variables.files:
        yield Finding(rule="env-files", outcome=Outcome.OK, what=str(file.path))
        for line in file.unreadable_lines:
            yield Finding(
                rule="env-files",
                outcome=Outcome.WARNING,
                what=f"{file.path}:{line} cannot be read and is passed over",
                remedy="A setting is NAME=value, with every quote closed.",
            )


def _checked_key(keys: ResolveKeys, found: Found | None) -> Secret | TrainingError | None:
    """The key that was found; why it is none; None when nothing was found."""
    if found is None:
        return None
    try:
        return keys.fit(found)
    except CredentialsError as error:
        return error


def _key(name: str, found: Found | None, key: Secret | TrainingError | None, why: str) -> Finding:
    rule = name.lower().replace("_", "-")
    if isinstance(key, TrainingError):
        return _failed(rule, key)
    if found is None or key is None:
        remedy = f"Set {name} in the environment, or put it into a file and name that with --env-file FILE."
        return Finding(rule=rule, outcome=Outcome.WARNING, what=f"not set; {why}", remedy=remedy)
    return Finding(rule=rule, outcome=Outcome.OK, what=f"{key.mask} ({found.where})")


def _source(base: BackendBase) -> str:
    return "the default" if base.source == "default" else base.source


def _account(backend: Backend, base: BackendBase, key: Secret | None) -> Finding:
    """Whether the backend takes the key, told by a list of jobs."""
    rule = "account"
    if key is None and not base.embedded:
        return Finding(rule=rule, outcome=Outcome.SKIPPED, what=f"without {API_KEY} nothing can be asked for")
    try:
        backend.list_jobs(JobFilter(limit=1))
    except KeyRefused as error:
        return _failed(rule, error)
    except NotOffered:
        return Finding(rule=rule, outcome=Outcome.SKIPPED, what="it lists no jobs, so that the key could not be tried")
    except TrainingError as error:
        return Finding(rule=rule, outcome=Outcome.WARNING, what=str(error), remedy=error.hint)
    return Finding(rule=rule, outcome=Outcome.OK, what="it needs no key" if key is None else "it takes the key")


def _network(machine: Machine) -> Iterator[Finding]:
    if not machine.proxies:
        yield Finding(rule="proxy", outcome=Outcome.OK, what="none is set")
    for name, proxy in machine.proxies.items():
        yield Finding(rule="proxy", outcome=Outcome.OK, what=f"{name}={proxy}; loopback hosts are asked directly")
    for setting, there in machine.certificates.items():
        if there:
            yield Finding(rule="certificates", outcome=Outcome.OK, what=setting)
        else:
            remedy = f"Unset {setting.partition('=')[0]}, or name a file that is there."
            yield Finding(rule="certificates", outcome=Outcome.FAILED, what=f"{setting} does not exist", remedy=remedy)
    if not machine.certificates:
        yield Finding(rule="certificates", outcome=Outcome.OK, what="the authorities that requests brings")


def _disk(machine: Machine) -> Iterator[Finding]:
    if machine.home_fault:
        yield Finding(
            rule="home",
            outcome=Outcome.FAILED,
            what=f"{machine.home} cannot be written to: {machine.home_fault}",
            remedy="Submissions are kept there, so that each makes one job. Name another folder with SYNTH_AI_HOME.",
        )
    else:
        yield Finding(rule="home", outcome=Outcome.OK, what=machine.home)
    free = f"{machine.free_disk / 1e9:.1f} GB free"
    if machine.free_disk < LITTLE_DISK:
        remedy = "Models that are trained here need room: delete something, or move with SYNTH_AI_HOME."
        yield Finding(rule="disk", outcome=Outcome.WARNING, what=free, remedy=remedy)
    else:
        yield Finding(rule="disk", outcome=Outcome.OK, what=free)


def _training(machine: Machine) -> Finding:
    rule = "local-training"
    if machine.training_lacks:
        lacks = ", ".join(machine.training_lacks)
        what = f"not installed: {lacks}; so --backend local takes no jobs; checks and dry runs work"
        remedy = f"With Python 3.11 or newer: {machine.training_remedy}"
        return Finding(rule=rule, outcome=Outcome.SKIPPED, what=what, remedy=remedy)
    if machine.devices is None:
        what = f"torch is installed, {machine.cores} cores"
        return Finding(rule=rule, outcome=Outcome.OK, what=what, remedy="Devices are looked for with --devices.")
    return Finding(rule=rule, outcome=Outcome.OK, what=f"on {', '.join(machine.devices)}; {machine.cores} cores")


def _failed(rule: str, error: TrainingError) -> Finding:
    return Finding(rule=rule, outcome=Outcome.FAILED, what=str(error), remedy=error.hint)
