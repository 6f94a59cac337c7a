"""What only a disk can do to TOML files."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from support.fewer_rights import without_root
from synth_train.adapters.toml_configs import TomlConfigs
from synth_train.domain.model.errors import InvalidConfig

JOB = '[job]\nmodel = "x"\n'


def write(path: Path, text: str = JOB) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def shown(configs: TomlConfigs) -> list[str]:
    return [document.shown for document in configs.discover()]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def configs(here: Path, tmp_path: Path) -> TomlConfigs:
    return TomlConfigs(here, home=tmp_path / "home" / ".synth-ai")


def refusal(configs: TomlConfigs, name: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        configs.read(Path(name))
    return str(caught.value)


# -- reading


def test_a_misspelt_file_name_is_told_the_near_one(configs: TomlConfigs, here: Path) -> None:
    write(here / "configs/crafter_rl.toml")
    assert refusal(configs, "configs/crafter_lr.toml") == (
        "configs/crafter_lr.toml: there is no such file; did you mean crafter_rl.toml?"
    )


def test_a_file_like_no_other_is_told_what_there_is(configs: TomlConfigs, here: Path) -> None:
    assert refusal(configs, "sft.toml") == "sft.toml: there is no such file"
    for name in "abcdefg":
        write(here / f"{name * 8}.toml")
    assert refusal(configs, "sft.toml") == (
        "sft.toml: there is no such file; there are aaaaaaaa.toml, bbbbbbbb.toml, cccccccc.toml, dddddddd.toml,"
        " eeeeeeee.toml and 2 more"
    )


def test_other_tomls_are_not_offered_in_place_of_a_missing_config(configs: TomlConfigs, here: Path) -> None:
    (here / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (here / "broken.toml").write_text("[job\n")
    (here / "folder.toml").mkdir()
    assert refusal(configs, "pyprojct.toml") == "pyprojct.toml: there is no such file"
    write(here / "a.toml")
    write(here / "b.toml")
    assert refusal(configs, "pyproject2.toml") == "pyproject2.toml: there is no such file; there are a.toml and b.toml"


def test_nul_bytes_are_named_with_their_line(configs: TomlConfigs, here: Path) -> None:
    (here / "nul.toml").write_bytes(b'type = "sft"\n\0\n')
    assert refusal(configs, "nul.toml") == (
        "nul.toml:2: this holds NUL bytes: it is damaged or not UTF-8; save it as UTF-8"
    )


def test_a_missing_directory_is_named(configs: TomlConfigs, here: Path) -> None:
    assert refusal(configs, "cfg/a.toml") == f"cfg/a.toml: there is no such file, and no directory {here / 'cfg'}"


def test_a_directory_is_told_apart_from_a_file(configs: TomlConfigs, here: Path) -> None:
    write(here / "configs/a.toml")
    assert refusal(configs, "configs") == "configs: this is a directory; name a TOML file in it; there is a.toml"


def test_a_path_through_a_file_is_no_file(configs: TomlConfigs, here: Path) -> None:
    write(here / "a.toml")
    assert "there is no such file" in refusal(configs, "a.toml/b.toml")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_directory_that_must_not_be_listed_names_no_other_file() -> None:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name, "sft.toml"))
        Path(name).chmod(0o311)
        with without_root():
            assert refusal(TomlConfigs(Path(name), home=Path(name)), "sff.toml") == "sff.toml: there is no such file"


def test_a_link_in_a_circle_cannot_be_read(configs: TomlConfigs, here: Path) -> None:
    (here / "a.toml").symlink_to("a.toml")
    assert refusal(configs, "a.toml").startswith("a.toml: this file cannot be read: ")


# -- discovery


@pytest.mark.parametrize("folder", [".git", ".venv", "node_modules", "__pycache__", "dist", "build"])
def test_folders_of_tools_are_not_entered(configs: TomlConfigs, here: Path, folder: str) -> None:
    write(here / "sub" / folder / "deep" / "a.toml")
    write(here / "sub" / "b.toml")
    assert shown(configs) == [str(Path("sub/b.toml"))]


def test_links_in_a_circle_end(configs: TomlConfigs, here: Path) -> None:
    write(here / "sub/a.toml")
    (here / "sub/again").symlink_to(here, target_is_directory=True)
    (here / "configs").symlink_to(here, target_is_directory=True)
    (here / "examples").symlink_to("examples")
    (here / "training").symlink_to(here.parent, target_is_directory=True)
    (here / "sub/b.toml").symlink_to("b.toml")
    assert shown(configs) == [str(Path("sub/a.toml"))]
    assert configs.searched() == (here,)


def test_a_usual_folder_may_be_a_link_to_elsewhere(configs: TomlConfigs, here: Path, tmp_path: Path) -> None:
    write(tmp_path / "shared/a.toml")
    (here / "configs").symlink_to(tmp_path / "shared", target_is_directory=True)
    (here / "other").symlink_to(tmp_path / "shared", target_is_directory=True)
    assert shown(configs) == [str(Path("configs/a.toml"))]
    assert configs.searched() == (here, here / "configs")


def test_a_directory_with_the_name_of_a_config_is_passed_over(configs: TomlConfigs, here: Path) -> None:
    write(here / "a.toml/b.toml")
    assert shown(configs) == [str(Path("a.toml/b.toml"))]


# -- memory


def test_the_choice_is_kept_where_the_public_sdk_keeps_it(configs: TomlConfigs, here: Path, tmp_path: Path) -> None:
    configs.remember(here / "a.toml")
    kept = tmp_path / "home/.synth-ai/train_cli.json"
    assert json.loads(kept.read_text()) == {"LAST_CONFIG": str(here / "a.toml")}
    assert [path.name for path in kept.parent.iterdir()] == ["train_cli.json"]


def test_other_things_that_are_kept_there_stay(configs: TomlConfigs, here: Path, tmp_path: Path) -> None:
    kept = write(tmp_path / "home/.synth-ai/train_cli.json", '{"OTHER": [1], "LAST_CONFIG": "x"}')
    configs.remember(here / "a.toml")
    assert json.loads(kept.read_text()) == {"OTHER": [1], "LAST_CONFIG": str(here / "a.toml")}


@pytest.mark.parametrize("text", ["", "[]", "no json", '{"LAST_CONFIG": 3}', '{"LAST_CONFIG": ""}', "{}"])
def test_what_cannot_be_read_counts_as_nothing(configs: TomlConfigs, here: Path, tmp_path: Path, text: str) -> None:
    write(tmp_path / "home/.synth-ai/train_cli.json", text)
    assert configs.last_chosen() is None
    configs.remember(here / "a.toml")
    assert configs.last_chosen() == here / "a.toml"


def test_a_home_that_cannot_be_written_is_no_error(configs: TomlConfigs, here: Path, tmp_path: Path) -> None:
    write(tmp_path / "home", "a file in its place")
    configs.remember(here / "a.toml")
    assert configs.last_chosen() is None


def test_without_a_home_no_choice_is_remembered(tmp_path: Path) -> None:
    configs = TomlConfigs(tmp_path, home=None)
    configs.remember(Path("sft.toml"))

    assert configs.last_chosen() is None
    assert list(tmp_path.iterdir()) == []
