"""A short kill run; `benchmarks/kill_run.py --seconds 600` is the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.serving import needs_the_server

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")

REPO = Path(__file__).parents[2]


def test_what_was_acknowledged_is_there_once_after_everybody_was_killed_for_some_seconds(tmp_path: Path) -> None:
    needs_the_server()
    program = [sys.executable, f"{REPO}/benchmarks/kill_run.py", "--seconds", "8", "--seed", "1", "--real", "0"]
    environ = {**os.environ, "PYTHONPATH": str(REPO / "src"), "HOME": str(tmp_path)}
    run = subprocess.run(
        [*program, "--folder", tmp_path / "run"], env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "faults: 0" in run.stdout
