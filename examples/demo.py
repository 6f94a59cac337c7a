"""The SFT example through the real command, from its TOML to the job's end. `make demo` runs it.

The backend on the other side is real in all but its training: it stores the file, checks, queues and reports over HTTP,
but lives in the memory of this process, and its trainer only takes time.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from synth_train.adapters.in_memory.backend import InMemoryHosting
from synth_train.adapters.serving.server import ServerThread
from synth_train.adapters.system_clock import SystemClock

CONFIG = Path(__file__).parent / "sft" / "sft.toml"


def main() -> int:
    hosting = InMemoryHosting(clock=SystemClock())
    hosting.executor.delay, hosting.trainer.lasts = 1.0, 3.0
    with ServerThread(hosting.hosting) as server, tempfile.TemporaryDirectory() as state:
        command = ["train", "--config", os.path.relpath(CONFIG), "--backend", server.url, "--poll-interval", "0.5"]
        print("This demo trains no model: its backend lives in memory, and its trainer only takes time.")
        print(f"$ synth-ai {shlex.join(command)}", flush=True)
        environment = {**os.environ, "SYNTH_API_KEY": "sk-demo-0123456789abcdef", "SYNTH_AI_HOME": state}
        return subprocess.run([sys.executable, "-m", "synth_train", *command], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
