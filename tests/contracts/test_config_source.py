"""ConfigSourcePort, held to its promises on the disk and in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from synth_train.adapters.in_memory.configs import InMemoryConfigs
from synth_train.adapters.toml_configs import TomlConfigs
from synth_train.domain.model.errors import InvalidConfig, UsageError
from synth_train.domain.model.places import KeyPath, Place
from synth_train.ports.config_source import ConfigSourcePort

Make = Callable[[dict[str, str | bytes]], ConfigSourcePort]

JOB = '[job]\nmodel = "x"\n'


@pytest.fixture(params=["in-memory", "toml"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Something that makes a source of the files it is given, by paths relative to the working directory."""

    def in_memory(files: dict[str, str | bytes]) -> ConfigSourcePort:
        return InMemoryConfigs(files, working_directory=tmp_path)

    def on_disk(files: dict[str, str | bytes]) -> ConfigSourcePort:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return TomlConfigs(tmp_path, home=tmp_path / ".synth-ai")

    return in_memory if request.param == "in-memory" else on_disk


# -- reading


def test_a_file_is_read_with_its_absolute_path_and_the_name_it_was_given(make: Make, tmp_path: Path) -> None:
    document = make({"configs/a.toml": JOB}).read(Path("configs/a.toml"))
    assert document.table == {"job": {"model": "x"}}
    assert document.path == tmp_path / "configs/a.toml"
    assert document.shown == str(Path("configs/a.toml"))


def test_an_absolute_path_is_taken_as_it_is(make: Make, tmp_path: Path) -> None:
    document = make({"a.toml": JOB}).read(tmp_path / "a.toml")
    assert (document.path, document.shown) == (tmp_path / "a.toml", str(tmp_path / "a.toml"))


