"""`.env` files on a real disk: how each line is read, what saving leaves alone, and who may read what was saved."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.fewer_rights import without_root
from synth_train.adapters.dotenv_env import LARGEST, MOST_CANDIDATES, MOST_DIRECTORIES, DotenvEnv
from synth_train.domain.model.errors import LocalStateError, UsageError
from synth_train.domain.model.settings import EnvFile

posix = pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX")


def read(folder: Path, content: str | bytes) -> EnvFile:
    path = folder / "x.env"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return DotenvEnv({}, cwd=folder).read(path)


def save(folder: Path, content: str | bytes, name: str, value: str) -> bytes:
    path = folder / "x.env"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    DotenvEnv({}, cwd=folder).save(path, name, value)
    return path.read_bytes()


# Reading: what is no ordinary file


@posix
def test_what_a_pipe_gave_is_there_each_time_it_is_read(tmp_path: Path) -> None:
    incoming, outgoing = os.pipe()
    os.write(outgoing, b"A=1\n")
    os.close(outgoing)
    env = DotenvEnv({}, cwd=tmp_path)

    values = [env.read(Path(f"/dev/fd/{incoming}")).values for _ in range(3)]

    os.close(incoming)
    assert values == [{"A": "1"}] * 3


def test_an_ordinary_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "x.env"
    env = DotenvEnv({}, cwd=tmp_path)
    path.write_text("A=1\n")
    env.read(path)
    path.write_text("A=2\n")

    assert env.read(path).values == {"A": "2"}


@posix
def test_a_file_without_end_is_no_env_file(tmp_path: Path) -> None:
    with pytest.raises(LocalStateError) as refused:
        DotenvEnv({}, cwd=tmp_path).read(Path("/dev/zero"))

    assert str(refused.value) == "/dev/zero: is larger than 1 MiB, so it is no env file"


def test_the_largest_env_file_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "A=1\n#".ljust(LARGEST, "x")).values == {"A": "1"}
    with pytest.raises(LocalStateError, match="larger than 1 MiB"):
        read(tmp_path, "A=1\n#".ljust(LARGEST + 1, "x"))


@posix
def test_nothing_is_saved_to_what_is_no_ordinary_file(tmp_path: Path) -> None:
    pipe = tmp_path / "keys"
    os.mkfifo(pipe)

    with pytest.raises(LocalStateError, match="keys: A cannot be saved: this is no ordinary file"):
        DotenvEnv({}, cwd=tmp_path).save(pipe, "A", "1")

    assert pipe.is_fifo()


# Reading: encodings


def test_a_mark_at_the_start_is_skipped_and_any_other_stays(tmp_path: Path) -> None:
    mark = "\ufeff"
    content = f"{mark}SYNTH_API_KEY=fake-synth-key-0001-abcdefgh\nA=x{mark}y\n{mark}B=1\n"

    file = read(tmp_path, content)

    assert file.values == {"SYNTH_API_KEY": "fake-synth-key-0001-abcdefgh", "A": f"x{mark}y"}
    assert file.unreadable_lines == (3,)


def test_a_second_mark_is_not_skipped(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff\ufeffA=1\n").unreadable_lines == (1,)


@pytest.mark.parametrize("content", ["", "\ufeff", "\n\n", "# SYNTH_API_KEY=wrong", "  # note\n\t\n"])
def test_a_file_without_settings_is_empty_and_has_no_bad_line(tmp_path: Path, content: str) -> None:
    file = read(tmp_path, content)

    assert (dict(file.values), file.unreadable_lines) == ({}, ())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(LocalStateError, match=r"x\.env: is UTF-16 by the look of it, not UTF-8") as caught:
        read(tmp_path, "SYNTH_API_KEY=fake-synth-key-0001\r\n".encode(encoding))

    assert caught.value.hint == "Save the file as UTF-8."


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_what_is_not_utf_8_is_refused_with_its_line(tmp_path: Path, start: bytes) -> None:
    with pytest.raises(LocalStateError, match=r"x\.env:3: is not UTF-8"):
        read(tmp_path, start + "A=é\r\n\nB=".encode() + b"caf\xe9\nC=1\n")


def test_a_directory_is_no_env_file(tmp_path: Path) -> None:
    with pytest.raises(LocalStateError, match=re.escape(f"{tmp_path}: cannot be read: Is a directory")):
        DotenvEnv({}).read(tmp_path)


# Reading: lines


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=fake#synth#key-0001", "fake#synth#key-0001"),
        ('export A="fake # env key-0002" # trailing note', "fake # env key-0002"),
        ("A = http://127.0.0.1:9901/app#frag   \t# note after blanks", "http://127.0.0.1:9901/app#frag"),
        ("A=#ff0000", "#ff0000"),
        ("A= # only a note", ""),
        ("A=\t#", ""),
        ("  A='it is' # note", "it is"),
        ("A='it is'# note", "it is"),
        ("A=fake$key$0001", "fake$key$0001"),
        ("A='fake-${NOT_SET}-0002'", "fake-${NOT_SET}-0002"),
        ("A=http://127.0.0.1:9901/${HOME}", "http://127.0.0.1:9901/${HOME}"),
        ("A=", ""),
        ("A=   ", ""),
        ("A=''", ""),
        ("A=a b  c ", "a b  c"),
        ("A=it's", "it's"),
        ("A=b=c==", "b=c=="),
        (r"A='it\'s \\ \n'", r"it's \ \n"),
        (r'A="\"\\\n\t$"', '"\\\n\t$'),
        ("A=C:\\new", "C:\\new"),
        ("\t export \tA=1", "1"),
        ("A=é 鍵", "é 鍵"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
def test_a_line_is_read_literally(tmp_path: Path, line: str, value: str, end: str) -> None:
    file = read(tmp_path, line + end)

    assert (dict(file.values), file.unreadable_lines) == ({"A": value}, ())


@pytest.mark.parametrize(
    "line",
    [
        "SYNTH_API_KEY: fake-synth-key-0001",
        "SYNTH_API_KEY:fake-synth-key-0001==",
        'SYNTH_API_KEY="fake-synth-key-0001',
        "SYNTH_API_KEY='fake-synth-key-0001",
        'SYNTH_API_KEY="fake-synth"-key-0001',
        "SYNTH_API_KEY",
        "export SYNTH_API_KEY",
        "export = 1",
        "=fake-synth-key-0001",
        "fake synth=1",
        "'SYNTH_API_KEY'=1",
        "Authorization: Bearer fake=",
        "\ufeff",
    ],
)
def test_a_line_that_is_no_setting_is_known_by_its_number_alone(tmp_path: Path, line: str) -> None:
    file = read(tmp_path, f"# keys\n{line}\nTASK_APP_URL=http://127.0.0.1:9901\nNOTE='x'\n")

    assert file.unreadable_lines == (2,)
    assert file.values == {"TASK_APP_URL": "http://127.0.0.1:9901", "NOTE": "x"}
    assert "fake" not in repr(file)


@pytest.mark.parametrize("quote", ["'", '"'])
def test_an_open_quote_swallows_no_setting_though_a_later_line_would_close_it(tmp_path: Path, quote: str) -> None:
    content = f"A={quote}fake-env-key-0002\nB={quote}b{quote}\nC=c{quote}\nD={quote}d{quote}\n"

    file = read(tmp_path, content)

    assert file.unreadable_lines == (1,)
    assert file.values == {"B": "b", "C": f"c{quote}", "D": "d"}


PEM = "-----BEGIN KEY-----\nMIIB+/vQ0A\nZm9vYmFy==\n-----END KEY-----"


@pytest.mark.parametrize("value", [PEM, PEM.replace("\n", "\r\n"), "one\n\n# two", "{\n  'a': 1\n}", "x\nZm9v="])
def test_a_quoted_value_may_span_lines(tmp_path: Path, value: str) -> None:
    file = read(tmp_path, f'A="{value}" # note\nbad line\nB=1\n')

    assert file.values == {"A": value, "B": "1"}
    assert file.unreadable_lines == (value.count("\n") + 2,)


def test_what_follows_a_closing_quote_spoils_the_first_line_only(tmp_path: Path) -> None:
    file = read(tmp_path, 'A="one\ntwo" three\nB=1\n')

    assert (dict(file.values), file.unreadable_lines) == ({"B": "1"}, (1, 2))


def test_of_a_name_set_twice_the_last_counts(tmp_path: Path) -> None:
    assert read(tmp_path, "A=1\nA=2\n").values == {"A": "2"}


# Where files are


def test_the_defaults_are_the_process_its_directory_and_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("SOME_VARIABLE", "1")
    monkeypatch.delenv("SYNTH_AI_HOME", raising=False)
    env = DotenvEnv()

    assert env.process()["SOME_VARIABLE"] == "1"
    assert env.default_file() == tmp_path / ".env"
    assert env.places() == (tmp_path, tmp_path / "me" / ".synth-ai")


def test_the_home_can_be_moved(tmp_path: Path) -> None:
    assert DotenvEnv({"SYNTH_AI_HOME": str(tmp_path)}, cwd=Path("/repo")).places() == (Path("/repo"), tmp_path)


def test_a_path_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my.env").write_text("A=1")

    assert DotenvEnv({}).read(Path("~/my.env")).values == {"A": "1"}


def test_reading_a_file_changes_no_variable_of_the_process(tmp_path: Path) -> None:
    before = dict(os.environ)

    read(tmp_path, "\ufeffSYNTH_API_KEY=fake-synth-key-0001-abcdefgh\n")

    assert dict(os.environ) == before


def test_folders_of_tools_are_not_searched_and_a_folder_is_no_candidate(tmp_path: Path) -> None:
    for folder in (".venv", "node_modules/a", "a/__pycache__", ".git", ".env/lib", "v/lib/site-packages/x", "app"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".env").write_text("")

    assert DotenvEnv({}, cwd=tmp_path, home=tmp_path / "home").candidates() == (tmp_path / "app" / ".env",)


def test_the_twenty_nearest_files_below_are_candidates(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / ".env").write_text("")
    for number in range(25):
        (tmp_path / f"{number:02}").mkdir()
        (tmp_path / f"{number:02}" / ".env").write_text("")
    (tmp_path / ".env").write_text("")

    found = DotenvEnv({}, cwd=tmp_path, home=tmp_path / "home").candidates()

    assert found == (tmp_path / ".env", *(tmp_path / f"{number:02}" / ".env" for number in range(MOST_CANDIDATES)))


def test_a_huge_tree_is_not_searched_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / ".env").write_text("")
    for number in range(MOST_DIRECTORIES):
        (tmp_path / f"x{number}").mkdir()
    (tmp_path / "x0" / "far").mkdir()
    (tmp_path / "x0" / "far" / ".env").write_text("")

    assert DotenvEnv({}, cwd=tmp_path, home=tmp_path / "home").candidates() == (tmp_path / "near" / ".env",)


@posix
def test_links_to_folders_are_not_followed_and_links_to_files_are(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / ".env").symlink_to(tmp_path / "real.env")
    (tmp_path / "real.env").write_text("")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / ".env").symlink_to(tmp_path / "nowhere")

    assert DotenvEnv({}, cwd=tmp_path, home=tmp_path / "home").candidates() == (tmp_path / "app" / ".env",)


# Saving: the text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "KEY=new\n"),
        ("A=1\n", "A=1\nKEY=new\n"),
        ("A=1", "A=1\nKEY=new\n"),
        ("A=1\r\nB=2", "A=1\r\nB=2\r\nKEY=new\r\n"),
        ("# KEY=old\n", "# KEY=old\nKEY=new\n"),
        ("KEY=old", "KEY=new"),
        ("A=1\r\n KEY = old # note\r\nB=2\r\n", "A=1\r\n KEY = new # note\r\nB=2\r\n"),
        ("export KEY='old'#note\n", "export KEY=new #note\n"),
        ("KEY= # note\n", "KEY=new # note\n"),
        ("KEY=\n", "KEY=new\n"),
        ("KEY=1\nKEY=2\nA=3\n", "KEY=1\nKEY=new\nA=3\n"),
        ('KEY="one\ntwo"\nA=1\n', "KEY=new\nA=1\n"),
        ("KEY: old\n", "KEY: old\nKEY=new\n"),
        ('A="open\n', 'A="open\nKEY=new\n'),
        ("\ufeffKEY=old\n", "\ufeffKEY=new\n"),
    ],
)
def test_saving_changes_the_value_and_no_other_byte(tmp_path: Path, before: str, after: str) -> None:
    assert save(tmp_path, before, "KEY", "new") == after.encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("fake-key_0.1/+@:%", "fake-key_0.1/+@:%"),
        ("", "''"),
        ("a b", "'a b'"),
        ("fake#key$1", "'fake#key$1'"),
        ("abc==", "'abc=='"),
        ('say "hi"', "'say \"hi\"'"),
        ("it's", '"it\'s"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb\r\t", '"a\\nb\\r\\t"'),
    ],
)
def test_a_value_is_quoted_only_when_it_must_be(tmp_path: Path, value: str, written: str) -> None:
    assert save(tmp_path, "", "KEY", value).decode() == f"KEY={written}\n"
    assert DotenvEnv({}, cwd=tmp_path).read(Path("x.env")).values == {"KEY": value}


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
lines = st.one_of(
    texts,
    st.sampled_from(["KEY=old", "KEY='old", 'KEY="old" # x', "A=1", "B='b", 'c"', "# 'note'", "export KEY=", "KEY= #"]),
)
files = st.tuples(st.lists(lines, max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans()).map(
    lambda drawn: drawn[1].join(drawn[0]) + drawn[1] * drawn[2]
)


@given(content=files, value=texts)
@example(content="KEY='old'#note", value="new")
@example(content='A="abc\nKEY=old\nfoo"', value="")
@settings(deadline=None)
def test_whatever_is_saved_is_read_back_and_nothing_else_changes(content: str, value: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = read(folder, content)
        DotenvEnv({}, cwd=folder).save(Path("x.env"), "KEY", value)
        after = DotenvEnv({}, cwd=folder).read(Path("x.env"))

    assert after.values["KEY"] == value
    assert {**before.values, "KEY": value} == after.values
    assert len(before.unreadable_lines) == len(after.unreadable_lines)


@given(content=st.binary(max_size=60))
@settings(deadline=None)
def test_reading_any_bytes_gives_values_or_one_of_our_errors(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            file = read(Path(name), content)
        except LocalStateError:
            return
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name in file.values)


# Saving: the file


@posix
def test_a_new_file_is_for_its_owner_only_from_its_first_moment(tmp_path: Path) -> None:
    # With no umask and no chmod, only a file that was opened with mode 0600 has it.
    script = (
        "import os, pathlib; os.umask(0); os.chmod = os.fchmod = None\n"
        "from synth_train.adapters.dotenv_env import DotenvEnv\n"
        "DotenvEnv().save(pathlib.Path('.env'), 'KEY', 'new')"
    )

    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=with_sources(), check=True)

    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("before", [0o600, 0o640, 0o666, 0o400])
def test_an_older_file_becomes_its_owners_only(tmp_path: Path, before: int) -> None:
    path = tmp_path / ".env"
    path.write_text("A=1\n")
    path.chmod(before)

    DotenvEnv({}).save(path, "KEY", "new")

    assert path.stat().st_mode & 0o777 == 0o600


@posix
def test_a_link_stays_one_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    real = tmp_path / "store" / "real.env"
    real.write_text("A=1\n")
    link = tmp_path / ".env"
    link.symlink_to("store/real.env")

    DotenvEnv({}).save(link, "KEY", "new")

    assert link.readlink() == Path("store/real.env")
    assert real.read_text() == "A=1\nKEY=new\n"
    assert sorted(tmp_path.rglob("*")) == [link, tmp_path / "store", real]


@posix
def test_a_link_to_nowhere_gets_its_target(tmp_path: Path) -> None:
    link = tmp_path / ".env"
    link.symlink_to("real.env")

    DotenvEnv({}).save(link, "KEY", "new")

    assert link.is_symlink()
    assert (tmp_path / "real.env").read_text() == "KEY=new\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can write another's file")
def test_a_file_of_somebody_else_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=1\n")
    os.chown(path, 4321, 4322)

    DotenvEnv({}).save(path, "KEY", "new")

    assert (path.stat().st_uid, path.stat().st_gid) == (4321, 4322)


@pytest.mark.parametrize("content", [b"\xff\xfeA\0", b"A=caf\xe9\n"])
def test_a_file_that_cannot_be_read_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(LocalStateError, match=r"x\.env"):
        save(tmp_path, content, "KEY", "new")

    assert (tmp_path / "x.env").read_bytes() == content


def test_what_cannot_be_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(LocalStateError, match=re.escape(f"{tmp_path}: cannot be read: Is a directory")):
        DotenvEnv({}).save(tmp_path, "KEY", "new")
    with pytest.raises(LocalStateError, match=re.escape(f"{tmp_path}/nowhere/.env: KEY cannot be saved: No such file")):
        DotenvEnv({}).save(tmp_path / "nowhere" / ".env", "KEY", "new")


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that everybody may enter and nobody may write, outside of pytest's own, which only we may enter."""
    folder = Path(tempfile.mkdtemp())
    (folder / ".env").write_text("A=1\n")
    (folder / ".env").chmod(0o644)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@posix
