"""Running the real command as a user would: a child process with a home, a directory and an environment of its own."""

from __future__ import annotations

import email.parser
import email.policy
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cases.scripted_server import Seen

DATA = Path(__file__).parent / "data"
SOURCES = Path(__file__).parents[2] / "src"

SYNTH_KEY = "fake-synth-key-0001-abcdefgh"
ENV_KEY = "fake-env-key-0002-ijklmnop"
KEYS = {"SYNTH_API_KEY": SYNTH_KEY, "ENVIRONMENT_API_KEY": ENV_KEY}

LONGEST_RUN = 60.0
"""Seconds that no run of any case may take."""


@dataclass(frozen=True)
class Ran:
    """A run that has ended."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def out(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        return self.stderr.decode(errors="replace")

    @property
    def both(self) -> str:
        return self.out + self.err


@dataclass
class Running:
    """A run that has not ended yet."""

    process: subprocess.Popen[bytes]
    began: float

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, *, within: float = LONGEST_RUN) -> Ran:
        """Wait for the end; the command may not show a traceback, nor run on."""
        try:
            out, err = self.process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"still running after {within} s; stdout: {out!r}; stderr: {err!r}") from None
        ran = Ran(self.process.returncode, out or b"", err or b"", time.monotonic() - self.began)
        assert "Traceback" not in ran.both, ran.both
        return ran


@dataclass
class Workspace:
    """A directory to work in and a home, both empty, and the command to run in them."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    """Added to the environment of every run."""

    def __post_init__(self) -> None:
        self.cwd = self.root / "work"
        self.home = self.root / "home"
        self.temp = self.root / "temp"
        for folder in (self.cwd, self.home, self.temp):
            folder.mkdir()

    def put(self, *names: str, into: Path | None = None) -> Path:
        """Copy inputs, named from the data folder, into the working directory; returns the last copy."""
        for name in names:
            copy = (into or self.cwd) / Path(name).name
            shutil.copyfile(DATA / name, copy)
        return copy

    def put_env(self, name: str, to: str = ".env") -> Path:
        """Copy an env file of the data folder to where it is looked for."""
        copy = self.cwd / to
        shutil.copyfile(DATA / name, copy)
        return copy

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def sft(self) -> None:
        """The smallest SFT job: config, rows and keys."""
        self.put("common/sft.toml", "common/train.jsonl")
        self.put_env("common/dot-env.txt")

    def rl(self) -> None:
        """The smallest RL job: config and keys."""
        self.put("common/rl.toml")
        self.put_env("common/dot-env.txt")

    def environment(self, extra: Mapping[str, str] = {}) -> dict[str, str]:
        """A clean environment: nothing of the developer's but what Python and coverage need."""
        kept = {key: value for key, value in os.environ.items() if key == "PATH" or key.startswith("COVERAGE_")}
        return {
            **kept,
            "HOME": str(self.home),
            "TMPDIR": str(self.temp),
            "PYTHONPATH": str(SOURCES),
            **self.env,
            **extra,
        }

    def start(
        self,
        *args: str,
        cwd: Path | None = None,
        env: Mapping[str, str] = {},
        without: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        command: Sequence[str] = (sys.executable, "-m", "synth_train"),
    ) -> Running:
        """Start the command; it knows nothing of the terminal the tests run in."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited by children of a job put in the background
            signal.signal(signal.SIGINT, signal.default_int_handler)
        environment = {key: value for key, value in self.environment(env).items() if key not in without}
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, *args],
            cwd=cwd or self.cwd,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        return Running(process, began)

    def run(
        self,
        *args: str,
        within: float = LONGEST_RUN,
        cwd: Path | None = None,
        env: Mapping[str, str] = {},
        without: Sequence[str] = (),
        command: Sequence[str] = (sys.executable, "-m", "synth_train"),
    ) -> Ran:
        """Run the command to its end, with nobody at the keyboard."""
        return self.start(*args, cwd=cwd, env=env, without=without, command=command).end(within=within)


@dataclass(frozen=True)
class FormFile:
    """The file of a multipart upload."""

    filename: str
    content: bytes
    purpose: str


def uploaded(seen: Seen) -> FormFile:
    """What an upload carried."""
    head = f"Content-Type: {seen.header('Content-Type')}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head)
    boundary = message.get_boundary()
    assert message.get_content_type() == "multipart/form-data"
    assert boundary
    purpose = filename = content = None
    for part in seen.body.split(b"--" + boundary.encode())[1:-1]:
        header, _, body = part.removeprefix(b"\r\n").removesuffix(b"\r\n").partition(b"\r\n\r\n")
        if b'name="purpose"' in header:
            purpose = body.decode()
        elif found := re.search(rb'name="file"; filename="([^"]*)"', header):
            filename, content = found[1].decode(), body
    assert purpose is not None
    assert filename is not None
    assert content is not None
    return FormFile(filename, content, purpose)


def places(text: str, file: str) -> list[tuple[int, str]]:
    """Every `file:line: rest` of a text, as (line, rest)."""
    return [(int(line), rest) for line, rest in re.findall(rf"{re.escape(file)}:(\d+): (.*)", text)]


def lines_with(text: str, part: str) -> list[str]:
    return [line for line in text.splitlines() if part in line]
