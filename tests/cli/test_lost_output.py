"""stdout that cannot be written to, or that nobody reads: no command ends in a traceback, or in a success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import ROW, SFT, SOURCES

RESULTS = [
    ("--help",),
    ("--version",),
    ("train", "--help"),
    ("train", "--config", "sft.toml", "--dry-run"),
    ("train", "--config", "sft.toml", "--dry-run", "--output", "json"),
    ("config", "check", "sft.toml", "--output", "json"),
    ("config", "schema", "sft"),
    ("data", "check", "train.jsonl", "--output", "json"),
    ("doctor", "--backend", "local", "--output", "json"),
    ("completion", "bash"),
]
"""Commands whose stdout is a result, which nothing else can stand for."""


def run(folder: Path, argv: tuple[str, ...], stdout: int) -> subprocess.CompletedProcess[str]:
    (folder / "sft.toml").write_text(SFT)
    (folder / "train.jsonl").write_text(ROW)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "HOME": str(folder), "SYNTH_AI_HOME": str(folder)}
    command = [sys.executable, "-m", "synth_train", *argv]
    return subprocess.run(command, cwd=folder, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("argv", RESULTS, ids=" ".join)
def test_a_result_that_finds_the_disk_full_is_an_error_in_words(tmp_path: Path, argv: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = run(tmp_path, argv, full.fileno())

    assert ran.returncode == 2
    assert (
        "stdout cannot be written to: No space left on device"
        in ran.stderr.splitlines()[-2 if "json" not in argv else -1]
    )
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("argv", RESULTS, ids=" ".join)
def test_a_result_that_nobody_reads_ends_the_command_without_a_word(tmp_path: Path, argv: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = run(tmp_path, argv, writer)
    os.close(writer)

    assert ran.returncode == 141
    assert "error" not in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "argv", [("jobs", "show", "x", "--output", "json"), ("trian", "--output", "json")], ids=" ".join
)
def test_an_error_keeps_its_number_when_its_document_is_lost(tmp_path: Path, argv: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = run(tmp_path, argv, writer)
    os.close(writer)

    assert ran.returncode in (2, 4)
    assert '"error"' in ran.stderr
