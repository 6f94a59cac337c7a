"""One TOML and the options of the command line become a plan, or all that is wrong with them at once (design §4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from synth_train.domain.model import catalog
from synth_train.domain.model.catalog import Gate, Model
from synth_train.domain.model.config.algorithm import default_for, kind_of, wrong_with
from synth_train.domain.model.config.check import check, clues, view_of
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.dataset import Part
from synth_train.domain.model.errors import InvalidConfig, InvalidDataset, UsageError
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import KeyPath, Place, Problem, Severity, dotted, quoted
from synth_train.domain.model.plan import Plan, TaskUrl
from synth_train.ports.config_source import ConfigDocument, Override
from synth_train.ports.datasets import DatasetPort

if TYPE_CHECKING:
    from synth_train.domain.model.config.rl import RlConfig
    from synth_train.domain.model.config.sft import SftConfig

_OPTION_MODEL = Place("--model")
_OPTION_DATASET = Place("--dataset")

_SMALLEST = (
    'The smallest RL config has type = "rl", base in [model] and task_url in [services]; the smallest SFT config'
    ' type = "sft", model and data in [job]. The kind can be given with --type, too.'
)

_MEANT = "If the unknown keys are meant, give --allow-unknown."
_ELSEWHERE = "Other models are trained by --backend local and, with --any-model, by a `synth-ai serve`."


class Choices(Struct, frozen=True, kw_only=True):
    """What the command line says about a config. Each option comes before what the file says."""

    kind: Kind | None = None
    """None: inferred."""
    model: str | None = None
    task_url: str | None = None
    """RL only."""
    dataset: str | None = None
    """SFT only."""
    examples: int | None = None
    """SFT only: upload so many rows."""
    overrides: tuple[Override, ...] = ()
    unknown_keys: UnknownKeys = UnknownKeys.BY_LIKENESS
    gate: Gate = Gate()
    catalogue: bool = True
    """Whether the model must be of the catalogue. The embedded backend trains others too, and so does one that serves
    another machine's (design §5)."""
    models_here: bool = False
    """Whether the folder of a model must be on this machine, as the embedded backend needs it."""


class PlanConfig(Struct, frozen=True, kw_only=True):
    """Turn a config into a plan. Asks nothing of any network, and nothing of a data file but where it is, that it
    can be read, and that it is not empty."""

    datasets: DatasetPort

    def __call__(self, document: ConfigDocument, choices: Choices) -> Plan:
        """The plan of one config.

        Raises:
            InvalidConfig: with every problem, warnings too, in the order of the file, one line each.
            UsageError: an option makes no sense with this file.
        """
        return _Draft(self.datasets, document, choices).plan()


def settle_task_url(plan: Plan, url: str | None, source: str) -> Plan:
    """`plan` with the task URL of the environment, unless the command line or the config gave it one.

    Args:
        plan: of either kind; an SFT plan comes back as it is.
        url: value of `TASK_APP_URL` or `TASK_APP_BASE_URL`, None when neither is set.
        source: where that stands, for showing.

    Raises:
        InvalidConfig: there is no task URL anywhere.
        UsageError: `url` is needed, and is no address of a task app.
    """
    if plan.kind is Kind.SFT:
        return plan
    found = TaskUrl(url.strip(), source) if url is not None and url.strip() else None
    if plan.task_url is not None:
        if found is None or found.same_as(plan.task_url):
            return plan
        return replace(plan, notes=(*plan.notes, _preference(plan.task_url, found)))
    if found is None:
        at = ("services", "task_url")
        problem = Problem(plan.place_of(at), dotted(at), "missing: no task app is named")
        raise InvalidConfig(
            str(problem),
            problems=(problem,),
            hint="Give --task-url URL, or set it here, or set TASK_APP_URL in the environment or in an env file.",
        )
    if found.fault is not None:
        raise UsageError(f"{source}: {found.fault}")
    return replace(plan, task_url=found)


