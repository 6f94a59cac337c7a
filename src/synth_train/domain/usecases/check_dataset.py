"""One pass over a dataset: is every row fit for training, and what is in them?"""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from pathlib import Path

from msgspec import Struct, field

from synth_train.domain.model.dataset import DatasetReport, Part
from synth_train.domain.model.dataset_fast import Form, fine_rows, form_of
from synth_train.domain.model.dataset_formats import Foreign, foreign_bytes, foreign_text
from synth_train.domain.model.dataset_rules import BYTE_ORDER_MARK, ROLES, Finding, Rule, is_blank, judge
from synth_train.domain.model.errors import InvalidDataset, UsageError
from synth_train.domain.model.moments import DatasetChecked, DatasetProgress, Noted, ProblemFound
from synth_train.domain.model.places import Place, Problem, Severity
from synth_train.ports.datasets import DatasetPort
from synth_train.ports.progress import ProgressPort

SHOWN_PROBLEMS = 20
"""Errors, and as many warnings, that are shown one by one; the rest is counted."""

TOLD_EVERY = 4 << 20
"""Bytes between two moments of progress."""


class CheckDataset(Struct, frozen=True, kw_only=True):
    """Check a file of chat rows. Built once with its ports, called once per file."""

    datasets: DatasetPort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def __call__(
        self, path: Path, *, examples: int | None = None, shown: str | None = None, raising: bool = True
    ) -> DatasetReport:
        """Read every row, or the first `examples` ones and no more of the file than they need.

        `shown` is the path as the user wrote it. Warnings are told as they are found to matter: one by one up to 20,
        then in numbers.

        Raises:
            UsageError: `examples` is not at least 1.
            InvalidDataset: rows break rules, unless `raising` is False: then the report says so. Always when the file
                cannot be read, is no JSONL at all, or holds no row.
        """
        if examples is not None and examples < 1:
            raise UsageError(f"{examples} examples cannot be trained on", hint="--examples takes a number from 1 on.")
        return _Check(self, path, shown or str(path), examples).run(raising=raising)


class _Check:
    """One file being checked."""

    def __init__(self, ports: CheckDataset, path: Path, shown: str, examples: int | None) -> None:
        self._datasets, self._progress = ports.datasets, ports.progress
        self._path, self._shown, self._examples = path, shown, examples
        self._findings = _Findings(shown)
        self._form = Form.PLAIN
        self._line = self._first = 1
        self._head = b""
        self._rows = self._turns = self._longest = self._longest_line = 0
        self._roles: Counter[str] = Counter()

    def run(self, *, raising: bool) -> DatasetReport:
        report = self._report(self._read())
        if report.errors and raising:
            raise self._findings.error(report)
        if not report.errors:
            self._tell(report)
        return report

    # ---- reading

    def _read(self) -> Part:
        stamp = self._datasets.stamp(self._path)
        start = position = 0
        due = TOLD_EVERY
        for chunk in self._datasets.chunks(self._path):
            if not position:
                self._refuse(foreign_bytes(chunk))
                if chunk.startswith(BYTE_ORDER_MARK):
                    start = position = len(BYTE_ORDER_MARK)
                    chunk = chunk[start:]
            if self._examples is not None:
                chunk = _first_rows(chunk, self._examples - self._rows)
            self._take(chunk)
            position += len(chunk)
            if position >= due:
                self._progress.tell(DatasetProgress(path=self._path, done=position, total=stamp.size))
                due = position + TOLD_EVERY
            if self._rows == self._examples:
                break
        if not self._rows:
            empty = "is empty" if position == start else "has only blank lines"
            raise InvalidDataset(f"{self._shown}: no examples: the file {empty}", hint=_ONE_ROW)
        return Part(self._path, start, position, stamp)

    def _take(self, chunk: bytes) -> None:
        """Check whole lines, quickly as far as they are certainly fine."""
        if not self._rows:
            blank = len(chunk) - len(chunk.lstrip())
            self._first, self._head = self._line + chunk.count(b"\n", 0, blank), chunk[blank : blank + _HEAD]
            self._form = form_of(self._head.partition(b"\n")[0])
        fine = fine_rows(chunk, self._form, longer_than=self._longest)
        if fine is None:
            for number, line in enumerate(BytesIO(chunk), self._line):
                self._take_line(number, line, may_be_fine=True)
        else:
            self._rows += fine.rows
            self._turns += fine.roles.total()
            self._roles += fine.roles
            self._measure(fine.longest, self._line + fine.longest_line)
            for number, line in fine.others:
                self._take_line(self._line + number, line, may_be_fine=self._form is not Form.LOOSE)
            if len(fine.others) * _TOO_MANY_OTHERS > fine.rows:
                self._form = self._form.wider
        self._line += chunk.count(b"\n")

    def _take_line(self, number: int, line: bytes, *, may_be_fine: bool) -> None:
        """Check one line, slowly if need be."""
        if is_blank(line):
            return
        self._rows += 1
        self._measure(len(line.rstrip(b"\r\n")), number)
        fine = fine_rows(line, Form.LOOSE) if may_be_fine else None
        if fine and fine.rows:
            self._turns += fine.roles.total()
            self._roles += fine.roles
            return
        judged = judge(line.rstrip(b"\r\n"))
        self._turns += judged.turns
        self._roles.update(judged.roles)
        if number == self._first and any(finding.rule in _NO_ROW for finding in judged.findings):
            # One message in place of one a line.
            self._refuse(foreign_text(self._head))
        self._findings.add(number, judged.findings)

    def _measure(self, size: int, number: int) -> None:
        if size > self._longest or (size == self._longest and number < self._longest_line):
            self._longest, self._longest_line = size, number

    def _refuse(self, foreign: Foreign | None) -> None:
        if foreign:
            problem = Problem(Place(self._shown), "", foreign.what)
            raise InvalidDataset(str(problem), problems=(problem,), hint=foreign.hint)

    # ---- telling

    def _report(self, part: Part) -> DatasetReport:
        return DatasetReport(
            part=part,
            rows=self._rows,
            turns=self._turns,
            roles={role: self._roles[role] for role in ROLES if self._roles[role]},
            longest_row=self._longest,
            longest_line=self._longest_line,
            problems=tuple(self._findings.shown),
            errors=self._findings.count[Severity.ERROR],
            warnings=self._findings.count[Severity.WARNING],
            by_reason=dict(self._findings.by_reason.most_common()),
        )

    def _tell(self, report: DatasetReport) -> None:
        for problem in report.problems:
            self._progress.tell(ProblemFound(problem=problem))
        more = report.warnings - len(report.problems)
        if more:
            text = f"{self._shown}: {_count(more, 'more warning')}; in all {_by_reason(report)}"
            self._progress.tell(Noted(text=text, warning=True))
        if self._examples is not None and report.rows < self._examples:
            text = f"{self._shown}: {self._examples} examples were asked for, but only {report.rows} are there"
            self._progress.tell(Noted(text=text))
        self._progress.tell(DatasetChecked(report=report))


