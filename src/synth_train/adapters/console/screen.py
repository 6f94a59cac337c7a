"""The two streams of a command, written so that neither a pipe, an encoding nor a server can do harm.

The transcript goes to stdout; warnings, errors and progress go to stderr (design §4, Output). A reader of stdout
that goes away must not cut a submission in half: what it would have read goes to stderr from then on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from synth_train.adapters.console.words import printable


class OutputClosed(Exception):
    """What was to be shown can be shown nowhere. `trouble` says why if it is not that nobody reads any more: a full
    disk, for one."""

    def __init__(self, trouble: str = "") -> None:
        super().__init__(trouble)
        self.trouble = trouble


class Overlay(Protocol):
    """Something drawn below the last line, such as a progress bar."""

    def stop(self) -> None:
        """Take it away, leaving the cursor where the next line begins."""
        ...


class Screen:
    """stdout and stderr. Lines may come from any thread; each is written whole."""

    def __init__(self, out: TextIO | None, err: TextIO | None, *, environ: Mapping[str, str] | None = None) -> None:
        environ = environ or {}
        self._out = _Stream(out)
        self._err = _Stream(err)
        self._overlay: Overlay | None = None
        self._lock = threading.RLock()
        self._steerable = self._err.terminal and environ.get("TERM", "") != "dumb"
        self._colour = self._steerable and not environ.get("NO_COLOR")

    @property
    def pretty(self) -> bool:
        """Whether a person reads stdout."""
        return self._out.terminal

    @property
    def steerable(self) -> bool:
        """Whether stderr is a terminal on which the cursor can be moved."""
        return self._steerable

    @property
    def can_draw(self) -> bool:
        """Whether stderr is such a terminal, and shows more letters than ASCII has."""
        stream = self._err.stream
        return self._steerable and stream is not None and stream.encoding.lower().startswith("utf")

    @property
    def colour(self) -> bool:
        """Whether stderr may be coloured: a terminal, no `NO_COLOR`, no `TERM=dumb`."""
        return self._colour

    @property
    def err_stream(self) -> TextIO | None:
        """stderr itself, for an overlay."""
        return self._err.stream

    def out(self, line: str) -> None:
        """One line of the transcript.

        Raises:
            OutputClosed: it could be written nowhere.
        """
        text = printable(line) + "\n"
        with self._lock:
            self._clear()
            if not self._out.write(text) and not self._err.write(text):
                raise OutputClosed(self._out.trouble)

    def err(self, line: str, *, label: str = "", style: str = "") -> None:
        """One line of anything else, after a label such as `error:`; `style` is the label's SGR number on a terminal.

        When stderr is closed the line is lost, and that is no error: whoever closed it did not want it.
        """
        if label:
            shown = f"\x1b[{style}m{label}\x1b[0m" if style and self._colour else label
            text = f"{shown} {printable(line)}\n"
        else:
            text = printable(line) + "\n"
        with self._lock:
            self._clear()
            self._err.write(text)

    def data(self, content: bytes) -> None:
        """The result itself, byte for byte, on stdout and nowhere else.

        Raises:
            OutputClosed: stdout is closed, or cannot be written to.
        """
        with self._lock:
            self._clear()
            if not self._out.write_bytes(content):
                raise OutputClosed(self._out.trouble)

    def overlay(self, overlay: Overlay) -> None:
        """Keep something drawn until the next line is written."""
        with self._lock:
            self._overlay = overlay

    def close(self) -> None:
        """Write out what is still held back, so that the end of the process has nothing left to fail on."""
        with self._lock:
            self._clear()
            self._out.write("")
            self._err.write("")

    def _clear(self) -> None:
        if self._overlay is not None:
            overlay, self._overlay = self._overlay, None
            overlay.stop()


class _Stream:
    """One stream, given up for good the first time it fails."""

    def __init__(self, stream: TextIO | None) -> None:
        # A descriptor that is closed from the start is None in `sys`.
        self.stream = stream
        self.terminal = stream is not None and stream.isatty()
        self.trouble = ""
        """Why it was given up, if not because its reader has gone."""

    def write(self, text: str) -> bool:
        """Whether it was written."""
        return self._attempt(lambda stream: stream.write(_encodable(text, stream.encoding)))

    def write_bytes(self, content: bytes) -> bool:
        """Whether it was written."""
        return self._attempt(lambda stream: stream.buffer.write(content))

    def _attempt(self, write: Callable[[TextIO], object]) -> bool:
        if self.stream is None:
            return False
        try:
            write(self.stream)
            self.stream.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.trouble = error.strerror or str(error)
            # What is still in the buffer would fail again, with a message, when the interpreter ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            self.stream = None
            return False
        return True


def _encodable(text: str, encoding: str) -> str:
    # The stream's own error handler is left alone: the process may share the stream with others.
    return text.encode(encoding, "backslashreplace").decode(encoding)
