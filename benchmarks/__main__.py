"""Every benchmark that needs no argument and no extra, one after the other. `make bench` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = ("startup.py", "dataset_check.py", "upload.py", "discovery.py")


def main() -> int:
    here = Path(__file__).parent
    worst = 0
    for name in SCRIPTS:
        print(f"\n== {name}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, str(here / name)], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