@pytest.mark.parametrize("raw", [JOB.encode(), b"\xef\xbb\xbf" + JOB.encode(), JOB.replace("\n", "\r\n").encode()])
def test_a_mark_at_the_start_and_the_kind_of_line_end_do_not_count(make: Make, raw: bytes) -> None:
    document = make({"a.toml": raw}).read(Path("a.toml"))
    assert document.table == {"job": {"model": "x"}}
    assert document.place_of(("job", "model")) == Place("a.toml", 2)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\n[job]\n# caf\xe9\n", "a.toml:3: this is not UTF-8: byte 0xe9; save it as UTF-8"),
        (b"\xef\xbb\xbf\n\xe9", "a.toml:2: this is not UTF-8: byte 0xe9; save it as UTF-8"),
        ("\ufeff[job]".encode("utf-16-le"), "a.toml:1: this file is in UTF-16, not UTF-8; save it as UTF-8"),
        ("\ufeff[job]".encode("utf-16-be"), "a.toml:1: this file is in UTF-16, not UTF-8; save it as UTF-8"),
        (
            b"[job]\nmodel = Qwen\ndata = 1\n",
            "a.toml:2: this is no TOML, column 9: the value is missing or no TOML; text needs quotes,"
            " truth values are true and false",
        ),
        (b"[job]\nmodel 3\n", "a.toml:2: this is no TOML, column 7: an = is missing after the key"),
        (b"[job]\nmodel = 'x\n\n[data]\n", "a.toml:2: this is no TOML: the closing quote is missing"),
        (b'[job]\nmodel = "x\n\n[data]\n', "a.toml:2: this is no TOML, column 11: the closing quote is missing"),
        (
            b"a = 1\nmodel =\n\n[data]\n",
            "a.toml:2: this is no TOML, column 8: the value is missing or no TOML; text needs quotes,"
            " truth values are true and false",
        ),
        (b"a = 01\n", "a.toml:1: this is no TOML, column 6: the value should end here; text needs quotes"),
        (b"[a]\n[a]\n", "a.toml:2: this is no TOML, column 3: this section is there twice"),
        (b"a = 1\na = 2", "a.toml:2: this is no TOML: this key is set twice"),
        (b"[job]\nx = 1\nx = 2\n", "a.toml:3: this is no TOML, column 6: this key is set twice"),
        (
            b"[job]\nseeds = [\n 1,\n\n[data]\nx = 1\n",
            "a.toml:5: this is no TOML, column 2: the value is missing or no TOML; text needs quotes,"
            " truth values are true and false; what is wrong may begin in line 2",
        ),
        (b"[job]\n\nx = " + b"9" * 5000, "a.toml:3: this number has more digits than can be read"),
        (b"[job]\nx = 1\ny = [\n1, 0x" + b"f" * 5000 + b"]", "a.toml:3: this number has more digits than can be read"),
        (b"a = 1\na = 2\nb = " + b"9" * 5000, "a.toml:2: this is no TOML, column 6: this key is set twice"),
        (b"a = 1\na = 2\nb = " + b"[" * 5000, "a.toml:2: this is no TOML, column 6: this key is set twice"),
        (b"a = " + b"[" * 5000, "a.toml: tables and lists are nested too deeply"),
        (b"a = 1\n" * 2_000_000, "a.toml: this is larger than 8 MiB, so it is no config"),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_read_is_said_with_its_line(make: Make, raw: bytes, message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        make({"a.toml": raw}).read(Path("a.toml"))
    assert str(caught.value) == message
    assert len(caught.value.problems) == 1


def test_a_missing_file_is_said_to_be_missing(make: Make) -> None:
    with pytest.raises(InvalidConfig, match=r"^b\.toml: there is no such file"):
        make({}).read(Path("b.toml"))


# -- places

TEXT = """\
top = 1 # [ a bracket
"quoted key" = '''
two lines'''

[training]
batch_size = 4
weight_sync.targets = [
  "a", # , ]
  "b",
  { c = [
    1] },
]
seeds = [1,
2]

[training.lora]
r = 8

[rubric.outcome.criteria]

[[tracks]]
name = "x"

[[tracks]]
name = "y"
[tracks.inner]
z = \"\"\"a ] \\\"\"\" [
b\"\"\"
[[tracks.inner.list]]
q = { a = 1, b = { c = 2 } }
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("top",), 1),
        (("quoted key",), 2),
        (("training",), 5),
        (("training", "batch_size"), 6),
        (("training", "weight_sync"), 7),
        (("training", "weight_sync", "targets"), 7),
        (("training", "weight_sync", "targets", 0), 8),
        (("training", "weight_sync", "targets", 1), 9),
        (("training", "weight_sync", "targets", 2, "c"), 10),
        (("training", "weight_sync", "targets", 2, "c", 0), 11),
        (("training", "seeds", 0), 13),
        (("training", "seeds", 1), 14),
        (("training", "lora"), 16),
        (("training", "lora", "r"), 17),
        (("rubric",), 19),
        (("rubric", "outcome"), 19),
        (("tracks",), 21),
        (("tracks", 0), 21),
        (("tracks", 0, "name"), 22),
        (("tracks", 1), 24),
        (("tracks", 1, "name"), 25),
        (("tracks", 1, "inner"), 26),
        (("tracks", 1, "inner", "z"), 27),
        (("tracks", 1, "inner", "list", 0), 29),
        (("tracks", 1, "inner", "list", 0, "q", "b", "c"), 30),
        (("training", "missing"), 5),
        (("training", "lora", "alpha"), 16),
        (("missing",), None),
        ((), None),
    ],
)
def test_every_key_has_a_line_and_a_missing_one_that_of_its_table(make: Make, key: KeyPath, line: int | None) -> None:
    assert make({"a.toml": TEXT}).read(Path("a.toml")).place_of(key) == Place("a.toml", line)


# -- discovery


def test_training_configs_are_found_by_depth_then_by_path(make: Make, tmp_path: Path) -> None:
    source = make({"z.toml": JOB, "b/c/a.toml": JOB, "b/z.toml": JOB, "a/z.toml": JOB})
    found = source.discover()
    assert [document.shown for document in found] == ["z.toml", "a/z.toml", "b/z.toml", "b/c/a.toml"]
    assert [document.path for document in found] == [tmp_path / document.shown for document in found]
    assert found[0].table == {"job": {"model": "x"}}
    assert source.searched() == (tmp_path,)


@pytest.mark.parametrize(
    "text",
    [
        "[algorithm]\n",
        "\ufeff[job]",
        "x = 1\n\n  [ training ] # here",
        "[training.lora]\n",
        "[hyperparameters]\n",
        'job = { model = "x" }',
        "job.model = 'x'",
        '["training"]\n',
    ],
)
def test_a_training_table_in_any_form_makes_a_training_config(make: Make, text: str) -> None:
    assert len(make({"a.toml": text}).discover()) == 1


@pytest.mark.parametrize(
    "text",
    [
        'type = "rl"\n[evaluation]\n',
        "training = 3\n",
        "[[job]]\n",
        "[job]\nmodel = \n",
        "[tool.training]\n",
        "# [training]\n",
        "",
        b"[job]\n\xe9",
        b"\xff\xfe[\x00j\x00o\x00b\x00]\x00",
    ],
)
def test_anything_else_is_not_found(make: Make, text: str | bytes) -> None:
    assert make({"a.toml": text}).discover() == ()


def test_only_toml_files_are_looked_at(make: Make) -> None:
    assert make({"a.toml.bak": JOB, "toml": JOB, "a.json": JOB}).discover() == ()


# -- overrides


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("training.batch_size=8", ("training", "batch_size"), 8),
        (" a . b = [1, 2] ", ("a", "b"), [1, 2]),
        ('job.model="Qwen/Qwen3-4B"', ("job", "model"), "Qwen/Qwen3-4B"),
        ("a.'b.c=d'.e = { x = 1 }", ("a", "b.c=d", "e"), {"x": 1}),
        ("a=-inf", ("a",), -math.inf),
        ('a = "x=y"', ("a",), "x=y"),
        ("a = [\n1,\n2]", ("a",), [1, 2]),
    ],
)
def test_an_override_is_a_dotted_key_and_a_toml_value(
    make: Make, text: str, path: tuple[str, ...], value: object
) -> None:
    override = make({}).override(text)
    assert (override.path, override.value) == (path, value)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("training.batch_size", "expected key=value", "--set training.batch_size=8"),
        ("=8", "expected key=value", "--set training.batch_size=8"),
        ("a..b=8", "expected key=value", "--set training.batch_size=8"),
        ("job.model=Qwen/Qwen3-4B", "job.model: the value is missing or no TOML", "--set 'job.model=\"...\"'"),
        ("job.model=", "job.model: the value is missing or no TOML", "double quotes"),
        ("a.b=True", "a.b: the value is missing or no TOML", "--set a.b=true"),
        ("a.b=" + "9" * 5000, "a.b: this number has more digits than can be read", ""),
        ("a.b={c = 0x" + "f" * 5000 + "}", "a.b: this number has more digits than can be read", ""),
        ("a=1\nb=2", "a: the value is missing or no TOML", "double quotes"),
        ("a=1\nvalue=2", "a: the value is missing or no TOML", "double quotes"),
        ("a=" + "[" * 5000, "a: the value is missing or no TOML", "double quotes"),
        ('"\\q"=1', "the key is none that TOML has", ""),
        ("a='caf\udce9'", "this is not UTF-8", ""),
    ],
)
def test_what_is_no_override_is_a_usage_error_that_shows_how(make: Make, text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        make({}).override(text)
    assert str(caught.value).removeprefix("--set").lstrip(": ") == what
    assert hint in caught.value.hint


def test_a_refused_value_is_not_repeated_since_it_may_be_a_secret(make: Make) -> None:
    with pytest.raises(UsageError) as caught:
        make({}).override("metadata.key=sk-0123456789")
    assert "sk-0123" not in str(caught.value) + caught.value.hint


# -- memory


def test_the_last_choice_is_remembered(make: Make, tmp_path: Path) -> None:
    source = make({})
    assert source.last_chosen() is None
    source.remember(tmp_path / "a.toml")
    source.remember(tmp_path / "b.toml")
    assert source.last_chosen() == tmp_path / "b.toml"
