"""How an end that is no success is told: what happened, what to do next, and where it comes from if asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from synth_train.adapters.console.screen import OutputClosed
from synth_train.entrypoints.exit_codes import ExitCode, exit_code_for

if TYPE_CHECKING:
    from synth_train.adapters.console.screen import Screen
    from synth_train.domain.model.places import Problem
    from synth_train.domain.model.secret import Secret
    from synth_train.entrypoints.cli.standing import Standing

VERSION = 1
"""Of every JSON document we write. It grows when a field goes or changes its meaning, not when one is added."""

RED, YELLOW = "31", "33"


class Report:
    """Errors on stderr, as text or as JSON, each once; and, as JSON, the document of a run that an error ended.

    `verbose` adds tracebacks; they hold no variables, and are free of what `secrets` gives. `standing` knows what
    became of the job, when there may be one.
    """

    def __init__(self, screen: Screen, *, as_json: bool, verbose: bool = False) -> None:
        self._screen = screen
        self._as_json = as_json
        self._told: set[int] = set()
        self.verbose = verbose
        self.secrets: Callable[[], Iterable[Secret]] = tuple
        self.standing: Standing | None = None
        self.command: str | None = None
        """Named in documents; None as long as the command line is not understood."""
        self.warnings: list[str] = []
        self._documented = False

    def document(self, code: int, **fields: object) -> None:
        """Write the one JSON document of this run on stdout."""
        import msgspec

        self._documented = True
        document = {"version": VERSION, "command": self.command, "exit_code": code, **fields, "warnings": self.warnings}
        self._screen.data(msgspec.json.encode(document) + b"\n")

    def failure(self, error: BaseException) -> int:
        """Tell of the error that has ended the run, also in the document that a program waits for."""
        told = self._told_of(error)
        self._tell_once(error, told)
        return self._ended(told)

    def output_lost(self, trouble: str) -> int:
        """Tell why stdout could not be written to, unless its reader has gone, who wants to hear no more."""
        if not trouble:
            return ExitCode.NOBODY_READS
        from synth_train.domain.model.errors import LocalStateError

        return self.error(LocalStateError(f"stdout cannot be written to: {trouble}", hint="Send it elsewhere."))

    def error(self, error: BaseException, *, config: str = "") -> int:
        """Tell of an error, unless that was done, and give the exit code it stands for."""
        self._tell_once(error, self._told_of(error, config=config))
        return exit_code_for(error)

    def interruption(self, code: int) -> int:
        """Tell how things stand at the end of a run that was cut off, and give `code` back."""
        what, hint = self.standing.last_words() if self.standing else ("", "")
        word = "interrupted" if code == ExitCode.INTERRUPTED else "terminated"
        message = f"{word}: {what}" if what else word
        told = {"type": "Interrupted", "message": message, "hint": hint, "exit_code": code, "problems": []}
        self._say(told)
        return self._ended(told)

    def _ended(self, told: dict[str, Any]) -> int:
        code: int = told["exit_code"]
        if self._as_json and not self._documented:
            # It was told on stderr already: how the run ended is worth more than that stdout is lost.
            with suppress(OutputClosed):
                self.document(code, error=told)
        return code

    def _told_of(self, error: BaseException, *, config: str = "") -> dict[str, Any]:
        told = described(error, config=config)
        if told["exit_code"] == ExitCode.BUG:
            told |= self._bug(error)
        return told | {"message": self._safe(told["message"])}

    def _tell_once(self, error: BaseException, told: dict[str, Any]) -> None:
        if id(error) not in self._told:
            self._told.add(id(error))
            self._say(told, cause=error)

    def _bug(self, error: BaseException) -> dict[str, str]:
        standing = self.standing.last_words()[0] if self.standing else ""
        with_what = "" if self.verbose else ", with what the same command says under -v"
        return {
            "message": f"a bug in synth-ai: {type(error).__name__}: {error}{standing and '; '}{standing}",
            "hint": f"Please report it{with_what}.",
        }

    def _say(self, told: dict[str, Any], *, cause: BaseException | None = None) -> None:
        trace = self._trace(cause) if cause is not None and self.verbose else []
        if self._as_json:
            import json

            whole = told | {"traceback": trace} if trace else told
            self._screen.err(json.dumps({"version": VERSION, "error": whole}))
            return
        first, *more = told["message"].splitlines() or [""]
        self._screen.err(first, label="error:", style=RED)
        for line in more:
            self._more(line, of_a_list=bool(told["problems"]))
        for line in (*map("  {}".format, told["hint"].splitlines()), *trace):
            self._screen.err(line)

    def _more(self, line: str, *, of_a_list: bool) -> None:
        """A further line of a message, which may be one problem of several."""
        if not of_a_list:
            self._screen.err(f"  {line}")
        elif line.startswith("warning: "):
            self._screen.err(line.removeprefix("warning: "), label="warning:", style=YELLOW)
        else:
            self._screen.err(line, label="error:", style=RED)

    def _trace(self, cause: BaseException) -> list[str]:
        from traceback import format_exception

        text = "".join(format_exception(cause)).replace(
            "Traceback (most recent call last):", "called from, last call last:"
        )
        return self._safe(text).splitlines()

    def _safe(self, text: str) -> str:
        from synth_train.domain.model.secret import redact

        return redact(text, self.secrets())


def described(error: BaseException, *, config: str = "") -> dict[str, Any]:
    """An error as the value that stands in JSON documents."""
    from synth_train.domain.model.errors import OutcomeUnknown

    told: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error),
        "hint": getattr(error, "hint", ""),
        "exit_code": int(exit_code_for(error)),
        "problems": [described_problem(problem) for problem in getattr(error, "problems", ())],
    }
    if config:
        told["config"] = config
    if isinstance(error, OutcomeUnknown):
        told["idempotency_key"] = error.key
    return told


def described_problem(problem: Problem) -> dict[str, Any]:
    """A problem as the value that stands in JSON documents."""
    return {
        "source": problem.place.source,
        "line": problem.place.line,
        "key": problem.key,
        "what": problem.what,
        "severity": problem.severity.value,
    }
