"""Questions on a terminal: asked on stderr, so that stdout stays a transcript, and answered on stdin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, TextIO

from synth_train.domain.model.errors import AnswerNeeded
from synth_train.domain.model.secret import Secret
from synth_train.ports.prompt import PromptPort


def prompt_for(
    stdin: TextIO | None, stdout: TextIO | None, stderr: TextIO | None, environ: Mapping[str, str]
) -> PromptPort:
    """A prompt for these streams: questions are asked only where stdin and stdout are terminals and `CI` is not set.
    Elsewhere stdin is never read: what is piped in may be meant for something else."""
    if environ.get("CI") or stdin is None or stderr is None or not (_is_terminal(stdin) and _is_terminal(stdout)):
        return NobodyToAsk()
    return StdinPrompt(stdin, stderr)


class NobodyToAsk(PromptPort):
    """PromptPort for an empty room: every question raises `AnswerNeeded`."""

    somebody = False

    def choose(self, question: str, options: Sequence[str], *, default: int = 0, remedy: str) -> int | None:
        _nobody(question, remedy)

    def ask_secret(self, question: str, *, remedy: str) -> Secret:
        _nobody(question, remedy)

    def confirm(self, question: str, *, default: bool, remedy: str) -> bool:
        _nobody(question, remedy)


class StdinPrompt(PromptPort):
    """PromptPort for a person at a terminal."""

    somebody = True

    def __init__(self, stdin: TextIO, stderr: TextIO) -> None:
        self._stdin = stdin
        self._stderr = stderr

    def choose(self, question: str, options: Sequence[str], *, default: int = 0, remedy: str) -> int | None:
        width = len(str(len(options)))
        lines = [f"  {number:>{width}}) {_plain(option)}\n" for number, option in enumerate(options, 1)]
        self._say("".join([f"{_plain(question)}\n", *lines, f"  {0:>{width}}) abort\n"]))
        while True:
            typed = self._answer(f"Choice [{default + 1}]: ", question, remedy)
            if not typed:
                return default
            if typed.isdecimal() and int(typed) <= len(options):
                return int(typed) - 1 if int(typed) else None
            self._say(f"Type a number from 0 to {len(options)}.\n")

    def ask_secret(self, question: str, *, remedy: str) -> Secret:
        while True:
            with _unseen(self._stdin):
                typed = self._answer(f"{_plain(question)}: ", question, remedy)
            # The line end was not shown either.
            self._say("\n")
            if typed:
                return Secret(typed)
            self._say("Nothing was typed.\n")

    def confirm(self, question: str, *, default: bool, remedy: str) -> bool:
        choices = "[Y/n]" if default else "[y/N]"
        while True:
            typed = self._answer(f"{_plain(question)} {choices}: ", question, remedy).lower()
            if not typed:
                return default
            if typed in ("y", "yes", "n", "no"):
                return typed in ("y", "yes")
            self._say("Type y or n.\n")

    def _answer(self, prompt: str, question: str, remedy: str) -> str:
        self._say(prompt)
        try:
            line = self._stdin.readline()
        except UnicodeDecodeError:
            # An answer to no question, so that it is asked again, and a key that can be told to be wrong.
            return "\N{REPLACEMENT CHARACTER}"
        if not line:
            self._say("\n")
            raise AnswerNeeded(f"No answer came to: {question}", hint=remedy)
        return line.strip()

    def _say(self, text: str) -> None:
        self._stderr.write(text)
        self._stderr.flush()


def _nobody(question: str, remedy: str) -> NoReturn:
    raise AnswerNeeded(f"Nobody is here to answer: {question}", hint=remedy)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _plain(text: str) -> str:
    """A path may hold anything; what would move the cursor is shown escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


@contextmanager
def _unseen(stdin: TextIO) -> Iterator[None]:
    """Show nothing of what is typed; what was typed before the question is thrown away, as getpass does.

    getpass itself opens the controlling terminal and, where that fails, reads with the echo on.
    """
    try:
        import termios
    except ImportError:  # pragma: no cover  # Windows, where the console's own functions would be needed
        yield
        return
    terminal = stdin.fileno()
    before = termios.tcgetattr(terminal)
    unseen = termios.tcgetattr(terminal)
    unseen[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, unseen)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
