"""The page, in a real browser. `SYNTH_PAGE_PICTURES` names a folder for pictures of it."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from support.backends import OUR_KEY, rl_request
from support.local import rl_play, until
from support.served import Served, served
from support.serving import needs_the_server, serving
from support.sft_jobs import chats
from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.file_lock import try_lock
from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.serving.embedded import hosting_in
from synth_train.domain.model.events import Point
from synth_train.domain.model.hosting import owner_of
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind
from synth_train.domain.usecases.hosting.events import tell

playwright = pytest.importorskip("playwright.sync_api", reason="needs the group `web`: pip install --group web")
needs_the_server()

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium: apt-get install --no-install-recommends chromium"
)

PATIENCE = 60_000
"""Milliseconds after which a test stops waiting."""

KEY = OUR_KEY.reveal()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    as_root = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=[*as_root, "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Visit:
    """A tab, and what went wrong in it."""

    def __init__(self, browser: Any, **more: Any) -> None:
        self._context = browser.new_context(**more)
        self.page = self._context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda line: self.wrong.append(line.text) if line.type == "error" else None)

    def until(self, true: str, *, within: float = PATIENCE / 1000) -> None:
        """Return as soon as an expression is true there. (What playwright has for this, the page's policy forbids.)"""
        deadline = time.monotonic() + within
        while not self.page.evaluate(true):
            assert time.monotonic() < deadline, f"never came true: {true}"
            self.page.wait_for_timeout(20)

    def picture(self, name: str) -> None:
        folder = os.environ.get("SYNTH_PAGE_PICTURES")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    visit = Visit(browser)
    yield visit
    assert visit.wrong == []
    visit.close()


@pytest.fixture
def world() -> InMemoryHosting:
    return InMemoryHosting(clock=ManualClock())


@pytest.fixture
def url(world: InMemoryHosting) -> Iterator[str]:
    with serving(world.hosting) as url:
        yield url


def works(home: LocalHome) -> bool:
    """Whether a worker lives there."""
    lock = try_lock(home.lock)
    if lock is not None:
        os.close(lock)
    return lock is None


def a_job(world: InMemoryHosting, number: int = 1, **data: object) -> JobId:
    backend = InMemoryBackend(world=world, api_key=OUR_KEY)
    return backend.create(Kind.RL, rl_request(**data), IdempotencyKey(f"K-{number}")).job_id


def with_points(world: InMemoryHosting, job_id: JobId, name: str, values: list[float]) -> None:
    with world.store.transaction() as rows:
        rows.save_points(
            job_id, [Point(name=name, step=step, value=value, created_at=0) for step, value in enumerate(values, 1)]
        )


def curves(visit: Visit, title: str) -> Any:
    """What is drawn under a title: for each curve its name and its values."""
    visit.page.wait_for_selector(f"figure:has(figcaption:text-is('{title}')) .trace")
    return visit.page.evaluate(
        """title => [...document.querySelectorAll("figure")]
            .find(figure => figure.querySelector("figcaption").textContent === title)
            .querySelector(".plot").data.map(({name, x, y}) => ({name, x: [...x], y: [...y]}))""",
        title,
    )


# A real job


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as server:
        server.ready()
        yield server


def test_a_job_is_seen_to_grow_is_cancelled_and_tried_again(server: Served, visit: Visit) -> None:
    job = server.ask("POST", "/rl/jobs", data=rl_play(steps=500, pause=0.1, say="a line of the log")).json()["id"]
    page = visit.page
    page.goto(f"{server.ready()}/#key={server.key}")
    assert server.key not in page.url
    page.click(f"a[title={job}]")
    visit.until("document.getElementById('status').textContent === 'running'")
    visit.page.wait_for_selector(".plot path.js-line")
    points = "document.querySelector('.js-plotly-plot').data[0].x.length"  # above 50 of them, no marks are drawn
    visit.until(f"{points} > {page.evaluate(points) + 3}")
    visit.until("document.getElementById('events').textContent.includes('Step 3 of 500')")
    visit.until("document.getElementById('log-text').textContent.includes('a line of the log')")
    assert '"pause": 0.1' in page.text_content("#config")
    visit.picture("job")

    page.click("#cancel")
    visit.until("document.getElementById('status').textContent === 'cancelled'")
    assert server.ask("GET", f"/rl/jobs/{job}").json()["status"] == "cancelled"

    page.click("#retry")
    visit.until(f"document.getElementById('job-title').textContent !== '{job}'")
    again = page.text_content("#job-title")
    visit.until("document.getElementById('status').textContent === 'running'")
    assert (
        server.ask("GET", f"/rl/jobs/{again}/config").json()["config"]
        == server.ask("GET", f"/rl/jobs/{job}/config").json()["config"]
    )
    assert all(asked.startswith((server.ready(), "data:")) for asked in visit.asked)


def test_a_job_that_really_trains_is_seen_to_learn_and_is_cancelled(tmp_path: Path, browser: Any) -> None:
    for package in ("torch", "trl", "peft"):
        pytest.importorskip(package, reason="needs the extra [local]: pip install 'synth-train[local]'")
    home, none = LocalHome(tmp_path), dict[str, str]()
    owner = frozenset({owner_of(OUR_KEY)})
    hosting = hosting_in(home, KeyRing(none, DotenvEnv(none).read), owners=owner, aliases={})
    visit = Visit(browser, viewport={"width": 1280, "height": 720})
    page = visit.page
    with serving(hosting) as url:

        def ask(method: str, path: str, **more: Any) -> Any:
            reply = requests.request(method, f"{url}/{path}", headers={"Authorization": f"Bearer {KEY}"}, **more)
            assert reply.ok, reply.text
            return reply.json()

        def begin(name: str, rate: float, epochs: int) -> str:
            rows = b"".join(json.dumps(row).encode() + b"\n" for row in chats(24))
            file = ask("POST", "files", files={"file": ("chats.jsonl", rows)}, data={"purpose": "fine-tune"})
            body = {
                "model": "tiny",
                "training_file_id": file["id"],
                "training_type": "sft_offline",
                "hyperparameters": {"n_epochs": epochs, "batch_size": 4, "learning_rate": rate},
                "metadata": {"config": {"local": {"threads": 1, "samples": 0, "seed": 1}, "name": name}},
            }
            job = str(ask("POST", "learning/jobs", json=body)["id"])
            ask("POST", f"learning/jobs/{job}/start")
            return job

        slow, fast = begin("slow", 1e-3, 5), begin("fast", 5e-3, 5000)
        page.goto(f"{url}/#key={KEY}")
        page.goto(f"{url}/#job={slow}")
        try:
            visit.until("document.getElementById('status').textContent === 'succeeded'", within=120)
            first, *_, last = curves(visit, "Loss")[0]["y"]
            assert last < first
            page.goto(f"{url}/#job={fast}")
            visit.until("document.querySelector('.plot')?.data?.[0]?.x.length > 2")
            seen = len(curves(visit, "Loss")[0]["y"])
            visit.until(f"document.querySelector('.plot').data[0].x.length > {max(seen, 30)}", within=60)
            page.click("#cancel")
            visit.until("document.getElementById('status').textContent === 'cancelled'")
            page.goto(f"{url}/#job={slow},{fast}")
            assert len(curves(visit, "Loss")) == 2
            visit.until(FITTING)
            visit.picture("page")
        finally:
            ask("POST", f"learning/jobs/{fast}/cancel")
            until(lambda: not works(home), within=60)
    assert visit.wrong == []
    visit.close()


# What it shows


def test_jobs_are_compared_smoothed_and_put_on_a_log_scale(world: InMemoryHosting, url: str, visit: Visit) -> None:
    jobs = [a_job(world, number) for number in (1, 2)]
    for job_id, value in zip(jobs, (1.0, 3.0), strict=True):
        with_points(world, job_id, "train.loss", [value, value * 2, value])
        with_points(world, job_id, "train.learning_rate", [1e-4, 1e-5, 1e-6])
    page = visit.page
    page.goto(f"{url}/#key={KEY}")
    for job_id in jobs:
        page.check(f"tr[data-id={job_id}] input")
    page.click("#compare")
    assert sorted(curve["y"] for curve in curves(visit, "Loss")) == [[1, 2, 1], [3, 6, 3]]
    assert len(curves(visit, "Learning rate")) == 2
    page.check("#log")
    assert page.evaluate("document.querySelector('.plot').layout.yaxis.type") == "log"
    page.fill("#smoothing", "0.5")
    assert sorted(curve["y"] for curve in curves(visit, "Loss")) == [[1, 1.5, 1.25], [3, 4.5, 3.75]]
    visit.picture("compared")


def test_a_step_without_a_number_is_a_gap(world: InMemoryHosting, url: str, visit: Visit) -> None:
    job_id = a_job(world)
    with_points(world, job_id, "train.reward_mean", [1.0, 2.0, math.nan, 4.0])
    visit.page.goto(f"{url}/#key={KEY}")
    visit.page.goto(f"{url}/#job={job_id}")
    assert curves(visit, "Reward")[0]["y"] == [1, 2, None, 4]
    assert visit.page.evaluate("document.querySelector('.plot').data[0].connectgaps") is False


def test_many_points_are_all_read_and_drawn_as_few(world: InMemoryHosting, url: str, visit: Visit) -> None:
    job_id = a_job(world)
    values = [math.sin(step / 100) for step in range(5000)]
    values[3210] = 99.0
    for name in ("train.loss", "val.loss", "train.reward"):
        with_points(world, job_id, name, values)
    visit.page.goto(f"{url}/#key={KEY}")
    visit.page.goto(f"{url}/#job={job_id}")
    visit.until("document.querySelector('.plot')?.data?.[0].x.at(-1) > 4990")
    [loss, _] = curves(visit, "Loss")
    assert len(loss["y"]) <= 2002
    assert max(loss["y"]) == 99
    assert (loss["x"][0], loss["x"][-1]) == (1, 5000)
    note = "figure:has(figcaption:text-is('Loss')) .note"
    assert visit.page.inner_text(note).startswith("of 5,000 steps")
    assert sum("/metrics?" in asked for asked in visit.asked) <= 2


def test_a_long_curve_is_smoothed_over_all_its_values(world: InMemoryHosting, url: str, visit: Visit) -> None:
    job_id = a_job(world)
    with_points(world, job_id, "train.loss", [100.0, *[1.0, 3.0, 1.0, 1.0] * 400])
    visit.page.goto(f"{url}/#key={KEY}")
    visit.page.goto(f"{url}/#job={job_id}")
    assert len(curves(visit, "Loss")[0]["y"]) < 1300
    visit.page.fill("#smoothing", "0.99")
    visit.until("document.querySelector('.plot').data[0].x.length === 1601")
    assert abs(curves(visit, "Loss")[0]["y"][-1] - 1.5) < 0.02


def test_steps_that_are_done_again_after_a_crash_are_drawn_as_they_were_done_last(
    world: InMemoryHosting, url: str, visit: Visit
) -> None:
    job_id = a_job(world)

    def goes(told: dict[int, float], *, begins: bool = True) -> None:
        with world.store.transaction() as rows:
            job = rows.job(job_id)
            assert job
            if begins:
                job = tell(rows, job, 0, "train.started", "Training begins.")
            for step, value in told.items():
                rows.save_points(job_id, [Point(name="train.loss", step=step, value=value, created_at=0)])
                job = tell(rows, job, 0, "train.step", f"Step {step}.", data={"step": step})

    page = visit.page
    page.goto(f"{url}/#key={KEY}")
    page.goto(f"{url}/#job={job_id}")
    for told, begins, drawn in (
        ({1: 4.0, 2: 3.0, 3: 2.0}, True, "4,3,2"),
        ({2: 3.5}, True, "4,3.5,2"),
        ({3: 2.5}, False, "4,3.5,2.5"),
        ({4: 1.5}, False, "4,3.5,2.5,1.5"),
    ):
        goes(told, begins=begins)
        visit.until(f"String(document.querySelector('.plot')?.data?.[0]?.y) === '{drawn}'")
    assert curves(visit, "Loss")[0]["x"] == [1, 2, 3, 4]


def test_what_a_client_has_written_is_text_and_nothing_else(world: InMemoryHosting, url: str, visit: Visit) -> None:
    job_id = a_job(world, base_model="<img src=x onerror=alert(1)>")
    visit.page.goto(f"{url}/#key={KEY}")
    visit.page.wait_for_selector(f"tr[data-id={job_id}]")
    assert visit.page.query_selector("main img") is None
    assert "<img" in visit.page.text_content("#rows")


# Who looks at it, and how

FITTING = """[...document.querySelectorAll("figure")].every(figure =>
    figure.querySelector(".main-svg").getBoundingClientRect().right <= figure.getBoundingClientRect().right)"""


def test_without_a_key_the_page_asks_for_one_and_says_when_it_is_wrong(browser: Any, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        visit = Visit(browser)
        visit.page.goto(server.ready())
        visit.page.fill("#key", "not-the-right-key-000")
        visit.page.click("#door button")
        visit.until("document.getElementById('state').textContent.includes('does not open')")
        visit.page.fill("#key", server.key)
        visit.page.keyboard.press("Enter")
        visit.page.wait_for_selector("#none:visible")
        visit.close()


def test_a_server_that_has_gone_is_said_to_be(browser: Any, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        visit = Visit(browser)
        visit.page.goto(f"{server.ready()}/#key={server.key}")
        visit.until("document.getElementById('state').textContent === 'Live'")
        server.end()
        visit.until("document.getElementById('state').textContent.includes('does not answer')")
        visit.close()


def test_a_job_is_reached_by_keyboard(world: InMemoryHosting, url: str, visit: Visit) -> None:
    job_id = a_job(world)
    page = visit.page
    page.goto(f"{url}/#key={KEY}")
    page.wait_for_selector("#rows tr")
    for _ in range(6):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.title") == job_id:
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#cancel:visible")
    assert page.text_content("#job-title") == job_id


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_and_a_desk_by_day_and_by_night(
    world: InMemoryHosting, url: str, browser: Any, scheme: str, width: int
) -> None:
    jobs = [a_job(world, number, base_model=f"Qwen/Qwen3-{number}B-with-a-rather-long-name") for number in (1, 2, 3)]
    with_points(world, jobs[0], "train.loss", [3.0, 2.0, 1.5])
    with_points(world, jobs[0], "train.reward_mean", [0.1, 0.5, 0.9])
    visit = Visit(browser, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = visit.page
    page.goto(f"{url}/#key={KEY}")
    page.wait_for_selector("#rows tr")
    visit.picture(f"jobs-{scheme}-{width}")
    for place in ("#jobs", f"#job={jobs[0]}"):
        page.goto(f"{url}/{place}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    curves(visit, "Loss")
    curves(visit, "Reward")
    visit.until(FITTING)
    red, green, blue = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert (red + green + blue > 600) is (scheme == "light")
    visit.picture(f"job-{scheme}-{width}")
    assert visit.wrong == []
    visit.close()


def test_the_page_lets_nothing_in_from_elsewhere(url: str) -> None:
    reply = requests.get(url, headers={"Accept": "text/html"}, timeout=5)
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert requests.get(url, timeout=5).status_code == 404
    for name in ("nothing", "__init__.py", "..%2Fapp.py"):
        assert requests.get(f"{url}/page/{name}", timeout=5).status_code == 404