def test_a_directory_that_cannot_be_written_is_said_and_nothing_is_left(read_only: Path) -> None:
    with without_root(), pytest.raises(LocalStateError) as caught:
        DotenvEnv({}).save(read_only / ".env", "KEY", "fake-key-0001")

    assert str(caught.value) == f"{read_only}/.env: KEY cannot be saved: Permission denied"
    assert caught.value.hint == "Make the directory writable, or name another file with --env-file."
    assert [path.name for path in read_only.iterdir()] == [".env"]
    assert (read_only / ".env").read_text() == "A=1\n"


@posix
def test_a_file_that_must_not_be_read_is_said(read_only: Path) -> None:
    (read_only / ".env").chmod(0o000)

    with without_root():
        with pytest.raises(LocalStateError, match=r"\.env: cannot be read: Permission denied"):
            DotenvEnv({}).read(read_only / ".env")
        with pytest.raises(LocalStateError, match=r"\.env: cannot be read: Permission denied"):
            DotenvEnv({}).save(read_only / ".env", "KEY", "new")


@posix
def test_a_directory_that_must_not_be_entered_holds_no_candidate(read_only: Path) -> None:
    read_only.chmod(0o000)

    with without_root():
        assert DotenvEnv({}, cwd=read_only, home=read_only / "home").candidates() == ()
    read_only.chmod(0o755)


def test_a_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    script = (
        "import pathlib, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from synth_train.adapters.dotenv_env import DotenvEnv\n"
        "DotenvEnv().save(pathlib.Path('.env'), 'KEY', 'fake-key-0001')"
    )

    ran = subprocess.run(
        [sys.executable, "-B", "-c", script], cwd=tmp_path, env=with_sources(), capture_output=True, text=True
    )

    assert "KEY cannot be saved: File too large" in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".env"]
    assert (tmp_path / ".env").read_text() == "A=1\n"


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        DotenvEnv({}, cwd=tmp_path).read(Path("missing.env"))

    assert str(caught.value) == f"{tmp_path}/missing.env: there is no such env file"


def with_sources() -> dict[str, str]:
    """The environment of a child that imports what this process imports."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
