"""Which of several variables counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import TASK_URL, EnvFile, Found, Variables


def file(name: str, **values: str) -> EnvFile:
    return EnvFile(path=Path("/repo") / name, values=values)


def test_the_process_beats_a_file() -> None:
    variables = Variables(process={"SYNTH_API_KEY": "p"}, files=(file(".env", SYNTH_API_KEY="f"),))

    assert variables.lookup("SYNTH_API_KEY") == Found("p", "SYNTH_API_KEY", "the process environment")


def test_a_later_file_beats_an_earlier_one() -> None:
    variables = Variables(files=(file("a.env", A="1", B="1"), file("b.env", A="2")))

    assert variables.lookup("A") == Found("2", "A", "/repo/b.env")
    assert variables.lookup("B") == Found("1", "B", "/repo/a.env")


@pytest.mark.parametrize("nothing", ["", "  ", "\t\n"])
def test_an_empty_or_blank_value_counts_as_unset(nothing: str) -> None:
    variables = Variables(process={"A": nothing}, files=(file("a.env", A="1"), file("b.env", A=nothing)))

    assert variables.lookup("A") == Found("1", "A", "/repo/a.env")
    assert Variables(process={"A": nothing}).lookup("A") is None


def test_an_earlier_name_in_a_file_beats_a_later_name_in_the_process() -> None:
    variables = Variables(process={"TASK_APP_BASE_URL": "http://p"}, files=(file(".env", TASK_APP_URL="http://f"),))

    found = variables.lookup(*TASK_URL)

    assert found is not None
    assert (found.value, found.where) == ("http://f", "TASK_APP_URL in /repo/.env")


@pytest.mark.parametrize("alias", ["dev_environment_api_key", "DEV_ENVIRONMENT_API_KEY"])
def test_the_environment_key_has_aliases_in_files_only(alias: str) -> None:
    assert Variables(process={alias: "p"}).environment_key() is None
    assert Variables(files=(file(".env", **{alias: "f"}),)).environment_key() == Found("f", alias, "/repo/.env")


def test_the_proper_name_of_the_environment_key_beats_its_aliases() -> None:
    variables = Variables(files=(file("a.env", ENVIRONMENT_API_KEY="a"), file("b.env", DEV_ENVIRONMENT_API_KEY="b")))

    assert variables.environment_key() == Found("a", "ENVIRONMENT_API_KEY", "/repo/a.env")


def test_only_named_files_are_the_users_choice() -> None:
    found = file(".env", BACKEND_BASE_URL="https://elsewhere.test")

    assert Variables(files=(found,)).chosen().lookup("BACKEND_BASE_URL") is None
    assert Variables(files=(found,), named=True).chosen().lookup("BACKEND_BASE_URL") is not None
    assert Variables(process={"A": "1"}, files=(found,)).chosen().lookup("A") is not None


def test_a_comma_list_has_no_blanks_and_no_empty_items() -> None:
    variables = Variables(process={"SDK_EXPERIMENTAL_MODELS": " a/b , ,c "})

    assert variables.experimental_models == ("a/b", "c")
    assert Variables().experimental_models == ()


@pytest.mark.parametrize(("value", "allowed"), [("1", True), (" True ", True), ("0", False), ("no", False)])
def test_experimental_models_are_allowed_by_a_yes(value: str, allowed: bool) -> None:
    assert Variables(process={"SDK_EXPERIMENTAL": value}).experimental is allowed
    assert Variables().experimental is False


def test_every_key_in_sight_is_a_secret_also_one_that_lost() -> None:
    variables = Variables(
        process={"SYNTH_API_KEY": "p", "ENVIRONMENT_API_KEY_ALIASES": "x, y,p"},
        files=(file(".env", SYNTH_API_KEY=" f ", dev_environment_api_key="d", TASK_APP_URL="http://t"),),
    )

    assert variables.secrets() == tuple(map(Secret, ("p", "f", "d", "x", "y")))


def test_no_value_is_in_a_repr() -> None:
    env_file = file(".env", SYNTH_API_KEY="fake-synth-key-0001")
    variables = Variables(process={"ENVIRONMENT_API_KEY": "fake-env-key-0002"}, files=(env_file,))

    shown = repr([env_file, variables, variables.lookup("SYNTH_API_KEY"), variables.environment_key()])

    assert "fake-" not in shown
    assert "SYNTH_API_KEY in /repo/.env" in shown
