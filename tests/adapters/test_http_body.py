"""What goes out: multipart form data, read block by block."""

from __future__ import annotations

import email.parser
import email.policy
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth_train.adapters.http.body import BLOCK, Body, Form, NotRead, content_type_of
from synth_train.domain.model.errors import InvalidDataset


def parts_of(form: Form) -> dict[str, tuple[str | None, str, bytes]]:
    """Name, then file name, type and content of each part, as somebody else's parser reads them."""
    content = b"".join(Body(form, form.size))
    assert len(content) == form.size
    head = f"Content-Type: {form.content_type}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + content)
    found = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        found[str(name)] = (part.get_filename(), part.get_content_type(), payload)
    return found


def form(content: bytes, filename: str = "train.jsonl", size: int | None = None) -> Form:
    return Form({"purpose": "fine-tune"}, filename, io.BytesIO(content), len(content) if size is None else size)


def test_a_form_has_the_purpose_and_the_file() -> None:
    assert parts_of(form(b'{"a":1}\n')) == {
        "purpose": (None, "text/plain", b"fine-tune"),
        "file": ("train.jsonl", "application/jsonl", b'{"a":1}\n'),
    }


def test_a_file_may_be_empty() -> None:
    assert parts_of(form(b""))["file"] == ("train.jsonl", "application/jsonl", b"")


@given(st.text(min_size=1))
def test_no_file_name_breaks_out_of_its_header(filename: str) -> None:
    content = b"".join(Body(form(b"x", filename), form(b"x", filename).size))
    head = content.split(b"\r\n\r\n")[1].split(b"\r\n--")[1]

    assert head.count(b"\r\n") == 2, "the boundary, the disposition and the type, and no other line"
    assert head.decode().split("filename=")[1].split("\r\n")[0].count('"') == 2


@pytest.mark.parametrize(
    ("filename", "sent"),
    [
        ("a b.jsonl", "a b.jsonl"),
        ("zürich-東京.jsonl", "zürich-東京.jsonl"),
        ('say "hi".jsonl', "say %22hi%22.jsonl"),
        ("a\r\nX-Evil: 1.jsonl", "a__X-Evil: 1.jsonl"),
        ("broken-\udcff.jsonl", "broken-_.jsonl"),
    ],
)
def test_file_names_go_as_browsers_send_them(filename: str, sent: str) -> None:
    content = b"".join(Body(form(b"x", filename), form(b"x", filename).size))

    assert f'filename="{sent}"\r\n'.encode() in content


@pytest.mark.parametrize(
    ("filename", "content_type"),
    [
        ("a.jsonl", "application/jsonl"),
        ("A.JSONL", "application/jsonl"),
        ("a.json", "application/json"),
        ("a.txt", "text/plain"),
        ("a.csv", "application/octet-stream"),
        ("jsonl", "application/octet-stream"),
    ],
)
def test_the_type_goes_with_the_name(filename: str, content_type: str) -> None:
    assert content_type_of(filename) == content_type


def test_a_file_that_has_grown_is_sent_as_long_as_it_was() -> None:
    assert parts_of(form(b"one\ntwo\n", size=4))["file"][2] == b"one\n"


def test_a_file_that_has_shrunk_is_not_filled_up() -> None:
    broken = form(b"one\n", size=10)

    with pytest.raises(NotRead) as caught:
        b"".join(Body(broken, broken.size))

    assert isinstance(caught.value.__cause__, InvalidDataset)
    assert "6 bytes are missing" in str(caught.value.__cause__)


def test_blocks_of_the_file_are_passed_on_as_they_are_read() -> None:
    asked: list[int] = []

    class Source(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    content = Form({}, "a.jsonl", Source(bytes(3 * BLOCK)), 3 * BLOCK)
    sizes = [len(block) for block in Body(content, content.size)]

    assert max(asked) == BLOCK
    assert sizes.count(BLOCK) == 3


def test_all_of_it_can_be_read_at_once() -> None:
    content = form(b"one\ntwo\n", size=4)

    assert content.read().startswith(b"--")
    assert content.read() == b"one\n"


def test_a_form_that_is_closed_closes_its_file() -> None:
    file = io.BytesIO(b"x")
    Form({}, "a", file, 1).close()

    assert file.closed


def test_a_body_knows_whether_it_was_asked_for() -> None:
    body = Body.of(b"abc")
    assert (len(body), body.begun) == (3, False)

    assert body.read(2) == b"ab"
    assert body.begun


def test_of_an_abandoned_body_nothing_more_goes_out() -> None:
    body, begun = Body.of(b"abc"), Body.of(b"abc")
    begun.read(1)

    assert not body.abandon()
    assert begun.abandon()
    for abandoned in (body, begun):
        with pytest.raises(NotRead):
            abandoned.read(1)


def test_what_goes_wrong_in_reading_is_not_taken_for_the_connection() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise BrokenPipeError("nobody listens to the progress")

    with pytest.raises(NotRead) as caught:
        Body(Broken(), 10).read(1)

    assert isinstance(caught.value.__cause__, BrokenPipeError)
