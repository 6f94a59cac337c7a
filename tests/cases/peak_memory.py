"""Runs a command and writes the most memory it had resident, in KiB, to a file.

    python peak_memory.py OUT COMMAND...

A small process of its own, because a child starts with the memory of its parent on its account.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    code = subprocess.run(sys.argv[2:], check=False).returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    Path(sys.argv[1]).write_text(str(peak if sys.platform != "darwin" else peak // 1024))
    sys.exit(code)
