"""Multipart form data (RFC 7578) read as a stream, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from email.utils import collapse_rfc2231_value
from urllib.parse import unquote

from synth_train.domain.model.hosting import Refusal

_BLOCK = 1 << 20
_LONGEST_HEAD = 16 << 10
_LONGEST_FIELD = 64 << 10


@dataclass(frozen=True)
class Part:
    """One part of a form. Its content has to be read before the next part is asked for; what is not, is skipped."""

    name: str
    filename: str
    """As the client wrote it; empty when there is none."""
    content: Iterator[bytes]

    def text(self) -> str:
        """The content of a field.

        Raises:
            Refusal: 400 when it is longer than fields are, or no UTF-8.
        """
        read = bytearray()
        for block in self.content:
            read += block
            if len(read) > _LONGEST_FIELD:
                raise _malformed(f"the field {self.name} is longer than {_LONGEST_FIELD} bytes")
        try:
            return read.decode()
        except UnicodeDecodeError:
            raise _malformed(f"the field {self.name} is no UTF-8") from None


def boundary_in(content_type: str) -> bytes:
    """The boundary that a form's content type names.

    Raises:
        Refusal: 400 when it is no form, or names none.
    """
    head = Message()
    head["Content-Type"] = content_type
    boundary = head.get_param("boundary")
    if head.get_content_type() != "multipart/form-data" or not isinstance(boundary, str) or not boundary:
        raise _malformed("an upload is multipart/form-data, and its content type names the boundary")
    return boundary.encode("latin-1", "replace")


def parts_in(read: Callable[[int], bytes], boundary: bytes) -> Iterator[Part]:
    """The parts of a form.

    Args:
        read: gives at most so many bytes of the body, empty at its end.

    Raises:
        Refusal: 400 when the form breaks off, or is no form.
    """
    scan = _Scan(read)
    delimiter = b"\r\n--" + boundary
    _skip(scan.until(delimiter))
    while not scan.at_the_end():
        head = scan.head()
        content = scan.until(delimiter)
        yield Part(name=_parameter(head, "name"), filename=_filename(head), content=content)
        _skip(content)


class _Scan:
    """What has been read and not been used yet."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        # Every boundary stands behind a line end, but for the first one, which may be the very beginning.
        self._ahead = bytearray(b"\r\n")

    def until(self, mark: bytes) -> Iterator[bytes]:
        """What stands before the next `mark`, which is used up with it."""
        keep = len(mark) - 1
        while (at := self._ahead.find(mark)) < 0:
            if len(self._ahead) > keep:
                yield self._take(len(self._ahead) - keep)
            self._more()
        if block := self._take(at):
            yield block
        self._take(len(mark))

    def at_the_end(self) -> bool:
        """Whether the mark just used up was the last one."""
        while len(self._ahead) < len(b"--"):
            self._more()
        return self._ahead.startswith(b"--")

    def head(self) -> Message:
        """The header of a part, used up."""
        while (at := self._ahead.find(b"\r\n\r\n")) < 0:
            if len(self._ahead) > _LONGEST_HEAD:
                raise _malformed(f"the head of a part is longer than {_LONGEST_HEAD} bytes")
            self._more()
        text = self._take(at).decode(errors="replace")
        self._take(len(b"\r\n\r\n"))
        return HeaderParser().parsestr(text.strip())

    def _take(self, size: int) -> bytes:
        taken = bytes(self._ahead[:size])
        del self._ahead[:size]
        return taken

    def _more(self) -> None:
        block = self._read(_BLOCK)
        if not block:
            raise _malformed("the form breaks off before its last boundary")
        self._ahead += block


def _parameter(head: Message, name: str) -> str:
    value = head.get_param(name, "", "content-disposition")
    return collapse_rfc2231_value(value) if isinstance(value, tuple) else str(value or "")


def _filename(head: Message) -> str:
    """Where it stands as it is, some clients have percent-encoded what is not ASCII (RFC 7578 §4.2)."""
    name = _parameter(head, "filename")
    if isinstance(head.get_param("filename", header="content-disposition"), tuple):
        return name
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name


def _skip(content: Iterator[bytes]) -> None:
    for _ in content:
        pass


def _malformed(what: str) -> Refusal:
    return Refusal(400, "malformed_form", what)
