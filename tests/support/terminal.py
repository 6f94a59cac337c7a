"""A pseudo-terminal to write on."""

from __future__ import annotations

import os
import pty
import threading


class Terminal:
    """A stream that is a terminal, and all that was shown on it."""

    def __init__(self) -> None:
        self._reader, writer = pty.openpty()
        self.stream = os.fdopen(writer, "w", encoding="utf-8")
        self._seen = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._reader, 65536)
            except OSError:
                return
            if not block:
                return
            self._seen += block

    def shown(self) -> str:
        self.stream.close()
        self._thread.join()
        os.close(self._reader)
        return self._seen.decode()
