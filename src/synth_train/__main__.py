"""`synth-ai`, and `python -m synth_train`."""

from __future__ import annotations

import sys

from synth_train.entrypoints.cli import main

if __name__ == "__main__":
    sys.exit(main())
