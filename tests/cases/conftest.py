"""Fixtures of the case tests: each test has a directory, a home and an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.harness import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
