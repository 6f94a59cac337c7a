"""The sample task app of the examples, as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

PATH = Path(__file__).parents[2] / "examples" / "rl" / "task_app.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sample_task_app", PATH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SAMPLE = _load()