class _Findings:
    """The first problems of a file, and the number of all."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._bad_rows = 0
        self.shown: list[Problem] = []
        self.count: Counter[Severity] = Counter()
        self.by_reason: Counter[str] = Counter()

    def add(self, line: int, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            severity = finding.rule.severity
            if self.count[severity] < SHOWN_PROBLEMS:
                self.shown.append(Problem(Place(self._file, line), finding.path, finding.what, severity))
            self.count[severity] += 1
            self.by_reason[finding.rule.reason] += 1
        self._bad_rows += any(finding.rule.severity is Severity.ERROR for finding in findings)

    def error(self, report: DatasetReport) -> InvalidDataset:
        rows = "the only row" if report.rows == 1 else f"{self._bad_rows} of {report.rows} rows"
        lines = [f"{self._file}: {_count(report.errors, 'error')} in {rows}"]
        for problem in report.problems:
            lines.append(str(problem) if problem.severity is Severity.ERROR else f"warning: {problem}")
        more = report.errors + report.warnings - len(report.problems)
        if more:
            lines.append(f"{self._file}: {_count(more, 'more problem')}; in all {_by_reason(report)}")
        hint = "Correct these rows or take them out, then run the same command again."
        return InvalidDataset("\n".join(lines), problems=report.problems, hint=hint)


_HEAD = 1 << 16
"""Bytes from the first row on that may show another format."""

_TOO_MANY_OTHERS = 10
"""One line in so many that is of another form makes it quicker to read the next chunk as a wider one."""

_NO_ROW = (Rule.NOT_JSON, Rule.NO_OBJECT)

_ONE_ROW = (
    'A row is one line such as {"messages": [{"role": "user", "content": "2+2?"},'
    ' {"role": "assistant", "content": "4"}]}.'
)


def _first_rows(chunk: bytes, rows: int) -> bytes:
    """The beginning of a chunk that holds `rows` rows, or all of it when it has fewer."""
    if chunk.count(b"\n") < rows:
        return chunk
    end = 0
    for line in BytesIO(chunk):
        end += len(line)
        rows -= not is_blank(line)
        if not rows:
            break
    return chunk[:end]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _by_reason(report: DatasetReport) -> str:
    return ", ".join(f"{count} × {reason}" for reason, count in report.by_reason.items())
