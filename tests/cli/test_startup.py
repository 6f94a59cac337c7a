"""What a command loads before it answers (design §6). The time it takes is measured by benchmarks/startup.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import RL, ROW, SFT, python

HEAVY = {"requests", "urllib3", "rich", "tenacity", "nacl"}

WITHOUT_A_BACKEND = {
    "dataclasses",
    "hashlib",
    "json",
    "synth_train.domain.model.hosting",
    "synth_train.domain.model.replies",
}
"""What a dry run can do without, and what would make it a fifth slower."""

CODE = """\
import sys
from synth_train.__main__ import main
code = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


def loaded_by(folder: Path, *argv: str) -> set[str]:
    return set(python(CODE, *argv, cwd=folder).stderr.splitlines()[-1].split())


@pytest.mark.parametrize("argv", [["--help"], ["train", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_neither_the_domain_nor_anything_heavy(tmp_path: Path, argv: list[str]) -> None:
    loaded = loaded_by(tmp_path, *argv)

    assert not [name for name in loaded if name.startswith(("synth_train.domain", "synth_train.ports"))]
    assert not loaded & (HEAVY | {"msgspec", "dotenv", "tomli", "dataclasses"})


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_a_dry_run_loads_nothing_that_talks_to_a_network(tmp_path: Path, kind: str) -> None:
    (tmp_path / "sft.toml").write_text(SFT)
    (tmp_path / "rl.toml").write_text(RL)
    (tmp_path / "train.jsonl").write_text(ROW)
    loaded = loaded_by(tmp_path, "train", "--config", f"{kind}.toml", "--dry-run")

    assert "msgspec" in loaded
    assert not loaded & (HEAVY | WITHOUT_A_BACKEND)


@pytest.mark.parametrize("argv", [["config", "check", "sft.toml"], ["data", "check", "train.jsonl"]], ids=" ".join)
def test_checks_load_nothing_that_talks_to_a_network(tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "sft.toml").write_text(SFT)
    (tmp_path / "train.jsonl").write_text(ROW)

    assert not loaded_by(tmp_path, *argv) & HEAVY
