"""What every EnvSourcePort promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.in_memory import env as in_memory
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.domain.model.errors import UsageError
from synth_train.ports.env_source import EnvSourcePort


class Place:
    """A working directory `cwd`, a `home` elsewhere, a process environment, and a way to put files there."""

    def __init__(
        self, env: EnvSourcePort, cwd: Path, home: Path, put: Callable[[Path, Mapping[str, str]], None]
    ) -> None:
        self.env, self.cwd, self.home = env, cwd, home
        self._put = put

    def put(self, path: str | Path, **values: str) -> Path:
        """Let there be a file at `path`, seen from the working directory."""
        path = self.cwd / path
        self._put(path, values)
        return path


PROCESS = {"SYNTH_API_KEY": "process", "EMPTY": "", "BLANK": " "}


@pytest.fixture(params=["in memory", "dotenv"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "in memory":
        env = InMemoryEnv(PROCESS)
        return Place(env, in_memory.CWD, in_memory.HOME, lambda path, values: void(env.put(path, values)))

    def write(path: Path, values: Mapping[str, str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    cwd, home = tmp_path / "work", tmp_path / "home" / ".synth-ai"
    cwd.mkdir()
    return Place(DotenvEnv(PROCESS, cwd=cwd, home=home), cwd, home, write)


def void(_: object) -> None:
    """Drop a result."""


def test_the_process_has_no_empty_variables(place: Place) -> None:
    assert place.env.process() == {"SYNTH_API_KEY": "process", "BLANK": " "}


def test_candidates_are_here_then_below_by_depth_then_beside_the_config_then_at_home(place: Place) -> None:
    at_home = place.put(place.home / ".env")
    beside = place.put(place.cwd.parent / "configs" / ".env")
    deep, b, a, here = (place.put(path) for path in ("a/a/.env", "b/.env", "a/.env", ".env"))
    place.put("a/other.env")

    assert place.env.candidates([beside.parent]) == (here, a, b, deep, beside, at_home)


def test_a_candidate_is_listed_once(place: Place) -> None:
    here, cfg = place.put(".env"), place.put("cfg/.env")

    assert place.env.candidates([Path("cfg"), place.cwd]) == (here, cfg)


def test_without_a_file_there_is_no_candidate(place: Place) -> None:
    assert place.env.candidates([Path("nowhere")]) == ()


def test_places_are_the_directories_looked_in(place: Place) -> None:
    assert place.env.places([Path("cfg"), place.cwd]) == (place.cwd, place.cwd / "cfg", place.home)


def test_the_default_file_is_in_the_working_directory_whether_it_exists_or_not(place: Place) -> None:
    default = place.env.default_file()

    assert default == place.cwd / ".env"
    assert not place.env.exists(default)
    place.put(".env")
    assert place.env.exists(default)
    assert place.env.exists(Path(".env"))


def test_a_file_is_read_by_its_path_from_the_working_directory(place: Place) -> None:
    path = place.put("cfg/keys.env", SYNTH_API_KEY="file", NOTE="")

    read = place.env.read(Path("cfg/keys.env"))

    assert (read.path, read.values, read.unreadable_lines) == (path, {"SYNTH_API_KEY": "file", "NOTE": ""}, ())


def test_a_missing_file_is_a_usage_error_that_names_it(place: Place) -> None:
    with pytest.raises(UsageError, match=r"missing\.env: there is no such env file"):
        place.env.read(Path("missing.env"))


def test_what_is_saved_is_read_back(place: Place) -> None:
    place.env.save(Path(".env"), "SYNTH_API_KEY", 'it\'s # $a "key"\\')

    assert place.env.read(place.env.default_file()).values == {"SYNTH_API_KEY": 'it\'s # $a "key"\\'}
    assert place.env.candidates() == (place.env.default_file(),)


def test_saving_replaces_one_value_and_keeps_the_others(place: Place) -> None:
    path = place.put(".env", FIRST="1", SYNTH_API_KEY="old", LAST="3")

    place.env.save(path, "SYNTH_API_KEY", "new")

    assert dict(place.env.read(path).values) == {"FIRST": "1", "SYNTH_API_KEY": "new", "LAST": "3"}


def test_saving_does_not_change_the_process(place: Place) -> None:
    place.env.save(Path(".env"), "SYNTH_API_KEY", "new")

    assert place.env.process()["SYNTH_API_KEY"] == "process"
