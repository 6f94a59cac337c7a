"""`.env` files through python-dotenv.

python-dotenv is shown one statement at a time, up to the end of its value. So every line that cannot be read is known
by its number, a quote that is never closed spoils its own line only, and the versions of the library agree:

- UTF-8; a byte-order mark is skipped at the very start and nowhere else.
- `NAME=value`, with or without `export`; names are letters, digits, `_`, `-` and `.`; nothing is expanded.
- `#` begins a comment at the start of a line, and behind a blank outside quotes.
- A quoted value may span lines up to its closing quote, unless a line in between is itself a setting: then the quote
  counts as forgotten, and that line is read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path

from msgspec import Struct

from synth_train.adapters.user_paths import expanded
from synth_train.domain.model.errors import LocalStateError, UsageError
from synth_train.domain.model.settings import EnvFile
from synth_train.ports.env_source import EnvSourcePort

NAME = ".env"
NOT_ENTERED = frozenset({".venv", "node_modules", "__pycache__", ".git", "site-packages", NAME})
"""Directories of tools. A directory may itself be called `.env`: it is a virtual environment then."""
MOST_CANDIDATES = 20
MOST_DIRECTORIES = 5_000
"""So many are looked into below the working directory, the nearest first: a run from `/` must not take minutes."""

LARGEST = 1 << 20
"""Bytes of an env file. Without a limit `--env-file /dev/zero` would take all memory."""

_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_IDLE = re.compile(r"\s*(?:#|\Z)")
_HEAD = re.compile(r"[^\S\r\n]*(?:export[^\S\r\n]+)?(?P<name>[A-Za-z0-9_.-]+)[^\S\r\n]*=(?P<gap>[^\S\r\n]*)")
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*["]""", re.DOTALL)
_BARE = re.compile(r"(?!['\"])[^\r\n]*?(?=\s+#|\s*\Z)")
_TAIL = re.compile(r"\s*(?:#[^\r\n]*)?\s*\Z")
_PADDING = re.compile(r"=*['\"]?(?:\s+#[^\r\n]*)?\s*\Z")
"""What follows the first `=` in the last line of a key in base64, which is no setting."""
_SAFE = re.compile(r"[A-Za-z0-9_.:/@%+-]+")
_ESCAPES = {
    "\\": r"\\",
    '"': r"\"",
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}


class DotenvEnv(EnvSourcePort):
    """EnvSourcePort over the file system and a mapping of variables.

    Args:
        process: the variables of the process; `os.environ` when left out.
        cwd: the working directory; the process's own, asked each time, when left out.
        home: where this program keeps its files; `SYNTH_AI_HOME` or else `~/.synth-ai` when left out.
    """

    def __init__(
        self, process: Mapping[str, str] | None = None, *, cwd: Path | None = None, home: Path | None = None
    ) -> None:
        self._process = os.environ if process is None else process
        self._cwd = cwd
        self._home = home or Path(self._process.get("SYNTH_AI_HOME") or "~/.synth-ai")
        self._poured: dict[Path, bytes] = {}

    def process(self) -> Mapping[str, str]:
        return {name: value for name, value in self._process.items() if value}

    def candidates(self, beside: Sequence[Path] = ()) -> tuple[Path, ...]:
        cwd, *others = self.places(beside)
        found = [cwd / NAME, *_below(cwd), *(place / NAME for place in others)]
        return tuple(path for path in dict.fromkeys(found) if self.exists(path))

    def places(self, beside: Sequence[Path] = ()) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(map(self._absolute, (Path(), *beside, self._home))))

    def default_file(self) -> Path:
        return self._absolute(Path(NAME))

    def exists(self, path: Path) -> bool:
        # Path.is_file would raise for a directory that may not be entered.
        return os.path.isfile(self._absolute(path))  # noqa: PTH113

    def read(self, path: Path) -> EnvFile:
        path = self._absolute(path)
        try:
            data = self._content(path)
        except FileNotFoundError:
            raise UsageError(f"{path}: there is no such env file", hint="Give --env-file the path of a file.") from None
        except OSError as error:
            raise LocalStateError(f"{path}: cannot be read: {error.strerror}") from error
        statements = list(_statements(_decoded(data, path)))
        return EnvFile(
            path=path,
            values={setting.name: setting.value for _, setting in statements if setting},
            lines={setting.name: line for line, setting in statements if setting},
            unreadable_lines=tuple(line for line, setting in statements if setting is None),
        )

    def save(self, path: Path, name: str, value: str) -> None:
        path = self._absolute(path)
        real = Path(os.path.realpath(path))
        # A pipe would block, and as root `/dev/null` itself would be replaced by a file. Path.exists may raise.
        if os.path.exists(real) and not os.path.isfile(real) and not os.path.isdir(real):  # noqa: PTH110, PTH112, PTH113
            raise LocalStateError(
                f"{path}: {name} cannot be saved: this is no ordinary file",
                hint="Name an ordinary file with --env-file.",
            )
        try:
            old, owner = real.read_bytes(), real.stat()
        except FileNotFoundError:
            old, owner = b"", None
        except OSError as error:
            raise LocalStateError(f"{path}: cannot be read: {error.strerror}") from error
        mark = _MARK if old.startswith(_MARK) else b""
        new = mark + _with(_decoded(old, path), name, value).encode()
        try:
            _replace(real, new, owner)
        except OSError as error:
            raise LocalStateError(
                f"{path}: {name} cannot be saved: {error.strerror}",
                hint="Make the directory writable, or name another file with --env-file.",
            ) from error

    def _content(self, path: Path) -> bytes:
        """The bytes of a file; those of a pipe, such as `<(pass show keys)`, which gives them once, are kept.

        Raises:
            OSError: it cannot be read.
            LocalStateError: it is too large to be meant, or has no end.
        """
        if path in self._poured:
            return self._poured[path]
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self._poured[path] = data
        if len(data) > LARGEST:
            raise LocalStateError(
                f"{path}: is larger than {LARGEST >> 20} MiB, so it is no env file",
                hint="An env file has lines such as NAME=value.",
            )
        return data

    def _absolute(self, path: Path) -> Path:
        return (self._cwd or Path.cwd()) / expanded(path)


