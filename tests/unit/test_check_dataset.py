"""One pass over a dataset: what is reported, what is refused, what is told, and how much is read."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.chat_rows import encoded, plain_rows, rows, spoilt
from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.domain.model.dataset import DatasetReport, Part
from synth_train.domain.model.errors import InvalidDataset, UsageError
from synth_train.domain.model.moments import DatasetChecked, DatasetProgress, Moment, Noted, ProblemFound
from synth_train.domain.model.places import Severity
from synth_train.domain.usecases.check_dataset import TOLD_EVERY, CheckDataset

GOOD = b'{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":"4"}]}\n'
BAD = b'{"messages":[{"role":"user","content":"2+2?"}]}\n'
DOUBTFUL = b'{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":""}]}\n'
TOOLS = (
    b'{"messages":[{"role":"user","content":"?"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f",'
    b'"arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"4"},{"role":"assistant","content":"4"}]}\n'
)
MARK = b"\xef\xbb\xbf"
PATH = Path("/repo/train.jsonl")


class Checked:
    """A check of one file, with what was told of it."""

    def __init__(
        self, content: bytes, *, examples: int | None = None, chunk: int = 1 << 20, raising: bool = True
    ) -> None:
        self.datasets = InMemoryDatasets({str(PATH): content}, chunk=chunk)
        self.progress = RecordedProgress()
        check = CheckDataset(datasets=self.datasets, progress=self.progress)
        self.report = check(PATH, examples=examples, shown="train.jsonl", raising=raising)

    @property
    def bytes(self) -> bytes:
        """What would be uploaded."""
        with self.datasets.open(self.report.part) as reader:
            return reader.read()

    def told(self, kind: type[Moment]) -> list[Moment]:
        return list(self.progress.of(kind))


def refusal(content: bytes, **options: object) -> InvalidDataset:
    with pytest.raises(InvalidDataset) as raised:
        Checked(content, **options)  # type: ignore[arg-type]
    return raised.value


# ---- the report


def test_rows_turns_roles_and_the_longest_row_are_reported() -> None:
    checked = Checked(GOOD + TOOLS + GOOD)
    report = checked.report

    assert (report.rows, report.turns) == (3, 8)
    assert report.roles == {"user": 3, "assistant": 4, "tool": 1}
    assert list(report.roles) == ["user", "assistant", "tool"]
    assert (report.longest_row, report.longest_line) == (len(TOOLS) - 1, 2)
    assert (report.errors, report.warnings, report.problems, report.by_reason) == (0, 0, (), {})
    assert checked.told(DatasetChecked) == [DatasetChecked(report=report)]


def test_the_whole_file_is_what_would_be_uploaded() -> None:
    checked = Checked(GOOD + b"\n \t\n" + GOOD.strip())

    assert checked.report.rows == 2
    assert checked.bytes == GOOD + b"\n \t\n" + GOOD.strip()
    assert checked.report.part == Part(PATH, 0, len(checked.bytes), checked.datasets.stamp(PATH))
    assert checked.report.part.size == len(checked.bytes)


def test_a_mark_at_the_start_is_skipped_and_not_uploaded() -> None:
    checked = Checked(MARK + GOOD * 2)

    assert checked.report.rows == 2
    assert checked.report.longest_row == len(GOOD) - 1
    assert checked.bytes == GOOD * 2


def test_the_first_of_several_longest_rows_is_named() -> None:
    doubtful = GOOD.replace(b'"4"', b'""').replace(b"2+2?", b"2+2??")

    assert len(doubtful) == len(GOOD)
    assert Checked(GOOD * 3).report.longest_line == 1
    assert Checked(b"\n" + doubtful + GOOD * 3).report.longest_line == 2
    assert Checked(GOOD + doubtful, chunk=1).report.longest_line == 1


def test_rows_with_tools_among_plain_ones_and_by_themselves_are_all_counted() -> None:
    assert Checked(GOOD + TOOLS * 3 + GOOD, chunk=100).report.rows == 5
    assert Checked(TOOLS * 5, chunk=100).report.roles == {"user": 5, "assistant": 10, "tool": 5}


def test_a_key_that_a_row_has_twice_does_not_change_what_is_told_of_the_rows_around_it() -> None:
    twice = GOOD.replace(b'"content":"4"', b'"content":"3","content":"4"')
    report = Checked(GOOD + twice + BAD + GOOD, raising=False).report

    assert (report.rows, report.turns, report.roles) == (4, 7, {"user": 4, "assistant": 3})
    assert [(problem.place.line, problem.severity) for problem in report.problems] == [
        (2, Severity.WARNING),
        (3, Severity.ERROR),
    ]
    assert report.longest_line == 2


def test_a_row_of_thousands_of_turns_is_one_row() -> None:
    turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "4"}]

    assert Checked(json.dumps({"messages": turn * 5000}).encode()).report.turns == 10_000


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(rows().map(encoded), plain_rows().map(encoded), spoilt(rows()), st.sampled_from([b"", b" \t"])),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.integers(1, 400),
)
def test_the_size_of_chunks_never_changes_the_report(lines: list[bytes], end: bytes, chunk: int) -> None:
    content = GOOD + end.join(lines)

    def report(size: int) -> DatasetReport | str:
        try:
            return Checked(content, chunk=size, raising=False).report
        except InvalidDataset as error:
            return str(error)

    assert report(chunk) == report(1 << 20)


# ---- errors


def test_errors_give_file_line_path_and_reason() -> None:
    error = refusal(GOOD + b"\n" + BAD)

    assert str(error) == (
        "train.jsonl: 1 error in 1 of 2 rows\n"
        "train.jsonl:3: messages: has no assistant message, so there is nothing to learn"
    )
    assert error.hint
    assert [problem.place.line for problem in error.problems] == [3]


def test_warnings_stand_among_the_errors_in_the_order_of_the_file() -> None:
    error = refusal(DOUBTFUL + BAD + DOUBTFUL)

    assert [problem.place.line for problem in error.problems] == [1, 2, 3]
    head, first, second, third = str(error).splitlines()
    assert head == "train.jsonl: 1 error in 1 of 3 rows"
    assert first.startswith("warning: train.jsonl:1: messages[1].content: is empty")
    assert second.startswith("train.jsonl:2: messages: ")
    assert third.startswith("warning: train.jsonl:3: ")


def test_the_first_twenty_are_shown_and_then_counted_by_reason() -> None:
    error = refusal(BAD * 30 + b"[]\n" * 3)
    head, *shown, last = str(error).splitlines()

    assert head == "train.jsonl: 33 errors in 33 of 33 rows"
    assert len(shown) == len(error.problems) == 20
    assert last == "train.jsonl: 13 more problems; in all 30 × no assistant message, 3 × row is not an object"


def test_the_only_row_is_called_that() -> None:
    assert str(refusal(BAD)).startswith("train.jsonl: 1 error in the only row\n")


def test_without_raising_the_report_holds_the_errors_and_nothing_is_told() -> None:
    checked = Checked(GOOD + BAD + DOUBTFUL, raising=False)

    assert (checked.report.errors, checked.report.warnings) == (1, 1)
    assert [problem.severity for problem in checked.report.problems] == [Severity.ERROR, Severity.WARNING]
    assert checked.report.by_reason == {"no assistant message": 1, "empty answer": 1}
    assert checked.progress.moments == []


@pytest.mark.parametrize("raising", [True, False])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no examples: the file is empty"),
        (MARK, "no examples: the file is empty"),
        (b"\n\n", "no examples: the file has only blank lines"),
        (GOOD.decode().encode("utf-16"), "is UTF-16 text"),
        (b"\n[" + GOOD, "is one JSON array"),
        (json.dumps(json.loads(GOOD), indent=1).encode(), "is JSON spread over several lines"),
    ],
)
def test_what_is_no_dataset_at_all_is_refused_in_one_message(content: bytes, words: str, raising: bool) -> None:
    error = refusal(content, raising=raising)

    assert str(error).startswith("train.jsonl: ")
    assert words in str(error)
    assert "\n" not in str(error)
    assert error.hint


def test_another_format_further_down_is_a_bad_row() -> None:
    assert "train.jsonl:2: is a list" in str(refusal(GOOD + b"[{}]\n"))


def test_a_bad_first_row_is_a_bad_row() -> None:
    assert "train.jsonl:1: is no JSON" in str(refusal(b"hello\n" + GOOD))


def test_a_missing_file_is_refused_with_the_names_that_are_near() -> None:
    with pytest.raises(InvalidDataset, match="no such file") as raised:
        CheckDataset(datasets=InMemoryDatasets({"trian.jsonl": GOOD}))(PATH)
    assert "trian.jsonl" in raised.value.hint


def test_the_path_itself_stands_in_for_what_the_user_wrote() -> None:
    with pytest.raises(InvalidDataset, match=r"^/repo/train\.jsonl: 1 error"):
        CheckDataset(datasets=InMemoryDatasets({str(PATH): BAD}))(PATH)


# ---- the first rows


def test_the_first_rows_are_taken_as_they_stand_with_the_blank_lines_between_them() -> None:
    content = MARK + b"\n" + GOOD + b"\n \r\n" + GOOD.strip() + b"\r\n" + b"\n" + GOOD

    checked = Checked(content, examples=2)

    assert checked.report.rows == 2
    assert checked.bytes == b"\n" + GOOD + b"\n \r\n" + GOOD.strip() + b"\r\n"


def test_rows_after_the_first_are_not_checked() -> None:
    assert Checked(GOOD * 2 + BAD, examples=2).report.errors == 0
    assert "1 of 3 rows" in str(refusal(GOOD * 2 + BAD, examples=3))


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_no_more_of_the_file_is_read_than_the_first_rows_need(chunk: int) -> None:
    checked = Checked(GOOD * 50_000, examples=5, chunk=chunk)

    assert checked.bytes == GOOD * 5
    assert checked.datasets.read_so_far <= chunk + 5 * len(GOOD)


@pytest.mark.parametrize("examples", [4, 10])
def test_fewer_rows_than_asked_for_are_taken_and_said(examples: int) -> None:
    checked = Checked(GOOD * 3 + b"\n\n", examples=examples)

    assert checked.bytes == GOOD * 3 + b"\n\n"
    assert checked.told(Noted) == [Noted(text=f"train.jsonl: {examples} examples were asked for, but only 3 are there")]


@pytest.mark.parametrize("examples", [0, -1])
def test_less_than_one_row_makes_no_sense(examples: int) -> None:
    with pytest.raises(UsageError, match="examples") as raised:
        Checked(GOOD, examples=examples)
    assert "--examples" in raised.value.hint


# ---- what is told


def test_warnings_are_told_and_the_file_is_fine() -> None:
    checked = Checked(GOOD + DOUBTFUL)

    assert checked.told(ProblemFound) == [ProblemFound(problem=problem) for problem in checked.report.problems]
    assert checked.report.warnings == 1
    assert checked.told(Noted) == []
    assert checked.told(DatasetChecked)


def test_of_many_warnings_twenty_are_told_and_the_rest_in_numbers() -> None:
    checked = Checked(DOUBTFUL * 22)

    assert len(checked.told(ProblemFound)) == 20
    assert checked.told(Noted) == [Noted(text="train.jsonl: 2 more warnings; in all 22 × empty answer", warning=True)]


def test_progress_through_a_large_file_is_told_every_few_mib() -> None:
    wide = GOOD.replace(b"2+2?", b"?" * (1 << 20))
    checked = Checked(wide * 10)
    told = checked.progress.of(DatasetProgress)

    assert [moment.total for moment in told] == [len(wide) * 10] * len(told)
    steps = [after.done - before.done for before, after in pairwise(told)]
    assert len(told) == 2
    assert all(TOLD_EVERY <= step <= TOLD_EVERY + 2 * len(wide) for step in steps)


def test_of_a_small_file_no_progress_is_told() -> None:
    assert Checked(GOOD).told(DatasetProgress) == []
