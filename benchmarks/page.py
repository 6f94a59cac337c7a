"""How soon the page shows something, and its curves, for a job with 100,000 points.

    python benchmarks/page.py [--points 100000] [--metrics 4]

The real server over SQLite on loopback, and headless Chromium with an empty cache. Needs the extra [serve], the group
`web`, and chromium.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.serving.embedded import hosting_in
from synth_train.adapters.serving.server import ServerThread
from synth_train.domain.model.events import Point
from synth_train.domain.model.hosting import owner_of
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.hosting.service import Hosting

KEY = "page-benchmark-0001"
ROUNDS = 5

BODY = b'{"job_type":"rl","data":{"endpoint_base_url":"http://127.0.0.1:1","config":{},"base_model":"tiny"}}'

DRAWN = "document.querySelector('.plot')?.data?.[0]?.x.at(-1) === {steps}"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def a_long_job(hosting: Hosting, steps: int, metrics: int) -> str:
    """A job whose trainer has told a point of each metric at each step."""
    owner = owner_of(Secret(KEY))
    job = hosting.jobs.create(owner, Kind.RL, BODY, route="rl/jobs", key=None)
    hosting.jobs.cancel(owner, job.id)
    names = ["train.loss", "train.reward_mean", "train.learning_rate", "val.loss", *map("other.{}".format, range(99))]
    with hosting.jobs.store.transaction() as rows:
        rows.save_points(
            job.id,
            [
                Point(name=name, step=step, value=math.exp(-step / steps) + math.sin(step) / 9, created_at=0)
                for step in range(1, steps + 1)
                for name in names[:metrics]
            ],
        )
    return job.id


def visit(browser: Browser, url: str, job: str, steps: int) -> tuple[float, float, float]:
    """Seconds from the navigation to the first paint, to the first curve, and to the last point."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(f"sessionStorage.setItem('key', '{KEY}')")
    begun = time.perf_counter()
    page.goto(f"{url}/#job={job}", wait_until="commit")

    def until(true: str) -> float:
        while not page.evaluate(true):
            time.sleep(0.005)
        return time.perf_counter() - begun

    curve = until("document.querySelector('.plot .trace') !== null")
    whole = until(DRAWN.format(steps=steps))
    painted = float(page.evaluate(PAINTED)) / 1000
    context.close()
    return painted, curve, whole


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=4)
    args = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.stderr.write("chromium is not there: apt-get install --no-install-recommends chromium\n")
        return 1
    flags = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
    steps = args.points // args.metrics
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        nothing: dict[str, str] = {}
        hosting = hosting_in(
            LocalHome(Path(folder)),
            KeyRing(nothing, DotenvEnv(nothing).read),
            owners=frozenset({owner_of(Secret(KEY))}),
            aliases={},
            program=(sys.executable, "-c", ""),
        )
        job = a_long_job(hosting, steps, args.metrics)
        browser = driver.chromium.launch(executable_path=chromium, args=[*flags, "--disable-dev-shm-usage"])
        with ServerThread(hosting) as server:
            visit(browser, server.url, job, steps)
            times = [visit(browser, server.url, job, steps) for _ in range(ROUNDS)]
        browser.close()
    print(f"{steps * args.metrics:,} points of {args.metrics} metrics; median of {ROUNDS}")
    for number, what in enumerate(("first contentful paint", "first curve", "all points drawn")):
        print(f"{what}: {statistics.median(one[number] for one in times):.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