def _below(top: Path) -> list[Path]:
    """The `.env` files in the directories below `top`, by depth and then by path. Links to directories are not
    followed, and what cannot be listed is passed over."""
    found: list[Path] = []
    level, looked = [str(top)], 0
    while level:
        deeper: list[str] = []
        for directory in level:
            if len(found) == MOST_CANDIDATES or looked == MOST_DIRECTORIES:
                return found
            looked += 1
            with suppress(OSError), os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in NOT_ENTERED:
                            deeper.append(entry.path)
                    elif entry.name == NAME and directory != str(top):
                        found.append(Path(entry.path))
        level = sorted(deeper)
    return found


class _Setting(Struct, frozen=True, kw_only=True):
    """A setting, and where its value stands in the text, quotes included."""

    name: str
    value: str
    start: int
    stop: int


def _decoded(data: bytes, path: Path) -> str:
    """The text without the mark at its start; LocalStateError says why there is none."""
    hint = "Save the file as UTF-8."
    if data.startswith(_WIDE_MARKS) or b"\0" in data:
        raise LocalStateError(f"{path}: is UTF-16 by the look of it, not UTF-8", hint=hint)
    try:
        return data.removeprefix(_MARK).decode()
    except UnicodeDecodeError as error:
        line = len(_LINE.findall(data[: error.start].decode() + "?"))
        raise LocalStateError(f"{path}:{line}: is not UTF-8", hint=hint) from None


def _statements(text: str) -> Iterator[tuple[int, _Setting | None]]:
    """Every setting with the line it begins on, counted from 1; None for a line that cannot be read."""
    lines = [match.span() for match in _LINE.finditer(text)]
    last = -1
    for index, (start, stop) in enumerate(lines):
        if index <= last or _IDLE.match(text, start, stop):
            continue
        setting = None
        head = _HEAD.match(text, start, stop)
        if head:
            last = _last_line(text, lines, index, head)
            setting = _setting(text, head, lines[last][1])
            if setting is None:
                last = index
        yield index + 1, setting


def _last_line(text: str, lines: list[tuple[int, int]], index: int, head: re.Match[str]) -> int:
    """Index of the line on which the statement that begins with `head` on line `index` ends."""
    quoted = _QUOTED.match(text, head.end())
    if quoted is None:
        return index
    last = index
    while lines[last][1] < quoted.end():
        last += 1
        inner = _HEAD.match(text, *lines[last])
        if inner and not _PADDING.match(text, inner.end(), lines[last][1]):
            return index
    return last


def _setting(text: str, head: re.Match[str], stop: int) -> _Setting | None:
    """The setting that begins with `head` and ends before `stop`, with its line end; None when it cannot be read."""
    from dotenv.parser import parse_stream  # here, because many a run has no env file

    if head["gap"] and text.startswith("#", head.end()):
        # A comment behind an empty value. Versions of python-dotenv differ on it.
        return _Setting(name=head["name"], value="", start=head.start("gap"), stop=head.start("gap"))
    span = _QUOTED.match(text, head.end(), stop) or _BARE.match(text, head.end(), stop)
    if span is None or not _TAIL.match(text, span.end(), stop):
        return None
    binding = next(parse_stream(StringIO(text[head.start() : span.end()])))
    if binding.value is None:
        return None
    return _Setting(name=head["name"], value=binding.value, start=span.start(), stop=span.end())


def _with(text: str, name: str, value: str) -> str:
    """`text` with `name` set to `value`."""
    value = _quoted(value)
    for _, setting in reversed(list(_statements(text))):
        if setting and setting.name == name:
            comment = text.startswith("#", setting.stop)
            return f"{text[: setting.start]}{value}{' ' if comment else ''}{text[setting.stop :]}"
    ends = re.search(r"\r\n|\n|\r", text)
    end = ends[0] if ends else "\n"
    gap = "" if not text or text.endswith(("\n", "\r")) else end
    return f"{text}{gap}{name}={value}{end}"


def _quoted(value: str) -> str:
    """`value` so that it is read back as it is, by python-dotenv and, where it can be, by a shell."""
    if _SAFE.fullmatch(value):
        return value
    if "'" not in value and not _ESCAPES.keys() - {'"'} & set(value):
        return f"'{value}'"
    return f'"{"".join(_ESCAPES.get(sign, sign) for sign in value)}"'


def _replace(path: Path, data: bytes, owner: os.stat_result | None) -> None:
    """Put `data` in the place of `path` in one step, readable and writable for its owner only."""
    from tempfile import mkstemp  # here, because it takes long to load and few runs write

    handle, name = mkstemp(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent)
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        ours = made.stat()
        if owner is not None and (owner.st_uid, owner.st_gid) != (ours.st_uid, ours.st_gid):
            os.chown(made, owner.st_uid, owner.st_gid)
        made.replace(path)
    except BaseException:
        made.unlink()
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Make the new name outlive a power cut, where the system can."""
    if os.name == "posix":
        with suppress(OSError):
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
