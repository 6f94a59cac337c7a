"""Are the TOML files of the public SDK's wheel accepted, and with the same payload?

    pip download --no-deps synth-ai==0.2.16
    python benchmarks/shipped_tomls.py synth_ai-0.2.16-py3-none-any.whl [--compare]

Every file that is valid TOML, describes a training job and names a catalogue model must become a plan, given
`--allow-experimental` and a task URL (RL) or a dataset (SFT). With `--compare` the SDK's own builder is asked too (its
dependencies must be installed), and where it accepts a file both payloads must be equal.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from synth_train.adapters import toml_text
from synth_train.domain.model import catalog
from synth_train.domain.model.catalog import Gate
from synth_train.domain.model.dataset import Part, Stamp
from synth_train.domain.model.errors import InvalidConfig
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.plan import Plan
from synth_train.domain.model.specs import request_of
from synth_train.domain.usecases.plan import Choices, PlanConfig
from synth_train.ports.config_source import ConfigDocument
from synth_train.ports.datasets import DatasetPort, Located

TASK_URL = "https://task.example"
BACKEND = "https://backend.example/api"


class AnyFile:
    """So much of a DatasetPort as plans need; every file is there, since only the configs are looked at here."""

    def locate(self, name: str, *, beside: Path | None) -> Located:
        path = (beside or Path("/data")) / name
        return Located(path=path, tried=(path,))

    def stamp(self, path: Path) -> Stamp:
        return Stamp(1, 0)

    def open(self, part: Part) -> BinaryIO:
        return BytesIO()


def main() -> int:
    """Print the counts; exit status 1 when a file is refused that should not be, or a payload differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--compare", action="store_true", help="ask the SDK's builder too")
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with zipfile.ZipFile(args.wheel) as wheel, tempfile.TemporaryDirectory() as scratch:
        if args.compare:
            wheel.extractall(scratch)
            sys.path.insert(0, scratch)
        for name in sorted(name for name in wheel.namelist() if name.endswith(".toml")):
            counts["TOML files"] += 1
            document = readable(wheel.read(name), name, counts)
            if document is None:
                continue
            try:
                plan = plan_of(document)
            except InvalidConfig as error:
                counts["refused"] += 1
                failures.append(f"refused: {error}")
                continue
            counts[f"accepted, {plan.kind.value}"] += 1
            counts["warnings"] += len(plan.warnings)
            if args.compare:
                verdict = compared(plan, Path(scratch, name), Path(scratch))
                counts[verdict.partition(":")[0]] += 1
                if verdict.startswith("payload differs"):
                    failures.append(f"{name}: {verdict}")
    for what, count in counts.items():
        print(f"{count:4}  {what}")
    print(*failures, sep="\n")
    return 1 if failures else 0


def readable(raw: bytes, name: str, counts: Counter[str]) -> ConfigDocument | None:
    """The config in `raw`, None when it is not one that must be accepted; says why in `counts`."""
    try:
        document = toml_text.document(raw, path=Path("/wheel", name), shown=name)
    except InvalidConfig:
        counts["no TOML"] += 1
        return None
    if not any(isinstance(document.table.get(table), dict) for table in toml_text.TRAINING_TABLES):
        counts["no training table"] += 1
        return None
    models = [
        table.get(key)
        for section, *keys in (("model", "base", "source"), ("job", "model"), ("policy", "model_name", "source"))
        if isinstance(table := document.table.get(section), dict)
        for key in keys
    ]
    if not any(isinstance(model, str) and catalog.base_of(model) for model in models):
        counts["no catalogue model"] += 1
        return None
    return document


def plan_of(document: ConfigDocument) -> Plan:
    """Plan it as RL when it has no dataset to give, else as SFT, or let the file say."""
    plan_config = PlanConfig(datasets=cast("DatasetPort", AnyFile()))
    choices = Choices(task_url=TASK_URL, dataset="rows.jsonl", gate=Gate(open=True))
    try:
        return plan_config(document, choices)
    except InvalidConfig as error:
        if "cannot tell whether" not in str(error):
            raise
    kind = Kind.SFT if "job" in document.table else Kind.RL
    return plan_config(document, msgspec.structs.replace(choices, kind=kind))


def compared(plan: Plan, config: Path, scratch: Path) -> str:
    """What the SDK's builder makes of the same file."""
    from synth_ai.api.train import builders  # type: ignore[import-not-found]

    rows = scratch / "rows.jsonl"
    rows.write_text("{}\n")
    try:
        if plan.kind is Kind.RL:
            built = builders.build_rl_payload(
                config_path=config,
                task_url=TASK_URL,
                overrides={"backend": BACKEND},
                idempotency=None,
                allow_experimental=True,
            )
        else:
            built = builders.build_sft_payload(config_path=config, dataset_override=rows, allow_experimental=True)
    except Exception:  # noqa: BLE001 - whatever it raises, it does not accept the file
        return "not accepted by the SDK"
    request = request_of(plan, BACKEND, False)
    if plan.kind is Kind.SFT and built.validation_file is None:
        request = msgspec.structs.replace(request, validates=False)
    ours = json.loads(request.encode())
    return "payload equal" if ours == built.payload else f"payload differs: {differing(ours, built.payload)}"


def differing(ours: Any, theirs: Any, path: str = "") -> str:
    """The first spot at which two payloads differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in (*ours, *(key for key in theirs if key not in ours)):
            if ours.get(key) != theirs.get(key):
                return differing(ours.get(key), theirs.get(key), f"{path}.{key}")
    return f"{path}: ours {ours!r}, theirs {theirs!r}"


if __name__ == "__main__":
    raise SystemExit(main())