class _Draft:
    """A plan in the making: collects problems as it goes, so that all of them can be told at once."""

    def __init__(self, datasets: DatasetPort, document: ConfigDocument, choices: Choices) -> None:
        self._datasets, self._document, self._choices = datasets, document, choices
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._foreign = False
        """Whether the model is none of the catalogue."""

    def plan(self) -> Plan:
        document, choices = self._document, self._choices
        table = _overlaid(document.table, choices.overrides)
        kind = choices.kind or kind_of(table)
        if kind is None:
            for finding in clues(table):
                self._say(finding.path, finding.what, finding.severity)
            empty = "" if table else ": it has no settings at all"
            self._say((), f"cannot tell whether this is an RL or an SFT config{empty}")
            raise self._invalid(hint=_SMALLEST)
        self._checked = check(table, kind, choices.unknown_keys, lambda path: self._override_of(path) is not None)
        for finding in self._checked.findings:
            self._say(finding.path, finding.what, finding.severity)
        self._algorithm(table, kind)
        view: RlConfig | SftConfig = msgspec.convert(self._checked.table, view_of(kind))
        draft = self._rl(cast("RlConfig", view)) if kind is Kind.RL else self._sft(cast("SftConfig", view))
        if any(problem.severity is Severity.ERROR for problem in self._problems):
            unknown = any(found.of_unknown_key and found.severity is Severity.ERROR for found in self._checked.findings)
            hints = (_MEANT if unknown else "", _ELSEWHERE if self._foreign else "")
            raise self._invalid(hint=" ".join(filter(None, hints)))
        return Plan(
            kind=kind,
            config=document.shown,
            path=document.path,
            table=self._checked.table,
            view=view,
            place_of=self._place_of,
            warnings=self._in_order(),
            notes=tuple(self._notes),
            **draft,
        )

    def _algorithm(self, table: Mapping[str, Any], kind: Kind) -> None:
        if "algorithm" not in table:
            triple = default_for(kind, table)
            self._checked = replace(self._checked, table={"algorithm": triple.as_table(), **self._checked.table})
            self._notes.append(f"{self._document.shown} has no [algorithm]: taken as {triple}")
        elif not any(self._checked.unfit("algorithm", key) for key in ("type", "method", "variety")):
            finding = wrong_with(table, kind)
            if finding is not None:
                self._say(finding.path, finding.what)

    def _rl(self, view: RlConfig) -> dict[str, Any]:
        model, is_base = self._rl_model(view)
        return {"model": model, "model_is_base": is_base, "task_url": self._task_url(view)}

    def _sft(self, view: SftConfig) -> dict[str, Any]:
        return {
            "model": self._sft_model(view),
            "model_is_base": True,
            "dataset": self._dataset(view),
            "validation": self._file(("data", "validation_path"), _text(view.data.validation_path)),
            "examples": self._choices.examples,
        }

    def _rl_model(self, view: RlConfig) -> tuple[str, bool]:
        if self._choices.model is not None:
            return self._source(self._choices.model, _OPTION_MODEL), False
        keys = {
            ("model", "base"): _text(view.model.base),
            ("model", "source"): _text(view.model.source),
            ("policy", "model_name"): _text(view.policy.model_name),
            ("policy", "source"): _text(view.policy.source),
        }
        given = [path for path, name in keys.items() if name]
        if not given:
            if not any(self._checked.unfit(*path) for path in keys):
                self._say(
                    ("model", "base"),
                    "missing: name a catalogue model in base or a fine-tuned one in source, or give --model",
                )
            return "", True
        at, *others = given
        for other in others:
            if other[0] == at[0]:
                self._say(other, f"{at[1]} is set as well: one names a catalogue model, the other a fine-tuned one")
            elif keys[other] != keys[at]:
                self._say(other, f"not used, since {dotted(at)} names another model", Severity.WARNING)
        if at[1] == "source":
            return self._source(keys[at], at), False
        return self._base(keys[at], at), True

    def _sft_model(self, view: SftConfig) -> str:
        if self._choices.model is not None:
            return self._base(self._choices.model, _OPTION_MODEL, Kind.SFT)
        at = ("job", "model")
        name = _text(view.job.model)
        if name:
            return self._base(name, at, Kind.SFT)
        if not self._checked.unfit(*at):
            self._say(at, "missing: name a catalogue model, or give --model")
        return ""

    def _base(self, name: str, at: KeyPath | Place, kind: Kind = Kind.RL) -> str:
        """A name that must be a base model."""
        name = name.strip()
        if not self._choices.catalogue:
            return self._own_model(name, at)
        model = catalog.find(name)
        if model is None and catalog.base_of(name) is not None:
            remedy = "put it in source instead" if kind is Kind.RL else "SFT jobs start from a catalogue model"
            self._say(at, f"{quoted(name)} is a fine-tuned model; {remedy}")
        elif model is None:
            self._not_in_catalogue(name, at)
        else:
            self._allow(model, at, kind)
            return model.id
        return name

    def _source(self, name: str, at: KeyPath | Place) -> str:
        """A name that may be a fine-tuned model of ours, or a base model."""
        name = name.strip()
        if not self._choices.catalogue:
            return self._own_model(name, at)
        base = catalog.base_of(name)
        if base is not None:
            self._allow(base, at, Kind.RL)
            return base.id if catalog.find(name) else name
        if ":" in name:
            self._say(
                at,
                f"{quoted(name)} does not say which catalogue model it was tuned from, as ft:Qwen/Qwen3-4B:job_1 does",
            )
        else:
            self._not_in_catalogue(name, at)
        return name

    def _own_model(self, name: str, at: KeyPath | Place) -> str:
        """A model for the embedded backend, a path made absolute: the worker that loads it runs elsewhere.

        A path is told from an `org/name` by how it begins, and looked up like every path: from the TOML's directory,
        or from the working directory if it was typed.
        """
        if not name.startswith(("./", "../", "~", "/")):
            return name
        typed = isinstance(at, Place) or self._override_of(at) is not None
        located = self._datasets.locate(name, beside=None if typed else self._document.path.parent)
        if located.path is None and self._choices.models_here:
            self._say(at, f"there is no such folder; looked for {', then for '.join(map(str, located.tried))}")
        return str(located.path or located.tried[0])

    def _not_in_catalogue(self, name: str, at: KeyPath | Place) -> None:
        self._foreign = True
        near = catalog.near(name)
        advice = f"did you mean {' or '.join(near)}?" if near else "it holds Qwen3 models, such as Qwen/Qwen3-4B."
        self._say(at, f"{quoted(name)} is not in the catalogue; {advice} All are listed by `synth-ai config models`")

    def _allow(self, model: Model, at: KeyPath | Place, kind: Kind) -> None:
        if not model.trains(kind):
            able = ", ".join(other.id for other in catalog.MODELS[:6] if other.trains(kind))
            self._say(at, f"{model.id} cannot be trained with RL; {able} and others can")
        elif self._choices.gate.covers(model):
            if self._choices.gate.open:
                self._say(at, f"{model.id} is experimental: it may fail, change or go away", Severity.WARNING)
            else:
                self._say(at, f"{model.id} is experimental; allow it with --allow-experimental or SDK_EXPERIMENTAL=1")

    def _task_url(self, view: RlConfig) -> TaskUrl | None:
        at = ("services", "task_url")
        written = _text(view.services.task_url)
        in_file = TaskUrl(written, str(self._place_of(at))) if written else None
        if self._choices.task_url is None:
            if in_file is not None and in_file.fault is not None:
                self._say(at, in_file.fault)
            return in_file
        option = TaskUrl(self._choices.task_url.strip(), "--task-url")
        if option.fault is not None:
            raise UsageError(f"--task-url: {option.fault}")
        if in_file is not None and not in_file.same_as(option):
            self._notes.append(_preference(option, in_file))
        return option

    def _dataset(self, view: SftConfig) -> Path | None:
        if self._choices.dataset is not None:
            return self._located(self._choices.dataset, _OPTION_DATASET, beside=None)
        for at, name in ((("job", "data"), view.job.data), (("job", "data_path"), view.job.data_path)):
            if _text(name):
                return self._file(at, _text(name))
        if not (self._checked.unfit("job", "data") or self._checked.unfit("job", "data_path")):
            self._say(("job", "data"), "missing: name a JSONL file, or give --dataset")
        return None

    def _file(self, at: KeyPath, name: str) -> Path | None:
        """A file that a key names, None when it names none. A key set on the command line means a file there."""
        if not name:
            return None
        return self._located(name, at, beside=None if self._override_of(at) else self._document.path.parent)

    def _located(self, name: str, at: KeyPath | Place, *, beside: Path | None) -> Path | None:
        located = self._datasets.locate(name, beside=beside)
        key = str(at) if isinstance(at, Place) else dotted(at)
        if located.path is None:
            self._say(at, located.nowhere)
        elif located.shadowed is not None:
            self._notes.append(
                f"{key}: using {located.path}, beside the config,"
                f" not {located.shadowed}, which is another file of that name in the working directory"
            )
        elif located.path != located.tried[0]:
            self._notes.append(
                f"{key}: using {located.path}, in the working directory; beside the config, at {located.tried[0]},"
                " there is none"
            )
        if located.path is not None:
            self._readable(located.path, at)
        return located.path

    def _readable(self, path: Path, at: KeyPath | Place) -> None:
        try:
            with self._datasets.open(Part(path, 0, 0)):
                pass
            if not self._datasets.stamp(path).size:
                self._say(at, f"{path}: no examples: the file is empty")
        except InvalidDataset as error:
            self._say(at, f"{error}. {error.hint}".removesuffix(". "))

    def _override_of(self, path: KeyPath) -> Override | None:
        """The last override that sets `path`, or a table that it stands in, or that made `path` by setting a key in
        it."""
        for item in reversed(self._choices.overrides):
            if item.path == path[: len(item.path)]:
                return item
            if item.path[: len(path)] == path and not _holds(self._document.table, path):
                return item
        return None

    def _place_of(self, path: KeyPath) -> Place:
        override = self._override_of(path)
        return self._document.place_of(path) if override is None else Place(_option(override))

    def _say(self, at: KeyPath | Place, what: str, severity: Severity = Severity.ERROR) -> None:
        if isinstance(at, Place):
            self._problems.append(Problem(at, "", what, severity))
        else:
            self._problems.append(Problem(self._place_of(at), dotted(at), what, severity))

    def _in_order(self) -> tuple[Problem, ...]:
        """Options first, then the file from its top."""

        def order(problem: Problem) -> tuple[bool, int]:
            return problem.place.source == self._document.shown, problem.place.line or 0

        return tuple(sorted(self._problems, key=order))

    def _invalid(self, *, hint: str) -> InvalidConfig:
        problems = self._in_order()
        lines = (str(one) if one.severity is Severity.ERROR else f"warning: {one}" for one in problems)
        return InvalidConfig("\n".join(lines), problems=problems, hint=hint)


