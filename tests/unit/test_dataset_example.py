"""The chats that come with the project."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.domain.usecases.check_dataset import CheckDataset

FOLDER = Path(__file__).parents[2] / "examples" / "sft"


def test_the_example_is_a_few_hundred_rows_without_a_problem() -> None:
    datasets = InMemoryDatasets()
    report = CheckDataset(datasets=datasets)(datasets.write("chats.jsonl", (FOLDER / "chats.jsonl").read_bytes()))

    assert 200 <= report.rows <= 500
    assert (report.errors, report.warnings) == (0, 0)


def test_the_examples_are_what_their_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("make_chats", FOLDER / "make_chats.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    files = {
        path.name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in FOLDER.glob("*.jsonl")
    }
    assert files == module.files()
