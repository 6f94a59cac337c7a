"""Multipart forms, read as a stream."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth_train.adapters.serving.multipart import boundary_in, parts_in
from synth_train.domain.model.hosting import Refusal

B = b"----b"


def in_pieces(body: bytes, size: int) -> Callable[[int], bytes]:
    stream = io.BytesIO(body)
    return lambda most: stream.read(min(most, size))


def form(*parts: tuple[str, bytes], ending: bytes = b"--\r\n") -> bytes:
    whole = b"".join(b"--%s\r\n%s\r\n\r\n%s\r\n" % (B, head.encode(), content) for head, content in parts)
    return whole + b"--" + B + ending


def read(body: bytes, *, size: int = 1 << 20) -> list[tuple[str, str, bytes]]:
    return [(part.name, part.filename, b"".join(part.content)) for part in parts_in(in_pieces(body, size), B)]


FIELD = 'Content-Disposition: form-data; name="purpose"'
FILE = 'Content-Disposition: form-data; name="file"; filename="train.jsonl"\r\nContent-Type: application/jsonl'


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"\r\n", b"--", B, b"\r\n--", b"\r\n------", b"x", b"\0", b"\xff"]), max_size=12),
    st.integers(1, 40),
)
def test_content_comes_through_as_it_is_however_it_is_cut(pieces: list[bytes], size: int) -> None:
    content = b"".join(pieces).replace(b"\r\n--" + B, b"")
    # What stands before the content is a line end, so a boundary right at its beginning would be one, too.
    if content.startswith(b"--" + B) or b"\r\n--" + B in content:
        content = b""
    assert read(form((FIELD, b"fine-tune"), (FILE, content)), size=size) == [
        ("purpose", "", b"fine-tune"),
        ("file", "train.jsonl", content),
    ]


def test_what_stands_before_and_behind_the_form_is_nothing() -> None:
    body = b"preamble\r\n" + form((FIELD, b"x"), ending=b"--\r\nepilogue")
    assert read(body) == [("purpose", "", b"x")]


def test_content_that_is_not_read_is_skipped() -> None:
    parts = parts_in(in_pieces(form((FILE, b"x" * 1000), (FIELD, b"y")), 64), B)
    assert [part.name for part in parts] == ["file", "purpose"]


def test_a_part_without_a_head_has_no_name() -> None:
    assert read(b"--%s\r\n\r\nx\r\n--%s--" % (B, B)) == [("", "", b"x")]


@pytest.mark.parametrize(
    ("parameter", "filename"),
    [
        ('filename="ünïcode.jsonl"', "ünïcode.jsonl"),
        ('filename="a\\"b.jsonl"', 'a"b.jsonl'),
        ("filename*=UTF-8''%C3%BC.jsonl", "ü.jsonl"),
        ("filename=plain.jsonl", "plain.jsonl"),
        ('filename=""', ""),
        ('filename="%C3%BC%20%C3%A9.jsonl"', "ü é.jsonl"),
        ('filename="50%.jsonl"', "50%.jsonl"),
        ('filename="%FF.jsonl"', "%FF.jsonl"),
        ("filename*=UTF-8''100%2525.jsonl", "100%25.jsonl"),
    ],
)
def test_a_file_name_is_read_in_every_form(parameter: str, filename: str) -> None:
    [(_, found, _)] = read(form((f'Content-Disposition: form-data; name="file"; {parameter}', b"x")))
    assert found == filename


@pytest.mark.parametrize("cut", range(1, len(form((FIELD, b"fine-tune"))) - len(b"\r\n"), 7))
def test_a_form_that_breaks_off_is_refused(cut: int) -> None:
    with pytest.raises(Refusal, match="breaks off") as caught:
        read(form((FIELD, b"fine-tune"))[:cut])
    assert caught.value.status == 400


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(Refusal, match="head of a part"):
        read(b"--%s\r\nX: %s" % (B, b"x" * 40_000), size=1000)


@pytest.mark.parametrize("content", [b"x" * 70_000, b"\xff"])
def test_a_field_is_a_short_text(content: bytes) -> None:
    part = next(parts_in(in_pieces(form((FIELD, content)), 1000), B))
    with pytest.raises(Refusal, match="purpose"):
        part.text()


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=----b", b"----b"),
        ('multipart/form-data; charset=utf-8; boundary="a b"', b"a b"),
        ("Multipart/Form-Data; BOUNDARY=x", b"x"),
    ],
)
def test_a_boundary_is_read(content_type: str, boundary: bytes) -> None:
    assert boundary_in(content_type) == boundary


@pytest.mark.parametrize("content_type", ["", "multipart/form-data", "multipart/form-data; boundary=", "text/plain"])
def test_without_a_boundary_there_is_no_form(content_type: str) -> None:
    with pytest.raises(Refusal, match="boundary") as caught:
        boundary_in(content_type)
    assert caught.value.status == 400
