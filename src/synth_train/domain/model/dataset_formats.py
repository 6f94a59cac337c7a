"""Telling a file that is no JSONL at all by its first bytes, so that one message says what it is instead."""

from __future__ import annotations

import re

from msgspec import Struct

from synth_train.domain.model.dataset_rules import is_too_deep


class Foreign(Struct, frozen=True):
    """What a file is in place of JSONL, and what turns it into JSONL."""

    what: str
    """Goes on from the file's name: `is gzip, not JSONL`."""
    hint: str


_UTF16 = "Save it as UTF-8: `iconv -f UTF-16 -t UTF-8 old.jsonl > new.jsonl`; in PowerShell write with -Encoding utf8."
_UTF32 = "Save it as UTF-8: `iconv -f UTF-32 -t UTF-8 old.jsonl > new.jsonl`."
_UNPACK = "Unpack it first and give the file inside."
_PARQUET = (
    "Write it as JSONL, one row a line: with the datasets library, `Dataset.from_parquet(file).to_json(new_file)`."
)

_MAGIC: tuple[tuple[bytes, Foreign], ...] = (
    (b"\x1f\x8b", Foreign("is gzip data, not JSONL", _UNPACK)),
    (b"PK\x03\x04", Foreign("is a zip archive, not JSONL", _UNPACK)),
    (b"BZh", Foreign("is bzip2 data, not JSONL", _UNPACK)),
    (b"\xfd7zXZ\x00", Foreign("is xz data, not JSONL", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", Foreign("is zstd data, not JSONL", _UNPACK)),
    (b"PAR1", Foreign("is a Parquet file, not JSONL", _PARQUET)),
    (b"ARROW1", Foreign("is an Arrow file, not JSONL", "Write it as JSONL, one row a line.")),
    (b"\xff\xfe\x00\x00", Foreign("is UTF-32 text, not UTF-8", _UTF32)),
    (b"\x00\x00\xfe\xff", Foreign("is UTF-32 text, not UTF-8", _UTF32)),
    (b"\xff\xfe", Foreign("is UTF-16 text, not UTF-8", _UTF16)),
    (b"\xfe\xff", Foreign("is UTF-16 text, not UTF-8", _UTF16)),
)
_OF_TOML = re.compile(rb"""(?:\s|#[^\n]*\n)*(?:\[{1,2}[\w.-]*[A-Za-z_][\w.-]*\]{1,2}|[\w.-]+[ \t]*=)[^\n]*(?:\n|\Z)""")
"""Comments, then a header or a setting. A header of digits alone would be a list of JSON."""
_UTF16_WITHOUT_MARK = re.compile(rb"(?:[\t\n\r -~]\0){2}|(?:\0[\t\n\r -~]){2}")

_ARRAY = Foreign(
    "is one JSON array, not JSONL",
    "Write each element on a line of its own: `jq -c '.[]' old.json > new.jsonl`.",
)
_PRETTY = Foreign(
    "is JSON spread over several lines, not JSONL",
    "Write each row on one line: `jq -c . old.json > new.jsonl`.",
)
_TABLE = Foreign(
    "is a table (CSV or TSV), not JSONL",
    'Turn each row into a line {"messages": [{"role": "user", ...}, {"role": "assistant", ...}]}.',
)
_TOML = Foreign("is TOML, not JSONL", "A TOML is given with --config; the dataset is the file of chats that it names.")
_OLD_LINE_ENDS = Foreign(
    "ends its lines with CR alone, which JSONL does not know",
    "Write the lines with LF: `tr '\\r' '\\n' < old.jsonl > new.jsonl`.",
)
_PAGE = Foreign("is a web page, not JSONL", "The download may have asked for a login; fetch the file again.")


def foreign_bytes(head: bytes) -> Foreign | None:
    """What the first bytes show the file to be; None when they may be text in UTF-8."""
    for magic, foreign in _MAGIC:
        if head.startswith(magic):
            return foreign
    if _UTF16_WITHOUT_MARK.match(head):
        return Foreign("is UTF-16 text, not UTF-8", _UTF16)
    return None


def foreign_text(head: bytes) -> Foreign | None:
    """What a file is whose first line is not a row; `head` begins with that line. None when it looks like JSONL."""
    first, _, rest = head.lstrip().partition(b"\n")
    if re.match(_OF_TOML, head):
        return _TOML
    if re.search(rb"[}\]] *\r[ \r]*[{\[]", first):
        return _OLD_LINE_ENDS
    first, second = first.strip(), rest.lstrip(b"\r\n").partition(b"\n")[0]
    if first.startswith(b"["):
        return _ARRAY if _may_hold_rows(first) else None
    if first.startswith(b"{"):
        spread = second[:1].isspace() or second.strip() in (b"[", b"{", b"}", b"]")
        return _PRETTY if spread and not _is_json(first) else None
    if first.startswith(b"<"):
        return _PAGE
    if re.fullmatch(rb"[^{}\[\]:]*[,;\t][^{}\[\]:]*", first):
        return _TABLE
    return None


def _may_hold_rows(line: bytes) -> bool:
    """Whether the line begins an array that goes on, or is a whole one of objects."""
    if is_too_deep(line):
        return False
    import json  # here, as below: few files get this far

    try:
        array = json.loads(line)
    except ValueError:
        return True
    return isinstance(array, list) and bool(array) and isinstance(array[0], dict)


def _is_json(line: bytes) -> bool:
    import json

    try:
        json.loads(line)
    except ValueError:
        return False
    return True
