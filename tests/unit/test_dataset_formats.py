"""Files that are no JSONL, told by their beginning."""

from __future__ import annotations

import gzip
import json

import pytest

from synth_train.domain.model.dataset_formats import foreign_bytes, foreign_text

ROW = '{"messages": [{"role": "assistant", "content": "a"}]}'


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (gzip.compress(b"x", mtime=0), "gzip"),
        (b"PK\x03\x04rest", "zip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"ARROW1\0\0", "Arrow"),
        (ROW.encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + ROW.encode("utf-16-be"), "UTF-16"),
        (ROW.encode("utf-16-le"), "UTF-16"),
        (("\n" + ROW).encode("utf-16-be"), "UTF-16"),
        (ROW.encode("utf-32"), "UTF-32"),
        (b"\0\0\xfe\xff" + ROW.encode("utf-32-be"), "UTF-32"),
    ],
)
def test_what_is_no_text_in_utf8_is_named_with_a_way_out(head: bytes, word: str) -> None:
    foreign = foreign_bytes(head)

    assert foreign is not None
    assert word in foreign.what
    assert foreign.hint


@pytest.mark.parametrize("head", [ROW.encode(), b"", b"\xef\xbb\xbf{}", b"\r\n{}", "é".encode("latin-1"), b"{\0\0\0"])
def test_what_may_be_text_is_left_to_the_rules(head: bytes) -> None:
    assert foreign_bytes(head) is None


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (json.dumps([json.loads(ROW)] * 2), "JSON array"),
        (f"[\n{ROW},\n{ROW}\n]", "JSON array"),
        (f"[{ROW},\n{ROW}]", "JSON array"),
        (json.dumps(json.loads(ROW), indent=2), "spread over several lines"),
        ('{"messages": [\r\n\r\n  {"role": "user"}\n]}', "spread over several lines"),
        ('{"messages":\n[\n', "spread over several lines"),
        ("prompt,completion\na,b\n", "table"),
        ('"prompt";"completion"\n', "table"),
        ("prompt\tcompletion\r\n", "table"),
        ("<!doctype html>\n<html>", "web page"),
        ('# a job\n\ntype = "sft"\n', "TOML"),
        ("[algorithm]\n", "TOML"),
        ("[[judge.options]]", "TOML"),
        (f"{ROW}\r{ROW}\r", "CR alone"),
        (f"{ROW}\r\r{ROW}", "CR alone"),
    ],
)
def test_another_format_of_text_is_named_with_a_way_out(head: str, words: str) -> None:
    foreign = foreign_text(head.encode())

    assert foreign is not None
    assert words in foreign.what
    assert foreign.hint


@pytest.mark.parametrize(
    "head",
    [
        '["not", "an", "object"]\n',
        "[]\n",
        "[1]",
        "[" * 100_000,
        '{"messages": [\n' + ROW,
        '{"messages": [',
        "{'messages': []}\n{'messages': []}",
        '{"a": 1}\n  {"b": 2}',
        "hello\nworld",
        "null\n",
    ],
)
def test_one_bad_row_does_not_make_another_format(head: str) -> None:
    assert foreign_text(head.encode()) is None
