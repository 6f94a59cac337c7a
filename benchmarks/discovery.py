"""How long does it take to find the training configs in a large tree?

    python benchmarks/discovery.py [--files 100000]

Rival: a bare `os.walk` that skips the same folders and does nothing. Budget (design §6): under 2 times that. Both run
in this process, in turn; the best of several runs counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from synth_train.adapters.toml_configs import TOOL_FOLDERS, TomlConfigs

RUNS = 7
BUDGET = 2.0
PER_FOLDER = 100
CONFIG = '[algorithm]\ntype = "offline"\nmethod = "sft"\nvariety = "fft"\n\n[job]\nmodel = "Qwen/Qwen3-4B"\n'
OTHER = '[project]\nname = "x"\n'


def grow(root: Path, files: int) -> None:
    """A tree of `files` files: one in a thousand is a training config, one in a thousand another TOML, and a tenth lies
    in folders that are not entered."""
    for folder_number in range(files // PER_FOLDER):
        skipped = "node_modules" if folder_number % 10 == 9 else "src"
        folder = root / f"part{folder_number % 17}" / f"unit{folder_number % 7}" / skipped / f"f{folder_number}"
        folder.mkdir(parents=True)
        for number in range(PER_FOLDER):
            (folder / f"module_{number}.py").touch()
        if folder_number % 10 == 0:
            (folder / "config.toml").write_text(CONFIG)
            (folder / "pyproject.toml").write_text(OTHER)


def bare_walk(root: Path) -> int:
    """The rival: enter the same folders, look at nothing."""
    folders = 0
    for _, inner, _ in os.walk(root):
        inner[:] = [name for name in inner if name not in TOOL_FOLDERS]
        folders += 1
    return folders


def best_of(*calls: Callable[[], object]) -> list[float]:
    """Seconds of the fastest run of each, the calls taking turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(RUNS):
        for call, taken in zip(calls, times, strict=True):
            begin = time.perf_counter()
            call()
            taken.append(time.perf_counter() - begin)
    return [min(taken) for taken in times]


def main() -> int:
    """Print both times and their ratio; exit status 1 when it is over the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        grow(root, files)
        configs = TomlConfigs(root, home=root / ".synth-ai")
        found = len(configs.discover())
        walk, discover = best_of(lambda: bare_walk(root), configs.discover)
    ratio = discover / walk
    print(f"{files} files, {found} configs found")
    print(f"bare os.walk  {walk * 1000:7.1f} ms")
    print(f"discovery     {discover * 1000:7.1f} ms   {ratio:.2f} x (budget {BUDGET:g} x)")
    return 0 if ratio < BUDGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
