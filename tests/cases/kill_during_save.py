"""Saves a key over and over in a child and kills it at 50 moments; prints what each kill left, as JSON.

    python kill_during_save.py ENV_FILE

Run as a program of its own: it forks, which a process with threads should not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from itertools import cycle
from pathlib import Path

from synth_train.adapters.dotenv_env import DotenvEnv

KILLS = 50
LONGEST_DELAY = 0.02
"""Seconds; a save takes about a tenth of it, so that kills fall on every step of one."""


def save_for_ever(path: Path) -> None:
    for letter in cycle("ab"):
        DotenvEnv().save(path, "ENVIRONMENT_API_KEY", f"fake-{letter * 60}")


def kill_one(path: Path, delay: float) -> dict[str, object]:
    child = os.fork()
    if child == 0:
        save_for_ever(path)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    others = [other for other in path.parent.iterdir() if other != path]
    left: dict[str, object] = {
        "content": path.read_text(),
        "modes_of_others": [other.stat().st_mode & 0o777 for other in others],
    }
    for other in others:
        other.unlink()
    return left


if __name__ == "__main__":
    env_file = Path(sys.argv[1])
    json.dump([kill_one(env_file, LONGEST_DELAY * (turn + 1) / KILLS) for turn in range(KILLS)], sys.stdout)
