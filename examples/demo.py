"""The examples on this machine, through the real command, from their TOML to a trained model.

    make demo        # python examples/demo.py sft
    make demo-rl     # python examples/demo.py rl

Both train `tiny`, a random model of a million parameters, in about a minute. What they make is kept in `.demo`. Of the
lines that tell of a step every so many are shown, all else that the command says is.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from synth_train.adapters.local.backend import NEEDED

EXAMPLES = Path(__file__).parent
HOME = EXAMPLES.parent / ".demo"
STEP = re.compile(r"job: (?:Step|Iteration) (\d+) of (\d+): (?:loss|mean reward) (-?[\d.]*\d)")
HIDDEN = re.compile(r"job: (?:Rewards of iteration |Step \d+ of \d+\. )")
"""What only repeats, or adds numbers to, a line that was there."""
SAMPLE = re.compile(r"job: (Before|After): (.*) → (.*)")
SHOWN = 20
"""Lines for the steps of a run."""
LAST = 5
"""Steps whose mean stands for the end: a single one depends on its rows."""


class Run:
    """What the command said, line by line."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.samples: dict[str, dict[str, str]] = {}

    def see(self, line: str) -> str:
        """Take a line in; what is to be shown of it, empty for nothing."""
        if sample := SAMPLE.match(line):
            when, asked, said = sample.groups()
            self.samples.setdefault(asked, {})[when] = said
        step = STEP.match(line)
        if step is None:
            return "" if HIDDEN.match(line) else line
        number, total, value = int(step[1]), int(step[2]), float(step[3])
        self.values.append(value)
        every = max(1, total // SHOWN)
        return step[0] if number in (1, total) or number % every == 0 else ""

    @property
    def course(self) -> tuple[float, float]:
        """Where the loss or the reward began, and where it ended."""
        last = self.values[-LAST:]
        return self.values[0], sum(last) / len(last)


def train(config: str, *options: str, environment: Mapping[str, str]) -> Run | None:
    """Train with the real command. None if it did not succeed, which it has said."""
    words = ["train", "--config", os.path.relpath(EXAMPLES / config), "--backend", "local", *options]
    print(f"$ SYNTH_AI_HOME={os.path.relpath(HOME)} synth-ai {shlex.join(words)}", flush=True)
    run = Run()
    with subprocess.Popen(
        [sys.executable, "-m", "synth_train", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # one stream, so that its lines come in the order in which they were written
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as command:
        assert command.stdout is not None
        for line in command.stdout:
            shown = run.see(line.rstrip("\n"))
            if shown:
                print(shown, flush=True)
    return run if command.returncode == 0 else None


def sft() -> int:
    """A dozen facts: the loss falls, and the answers become right ones."""
    run = train("sft/tiny.toml", "--poll-interval", "1", environment=_environment())
    if run is None:
        return 1
    print("\nWhat it said before and after, asked in a wording that it was not trained on:")
    for asked, said in run.samples.items():
        print(f"  {asked}\n    before  {said.get('Before', '')}\n    after   {said.get('After', '')}")
    first, last = run.course
    print(f"\ntraining loss {first:.2f} -> {last:.2f}")
    _where()
    return 0


def rl() -> int:
    """A task app: the reward rises."""
    key = secrets.token_hex(16)
    with _task_app("brackets", key) as url:
        options = ("--task-url", url, "--poll-interval", "1")
        run = train("rl/brackets.toml", *options, environment=_environment(ENVIRONMENT_API_KEY=key))
    if run is None:
        return 1
    first, last = run.course
    _where()
    print(f"mean reward {first:.2f} -> {last:.2f}")
    return 0


@contextlib.contextmanager
def _task_app(task: str, key: str) -> Iterator[str]:
    """The sample task app in a process of its own; its address. Its log of requests goes to a file."""
    program = EXAMPLES / "rl" / "task_app.py"
    words = ["--task", task, "--port", "0"]
    HOME.mkdir(exist_ok=True)
    print(f"$ python {os.path.relpath(program)} {shlex.join(words)} &", flush=True)
    log = HOME / "task_app.log"
    with (
        log.open("w", encoding="utf-8") as told,
        subprocess.Popen(
            [sys.executable, str(program), *words],
            env=_environment(ENVIRONMENT_API_KEY=key),
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        ) as app,
    ):
        try:
            assert app.stdout is not None
            greeting = app.stdout.readline().strip()
            if not greeting:
                app.wait()
                raise SystemExit(f"the task app did not start: {log.read_text(encoding='utf-8').strip()}")
            print(greeting, flush=True)
            log_of_it = threading.Thread(target=shutil.copyfileobj, args=(app.stdout, told))
            log_of_it.start()
            yield greeting.split(" on ", 1)[1].split(" ", 1)[0]
        finally:
            app.terminate()
        log_of_it.join()


def _environment(**more: str) -> dict[str, str]:
    """That of this process, with a home of the demo's own. The command knows UTF-8 whatever the locale."""
    return {**os.environ, "SYNTH_AI_HOME": str(HOME), "PYTHONIOENCODING": "utf-8", **more}


def _where() -> None:
    home = os.path.relpath(HOME)
    print(f"Look around with: SYNTH_AI_HOME={home} {command()} jobs list --backend local")
    print(f"rm -r {home} removes all of it.")


def command() -> str:
    """What to type for `synth-ai`: the one of this environment by its path, unless it is found by its name."""
    beside = Path(sys.executable).with_name("synth-ai")
    return os.path.relpath(beside) if beside.exists() and shutil.which("synth-ai") != str(beside) else "synth-ai"


def in_memory() -> int:
    """The SFT example against a backend that lives in the memory of this process.

    It is real in all but its training: it stores the file, checks, queues and reports over HTTP.
    """
    from synth_train.adapters.in_memory.backend import InMemoryHosting
    from synth_train.adapters.serving.server import ServerThread
    from synth_train.adapters.system_clock import SystemClock

    hosting = InMemoryHosting(clock=SystemClock())
    hosting.executor.delay, hosting.trainer.lasts = 1.0, 3.0
    with ServerThread(hosting.hosting) as server:
        config = os.path.relpath(EXAMPLES / "sft" / "sft.toml")
        words = ["train", "--config", config, "--backend", server.url, "--poll-interval", "0.5"]
        print("This one trains no model: its backend lives in memory, and its trainer only takes time.")
        print(f"$ synth-ai {shlex.join(words)}", flush=True)
        environment = _environment(SYNTH_API_KEY="sk-demo-0123456789abcdef")
        command = [sys.executable, "-m", "synth_train", *words]
        return subprocess.run(command, env=environment, stderr=subprocess.STDOUT, check=False).returncode


DEMOS = {"sft": sft, "rl": rl, "in-memory": in_memory}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The examples, on this machine.", allow_abbrev=False)
    parser.add_argument("demo", choices=DEMOS)
    demo = parser.parse_args(argv).demo
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing and demo != "in-memory":
        print(_what_is_missing(missing), flush=True)
        if demo == "rl":
            return 2
        demo = "in-memory"
    return DEMOS[demo]()


def _what_is_missing(missing: Sequence[str]) -> str:
    what = f"This demo trains with the extra [local], of which is not installed here: {', '.join(missing)}."
    if sys.version_info >= (3, 11):
        return f"{what}\nInstall it: make setup (without LOCAL=no), then run this again."
    version = ".".join(map(str, sys.version_info[:3]))
    return (
        f"{what}\nIt needs Python 3.11 or newer, and this is {version}: make clean, then make demo PYTHON=python3.12."
    )


if __name__ == "__main__":
    sys.exit(main())
