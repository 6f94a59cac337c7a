"""The quick look only says yes, and never to a row that the rules have something against."""

from __future__ import annotations

import json

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from support.chat_rows import Row, encoded, plain_rows, rows, spoilt
from synth_train.domain.model.dataset_fast import FineRows, Form, fine_rows, form_of
from synth_train.domain.model.dataset_rules import DEEPEST, judge

FORMS = pytest.mark.parametrize("form", Form)

PLAIN = b'{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":"4"}]}\n'
CALL = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWERING = {"role": "tool", "tool_call_id": "a", "content": "4"}
ANSWER = {"role": "assistant", "content": "4"}
DEEP_ARGUMENTS = '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1)


def line(*messages: Row, **keys: object) -> bytes:
    return encoded({"messages": list(messages), **keys}) + b"\n"


def look(chunk: bytes, form: Form = Form.LOOSE, *, longer_than: int = 0) -> FineRows:
    fine = fine_rows(chunk, form, longer_than=longer_than)
    assert fine is not None
    return fine


# ---- agreement with the rules


@settings(deadline=None)
@given(rows(), st.booleans(), st.booleans())
def test_a_fine_row_is_fine_to_the_rules_as_well(row: Row, compact: bool, ascii_only: bool) -> None:
    text = encoded(row, compact=compact, ascii_only=ascii_only)
    judged = judge(text)
    assert judged.findings == ()

    fine = fine_rows(text, Form.LOOSE)

    event(f"seen by the quick look: {fine is not None and fine.rows == 1}")
    if fine is not None and fine.rows:
        assert sorted(fine.roles.elements()) == sorted(judged.roles)


@settings(deadline=None)
@given(plain_rows(), st.booleans(), st.booleans())
def test_plain_rows_are_always_seen(row: Row, compact: bool, ascii_only: bool) -> None:
    assert look(encoded(row, compact=compact, ascii_only=ascii_only), Form.PLAIN).rows == 1


@settings(deadline=None)
@given(rows())
def test_the_common_forms_are_seen_without_the_rules(row: Row) -> None:
    row = {key: value for key, value in row.items() if key in ("messages", "tools", "metadata")}
    for message in row["messages"]:
        message.pop("weight", None)

    assert look(encoded(row)).rows == 1


@FORMS
@settings(deadline=None)
@given(text=spoilt(rows() | plain_rows()))
def test_no_row_passes_that_the_rules_find_fault_with(form: Form, text: bytes) -> None:
    findings = judge(text).findings
    fine = fine_rows(text, form)

    event(f"at fault: {bool(findings)}, seen as fine: {fine is not None and fine.rows == 1}")
    if findings:
        assert fine is None or fine.rows == 0


# ---- what the decoder does not see


@FORMS
def test_rows_are_counted_by_role_and_the_longest_is_measured(form: Form) -> None:
    long = line({"role": "system", "content": "s"}, {"role": "user", "content": "q" * 50}, ANSWER)
    fine = look(PLAIN + PLAIN + long + PLAIN, form)

    assert fine.rows == 4
    assert fine.roles == {"system": 1, "user": 4, "assistant": 4}
    assert (fine.longest, fine.longest_line) == (len(long) - 1, 2)
    assert fine.others == ()


@FORMS
def test_only_a_row_longer_than_asked_about_is_measured(form: Form) -> None:
    size = len(PLAIN) - 1

    assert look(PLAIN, form, longer_than=size).longest == size
    assert look(PLAIN.rstrip(b"\n"), form, longer_than=size - 1).longest == size
    assert look(PLAIN.replace(b"\n", b"\r\n") * 2, form, longer_than=size).longest == size


@FORMS
def test_other_lines_are_handed_back_with_their_numbers(form: Form) -> None:
    bad = b'{"messages": "content"}\n'

    fine = look(b"".join([bad, PLAIN, b"\n", PLAIN, bad, b" "]), form)

    assert fine.rows == 2
    assert fine.others == ((0, bad), (2, b"\n"), (4, bad), (5, b" "))


@FORMS
@pytest.mark.parametrize(
    "odd",
    [
        b'{"messages":[{"role":"assistant","content":"a","content":"b"}]}\n',
        b'{"messages":[{"role":"assistant","content":"a"}],"messages":[{"role":"assistant","content":"b"}]}\n',
    ],
    ids=["content twice", "messages twice"],
)
def test_what_shows_only_in_the_sum_sends_every_line_back(form: Form, odd: bytes) -> None:
    assert fine_rows(PLAIN + odd, form) is None
    assert fine_rows(PLAIN, form) is not None


@FORMS
def test_messages_twice_show_even_when_the_first_have_no_content(form: Form) -> None:
    fine = fine_rows(b'{"messages":[{"role":"assistant"}],"messages":[{"role":"assistant","content":"b"}]}', form)

    assert fine is None or fine.rows == 0


