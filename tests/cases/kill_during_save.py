"""Saves a key over and over in a child and kills it at 50 moments of a save; prints what each kill left, as JSON.

    python kill_during_save.py ENV_FILE

The moments are spread over the time that a save takes here. A program of its own, because it forks, which a process
with threads should not.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from itertools import cycle
from pathlib import Path

from synth_train.adapters.dotenv_env import DotenvEnv

KILLS = 50


def save(path: Path, letter: str) -> None:
    DotenvEnv().save(path, "ENVIRONMENT_API_KEY", f"fake-{letter * 60}")


def seconds_of_a_save(path: Path) -> float:
    """Measured on a copy elsewhere; the slowest of a few, so that the kills reach the end of a save, too."""
    aside = path.parent.parent / "measured.env"
    shutil.copyfile(path, aside)
    taken = []
    for letter in "abab":
        began = time.monotonic()
        save(aside, letter)
        taken.append(time.monotonic() - began)
    aside.unlink()
    return max(taken)


def kill_one(path: Path, *, saves: int, delay: float) -> dict[str, object]:
    """Let a child save `saves` times, and kill it `delay` seconds into the next one."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b".")
        for letter in cycle("ab"):
            save(path, letter)
            os.write(tell, b".")
    for _ in range(saves + 1):
        os.read(told, 1)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(told)
    os.close(tell)
    others = [other for other in path.parent.iterdir() if other != path]
    modes = [other.stat().st_mode & 0o777 for other in others]
    left: dict[str, object] = {"content": path.read_text(), "modes_of_others": modes}
    for other in others:
        other.unlink()
    return left


if __name__ == "__main__":
    env_file = Path(sys.argv[1])
    takes = seconds_of_a_save(env_file)
    json.dump(
        [kill_one(env_file, saves=turn % 3, delay=takes * turn / KILLS) for turn in range(KILLS)],
        sys.stdout,
    )
