"""The real `synth-ai serve` in a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import requests

from support import serve_program
from support.local import until
from support.serving import needs_the_server

SOURCES = Path(__file__).parents[2] / "src"
TESTS = Path(__file__).parents[1]


class Served:
    """A server that runs. What it has written so far stands in `lines`."""

    def __init__(self, folder: Path, args: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.folder = folder
        environ = {key: value for key, value in os.environ.items() if key == "PATH" or key.startswith("COVERAGE_")}
        environ |= {"HOME": str(folder), "PYTHONPATH": f"{SOURCES}{os.pathsep}{TESTS}", "PYTHONUNBUFFERED": "1", **env}
        self.process = subprocess.Popen(
            [sys.executable, serve_program.__file__, *args],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as written:
            self.lines.extend(line.rstrip("\n") for line in written)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def home(self) -> Path:
        """The folder of the backend."""
        return self.folder / ".synth-ai" / "local"

    def ready(self) -> str:
        """The URL, once it is served there."""
        until(lambda: "Page: " in self.text or self.process.poll() is not None)
        found = re.search(r"Serving on (http://\S+)", self.text)
        assert found, self.text
        return found[1]

    @property
    def key(self) -> str:
        """The key that was shown."""
        found = re.search(r"shown this once: (\S+)", self.text)
        assert found, self.text
        return found[1]

    def ask(self, method: str, path: str, *, key: str | None = None, **more: object) -> requests.Response:
        """One request."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return requests.request(method, f"{self.ready()}{path}", headers=headers, timeout=20, **more)  # type: ignore[arg-type]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end; gives the exit status."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; gives the exit status."""
        code = self.process.wait(30)
        self._reader.join()
        return code


@contextmanager
def served(folder: Path, *args: str, env: Mapping[str, str] = {}) -> Iterator[Served]:
    """`synth-ai serve` on a free port while the block lasts, with its workers."""
    needs_the_server()
    server = Served(folder, ("--port", "0", *args), env)
    try:
        yield server
    finally:
        server.end(signal.SIGKILL)
        lock = server.home / "worker.lock"
        with suppress(FileNotFoundError, IndexError, ValueError, ProcessLookupError):
            os.killpg(int(lock.read_text().split("_")[1]), signal.SIGKILL)