@pytest.mark.parametrize("place", ["tools", "metadata"])
def test_keys_of_the_same_name_elsewhere_do_no_harm(place: str) -> None:
    schema = {"content": {"type": "string"}, "messages": {"content": {}}}
    value: object = schema if place == "metadata" else [{"function": {"name": "write", "parameters": schema}}]
    bad = b'{"messages":"content"}\n'

    fine = look(PLAIN + bad + line(ANSWER, **{place: value}) * 2)

    assert fine.rows == 3
    assert fine.others == ((1, bad),)


def test_content_twice_shows_beside_a_tool_that_has_a_parameter_of_that_name() -> None:
    good = line(ANSWER, tools=[{"function": {"name": "write", "parameters": {"content": {}}}}])

    assert fine_rows(good.replace(b'"content": "4"', b'"content": "4", "content": "5"'), Form.COMMON) is None


@pytest.mark.parametrize("tail", [b"\xff", b"\xc3", b"\xed\xb2\xb2"])
def test_bytes_that_the_decoder_skips_are_looked_at(tail: bytes) -> None:
    beyond_a_piece = b"\xc3\xa9" * (1 << 20)
    good = b'{"messages":[{"role":"assistant","content":"4"}],"id":"' + beyond_a_piece

    assert fine_rows(good + b'"}', Form.COMMON) is not None
    assert fine_rows(good + tail + b'"}', Form.COMMON) is None


def test_bytes_cut_off_at_the_end_are_no_utf8() -> None:
    # The decoder refuses such a line, so it takes a good one for the sum to be looked at.
    assert fine_rows(PLAIN + b"\xc3", Form.COMMON) is None


@pytest.mark.parametrize(
    "nested",
    [
        line(ANSWER, id=json.loads("[" * DEEPEST + "]" * DEEPEST)),
        line({**CALLING, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": DEEP_ARGUMENTS}}]}),
        b'{"messages":[{"role":"assistant","content":"4"}],"id":' + b"[" * 100_000,
    ],
    ids=["in a key", "in arguments", "beyond any stack"],
)  # fmt: skip
def test_depth_is_left_to_the_rules(nested: bytes) -> None:
    assert look(nested).rows == 0


def test_long_arguments_of_few_levels_are_fine() -> None:
    call = {**CALL, "function": {"name": "f", "arguments": json.dumps({"text": "[{" * DEEPEST})}}

    assert look(line({**CALLING, "tool_calls": [call]})).rows == 1


@FORMS
def test_a_last_word_that_is_not_the_assistants_is_left_to_the_rules(form: Form) -> None:
    bad = b'{"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}\n'

    assert look(PLAIN + bad + PLAIN, form).others == ((1, bad),)


def test_a_row_shows_how_its_like_are_read() -> None:
    assert form_of(PLAIN) is Form.PLAIN
    assert form_of(line(CALLING)) is Form.COMMON
    assert form_of(line({"role": "assistant", "tool_calls": [CALL]})) is Form.LOOSE
    assert form_of(b"") is Form.LOOSE
    assert form_of(b'{"id":' + b"[" * 100_000) is Form.LOOSE


def test_a_form_has_a_wider_one_up_to_the_last() -> None:
    assert [form.wider for form in Form] == [Form.COMMON, Form.LOOSE, Form.LOOSE]


# ---- calls and their answers


@pytest.mark.parametrize(
    "messages",
    [
        [CALLING],
        [CALLING, ANSWERING, ANSWER],
        [{**CALLING, "tool_calls": [CALL, {**CALL, "id": "b"}]}, {**ANSWERING, "tool_call_id": "b"}, ANSWERING, ANSWER],
        [{"role": "assistant", "tool_calls": [CALL]}, ANSWERING, ANSWER],
        [{**ANSWER, "weight": 0}, {"role": "user", "content": "?"}, {**ANSWER, "weight": 1}],
    ],
)
def test_answered_calls_and_weights_that_leave_something_to_learn_are_fine(messages: list[Row]) -> None:
    assert look(line(*messages)).rows == 1


@pytest.mark.parametrize(
    "messages",
    [
        [CALLING, ANSWER],
        [CALLING, ANSWERING, ANSWERING, ANSWER],
        [CALLING, {**ANSWERING, "tool_call_id": "b"}, ANSWER],
        [ANSWER, ANSWERING, ANSWER],
        [{**CALLING, "tool_calls": [CALL, CALL]}],
        [{**CALLING, "tool_calls": [CALL, {**CALL, "id": "b"}]}, ANSWERING, ANSWER],
        [CALLING, {"role": "user", "content": "?"}, ANSWER],
        [{**CALLING, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "[]"}}]}],
        [{**ANSWER, "content": ""}],
        [{**ANSWER, "weight": 0}],
        [{"role": "assistant"}],
    ],
)
def test_whatever_else_happens_to_calls_is_left_to_the_rules(messages: list[Row]) -> None:
    assert look(line(*messages)).rows == 0
