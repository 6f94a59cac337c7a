"""`synth-ai`, and `python -m synth_train`."""

from __future__ import annotations

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until there is somebody to catch it, Ctrl-C ends the process as it ends others: at once, and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from synth_train.entrypoints.cli import main

if __name__ == "__main__":
    sys.exit(main())
