"""`synth-ai serve` whose workers train as their jobs say: see `fake_worker`. Takes the arguments of `serve`."""

from __future__ import annotations

import sys

from support import fake_worker
from synth_train.entrypoints.cli import main, serve

if __name__ == "__main__":
    serve.PROGRAM = (sys.executable, fake_worker.__file__)
    sys.exit(main(["serve", *sys.argv[1:]]))