def _overlaid(table: Mapping[str, Any], overrides: tuple[Override, ...]) -> dict[str, Any]:
    """`table` with the overrides in it, the later ones over the earlier; what is not touched is shared."""
    whole = dict(table)
    for override in overrides:
        inner = whole
        *parents, last = override.path
        for depth, name in enumerate(parents, 1):
            child = inner.get(name, {})
            if not isinstance(child, dict):
                raise UsageError(f"{_option(override)}: {dotted(override.path[:depth])} is not a table in this config")
            inner[name] = child = dict(child)
            inner = child
        inner[last] = override.value
    return whole


def _holds(table: object, path: KeyPath) -> bool:
    """Whether a table has something at a path of names."""
    for name in path:
        if not isinstance(table, Mapping) or name not in table:
            return False
        table = table[name]
    return True


def _option(override: Override) -> str:
    """The option for a message, with its value unless that is text or may hold some: it may be a secret."""
    shown = str(override.value).lower() if isinstance(override.value, bool | int | float) else "..."
    return f"--set {dotted(override.path)}={shown}"


def _preference(used: TaskUrl, other: TaskUrl) -> str:
    instead = f"{other.url} " if other.fault is None else "the one "
    return f"task app {used.url} ({used.source}), not {instead}({other.source})"


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
