"""How errors are told."""

from __future__ import annotations

import io
import json
import re

import pytest

from synth_train.adapters.console.screen import Screen
from synth_train.domain.model.errors import InvalidConfig, OutcomeUnknown, TaskAppUnhealthy, UsageError
from synth_train.domain.model.jobs import IdempotencyKey
from synth_train.domain.model.places import Place, Problem, Severity
from synth_train.domain.model.secret import Secret
from synth_train.entrypoints.cli.report import Report
from synth_train.entrypoints.cli.standing import Standing
from synth_train.ports.progress import ProgressPort

KEY = "sk-1234567890abcdefghij"

BROKEN = InvalidConfig(
    "a.toml:3: job.model: missing\nwarning: a.toml:7: tags.x: odd",
    problems=(
        Problem(Place("a.toml", 3), "job.model", "missing"),
        Problem(Place("a.toml", 7), "tags.x", "odd", Severity.WARNING),
    ),
    hint="Mend it.\nThen run again.",
)


class Told:
    """A report, and what it has written on stderr."""

    def __init__(self, *, as_json: bool = False, verbose: bool = False) -> None:
        self._out, self._err = io.BytesIO(), io.BytesIO()
        screen = Screen(io.TextIOWrapper(self._out, "utf-8"), io.TextIOWrapper(self._err, "utf-8"))
        self.report = Report(screen, as_json=as_json, verbose=verbose)

    @property
    def err(self) -> str:
        assert self._out.getvalue() == b""
        return self._err.getvalue().decode()

    @property
    def document(self) -> dict[str, object]:
        (line,) = self.err.splitlines()
        document: dict[str, object] = json.loads(line)
        return document


def a_bug() -> ValueError:
    try:
        hidden = KEY
        raise ValueError(f"bad header {hidden}")
    except ValueError as error:
        return error


def test_an_error_is_what_happened_and_then_indented_what_to_do() -> None:
    told = Told()

    assert told.report.error(UsageError("no such thing", hint="Try another.")) == 2
    assert told.err == "error: no such thing\n  Try another.\n"


def test_every_problem_has_a_line_of_its_own_with_its_severity() -> None:
    told = Told()

    assert told.report.error(BROKEN) == 3
    assert told.err == (
        "error: a.toml:3: job.model: missing\nwarning: a.toml:7: tags.x: odd\n  Mend it.\n  Then run again.\n"
    )


def test_further_lines_of_one_message_are_indented() -> None:
    told = Told()
    told.report.error(TaskAppUnhealthy("not healthy\nhealth: 503"))

    assert told.err == "error: not healthy\n  health: 503\n"


def test_an_error_is_told_once() -> None:
    told = Told()
    error = UsageError("no such thing")

    assert [told.report.error(error), told.report.error(error)] == [2, 2]
    assert told.err == "error: no such thing\n"


def test_nothing_a_server_says_can_steer_the_terminal() -> None:
    told = Told()
    told.report.error(UsageError("bad \x1b[2J", hint="do \x9b1m"))

    assert told.err == "error: bad \\u001b[2J\n  do \\u009b1m\n"


def test_an_unforeseen_error_is_called_a_bug_and_how_to_report_it() -> None:
    told = Told()
    told.report.standing = Standing(ProgressPort(), creates=True)
    told.report.secrets = lambda: [Secret(KEY)]

    assert told.report.error(a_bug()) == 1
    assert told.err == (
        "error: a bug in synth-ai: ValueError: bad header sk-...hij; no job was created\n"
        "  Please report it, with what the same command says under -v.\n"
    )


def test_a_traceback_comes_with_v_only_and_holds_no_secret_and_no_variable() -> None:
    told = Told(verbose=True)
    told.report.secrets = lambda: [Secret(KEY)]
    try:
        raise UsageError("cannot go on") from a_bug()
    except UsageError as error:
        told.report.error(error)

    assert told.err.startswith("error: cannot go on\ncalled from, last call last:\n")
    assert "ValueError: bad header sk-...hij" in told.err
    assert "direct cause" in told.err
    assert KEY not in told.err
    assert re.search(r'File ".*test_report.py", line \d+, in a_bug', told.err)


def test_for_programs_an_error_is_one_object() -> None:
    told = Told(as_json=True)
    told.report.error(BROKEN, config="a.toml")

    assert told.document == {
        "version": 1,
        "error": {
            "type": "InvalidConfig",
            "message": "a.toml:3: job.model: missing\nwarning: a.toml:7: tags.x: odd",
            "hint": "Mend it.\nThen run again.",
            "exit_code": 3,
            "config": "a.toml",
            "problems": [
                {"source": "a.toml", "line": 3, "key": "job.model", "what": "missing", "severity": "error"},
                {"source": "a.toml", "line": 7, "key": "tags.x", "what": "odd", "severity": "warning"},
            ],
        },
    }


def test_the_key_of_an_unknown_outcome_stands_in_a_field_of_its_own() -> None:
    told = Told(as_json=True)
    told.report.error(OutcomeUnknown("the job may exist", key=IdempotencyKey("k-1")))

    error = told.document["error"]
    assert isinstance(error, dict)
    assert (error["idempotency_key"], error["exit_code"]) == ("k-1", 7)


def test_the_object_has_the_traceback_if_asked_for() -> None:
    told = Told(as_json=True, verbose=True)
    told.report.error(a_bug())

    error = told.document["error"]
    assert isinstance(error, dict)
    assert error["traceback"][0] == "called from, last call last:"
    assert error["hint"] == "Please report it."


@pytest.mark.parametrize(("code", "word"), [(130, "interrupted"), (143, "terminated")])
def test_an_interruption_says_how_things_stand(code: int, word: str) -> None:
    told = Told()
    told.report.standing = Standing(ProgressPort(), creates=True)

    assert told.report.interruption(code) == code
    assert told.err == f"error: {word}: no job was created\n  Run the same command again to go on.\n"


def test_an_interruption_before_anything_began_is_only_that() -> None:
    told = Told()
    told.report.interruption(130)

    assert told.err == "error: interrupted\n"
