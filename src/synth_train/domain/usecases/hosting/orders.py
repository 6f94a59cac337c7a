"""Reading a job request, in every shape that clients send (wire-contract §2.5, §3.5)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from synth_train.domain.model.addresses import address
from synth_train.domain.model.hosting import Order, Refusal
from synth_train.domain.model.jobs import FileId, Kind

_IN_CLEAR = "environment_api_key"
"""The demo runner puts the environment key here. It is thrown away before anything is kept."""

_POSITIVE_INTEGERS = (
    "n_epochs",
    "batch_size",
    "global_batch",
    "per_device_batch",
    "gradient_accumulation_steps",
    "sequence_length",
    "total_steps",
    "train_steps",
    "steps",
)
_MISSING = object()

_SFT_TYPES = ("sft", "fft", "qft")
"""How training types begin that are SFT; the last two also say which weights are trained."""


def order_in(kind: Kind, body: bytes) -> Order:
    """What a job request asks for.

    Only what every backend needs is checked; which models there are, and what a config means, the trainer knows.

    Raises:
        Refusal: 400 when the body is no JSON object, 422 with every problem when it cannot become a job.
    """
    try:
        table = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Refusal(400, "invalid_json", "the request body is no JSON") from None
    if not isinstance(table, dict):
        raise Refusal(400, "invalid_json", "the request body is no JSON object")
    kept, body = _without_keys_in_clear(table, body)
    reader = _Reader(kept)
    order = _rl(reader, body) if kind is Kind.RL else _sft(reader, body)
    if reader.problems:
        raise Refusal(422, "invalid_request", "; ".join(reader.problems))
    return order


def _without_keys_in_clear(table: dict[str, object], body: bytes) -> tuple[dict[str, object], bytes]:
    data = table.get("data")
    inner = {key: value for key, value in data.items() if key != _IN_CLEAR} if isinstance(data, dict) else data
    kept = {key: inner if key == "data" else value for key, value in table.items() if key != _IN_CLEAR}
    return (table, body) if kept == table else (kept, msgspec.json.encode(kept))


def _rl(reader: _Reader, body: bytes) -> Order:
    if reader.get("job_type", _MISSING) not in (_MISSING, None, "rl"):
        reader.problem("job_type", "must be rl on this route")
    reader.table_at("data")
    at = "data." if "data" in reader.table else ""
    model = reader.text(f"{at}model")
    base = reader.text(f"{at}base_model")
    if bool(model) == bool(base):
        reader.problem(f"{at}model", "exactly one of model and base_model must name a model")
    url = ""
    try:
        url = address(reader.text(f"{at}endpoint_base_url")).url
    except ValueError as reason:
        reader.problem(f"{at}endpoint_base_url", f"must be the URL of the task app, but {reason}")
    reader.table_at(f"{at}config")
    reader.table_at(f"{at}trainer")
    reader.check(f"{at}trainer.batch_size", _at_least(1), "must be an integer of at least 1")
    reader.check(f"{at}trainer.group_size", _at_least(2), "must be an integer of at least 2")
    return Order(
        kind=Kind.RL,
        model=model or base,
        training_type="rl_online",
        task_url=url,
        name=reader.text("name"),
        body=body,
    )


def _sft(reader: _Reader, body: bytes) -> Order:
    training_type = reader.text("training_type") or "sft_offline"
    if not training_type.startswith(_SFT_TYPES):
        reader.problem("training_type", "must be sft_offline, fft or qft on this route")
    model = reader.text("model")
    if not model:
        reader.problem("model", "must name a model")
    training = reader.text("training_file_id") or reader.text("training_file")
    if not training:
        reader.problem("training_file_id", "must be the id of an uploaded file")
    validation = reader.text("validation_file") or _validation_file(reader)
    reader.table_at("hyperparameters")
    for name in _POSITIVE_INTEGERS:
        reader.check(f"hyperparameters.{name}", _at_least(1), "must be an integer of at least 1")
    reader.check("hyperparameters.learning_rate", lambda value: _number(value) > 0, "must be a number above 0")
    reader.check("hyperparameters.warmup_ratio", lambda value: 0 <= _number(value) <= 1, "must be between 0 and 1")
    return Order(
        kind=Kind.SFT,
        model=model,
        training_type=training_type,
        training_file=FileId(training),
        validation_file=FileId(validation) if validation else None,
        name=reader.text("suffix"),
        body=body,
    )


def _validation_file(reader: _Reader) -> str:
    where = "metadata.effective_config.data.validation_files"
    files = reader.get(where, [])
    if isinstance(files, list) and all(isinstance(file, str) for file in files) and len(files) < 2:
        return "".join(files)
    reader.problem(where, "must be a list of at most one file id")
    return ""


def _at_least(least: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and value >= least


def _number(value: object) -> float:
    """The value as a number; one that fits no rule when it is none."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else float("nan")


class _Reader:
    """A JSON object by dotted paths. Remembers every problem instead of raising the first."""

    def __init__(self, table: dict[str, object]) -> None:
        self.table = table
        self.problems: list[str] = []

    def problem(self, path: str, what: str) -> None:
        self.problems.append(f"{path}: {what}")

    def get(self, path: str, default: object = None) -> object:
        at: object = self.table
        for key in path.split("."):
            if not isinstance(at, dict) or key not in at:
                return default
            at = at[key]
        return at

    def text(self, path: str) -> str:
        """The text there; empty when there is none, which is a problem only when there is something else."""
        value = self.get(path)
        if value is None or isinstance(value, str):
            return (value or "").strip()
        self.problem(path, "must be a text")
        return ""

    def table_at(self, path: str) -> None:
        """A rule: what is there is an object."""
        self.check(path, lambda value: isinstance(value, dict), "must be an object")

    def check(self, path: str, good: Callable[[object], bool], what: str) -> None:
        """Apply a rule to what is there. What is absent or null breaks none."""
        value = self.get(path)
        if value is not None and not good(value):
            self.problem(path, what)
