"""B04: an installed command looks for .env where it is run, not where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from cases.harness import SOURCES, SYNTH_KEY, Workspace
from cases.scripted_server import ScriptedServer, sft

CONSOLE_SCRIPT = """\
#!{python}
import sys
from synth_train.__main__ import main
sys.exit(main())
"""

LIBRARY_SCRIPT = """\
import sys
import synth_train
result = synth_train.submit("cfg/sft.toml", backend=sys.argv[1], wait=False)
assert result.job_id == "job_1", result
"""


@pytest.fixture
def installed(workspace: Workspace) -> Path:
    """The `bin` of an environment with the package installed, and a decoy .env beside every part of it."""
    home = workspace.root / "installed"
    venv.create(home, with_pip=False)
    paths = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)})
    packages, scripts = Path(paths["purelib"]), Path(paths["scripts"])
    package = packages / "synth_train"
    shutil.copytree(SOURCES / "synth_train", package, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    for folder in (package, packages, scripts, home, package / "adapters", package / "entrypoints" / "cli"):
        (folder / ".env").write_text("SYNTH_API_KEY=fake-decoy\n")
    script = scripts / "synth-ai"
    script.write_text(CONSOLE_SCRIPT.format(python=scripts / "python"))
    script.chmod(0o755)
    return scripts


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    folder = workspace.cwd / "cfg"
    folder.mkdir()
    workspace.put("common/sft.toml", "common/train.jsonl", into=folder)
    workspace.put_env("common/dot-env.txt")
    return workspace


def test_script_module_and_library_find_the_env_file_of_the_working_directory(
    project: Workspace, installed: Path
) -> None:
    train = ("train", "--config", "cfg/sft.toml", "--no-poll", "--backend")
    elsewhere = project.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "use.py").write_text(LIBRARY_SCRIPT)
    (elsewhere / ".env").write_text("SYNTH_API_KEY=fake-decoy\n")
    python = str(installed / "python")
    for command in (
        (str(installed / "synth-ai"), *train),
        (python, "-m", "synth_train", *train),
        (python, str(elsewhere / "use.py")),
    ):
        with ScriptedServer(sft()) as server:
            ran = project.run(server.base, command=command, without=("PYTHONPATH",))
        assert ran.code == 0, ran.err
        assert {row.header("Authorization") for row in server.log} == {f"Bearer {SYNTH_KEY}"}


def test_the_installed_package_is_the_one_that_runs(project: Workspace, installed: Path) -> None:
    where = subprocess.run(
        [installed / "python", "-c", "import synth_train; print(synth_train.__file__)"],
        cwd=project.cwd,
        env={},
        capture_output=True,
        text=True,
        check=True,
    )

    assert str(installed.parent) in where.stdout


def test_the_process_environment_wins_over_the_file(project: Workspace) -> None:
    with ScriptedServer(sft()) as server:
        ran = project.run(
            "train",
            "--config",
            "cfg/sft.toml",
            "--backend",
            server.base,
            "--no-poll",
            env={"SYNTH_API_KEY": "fake-process"},
        )

    assert ran.code == 0, ran.err
    assert {row.header("Authorization") for row in server.log} == {"Bearer fake-process"}


def test_an_empty_variable_does_not_hide_the_file(project: Workspace) -> None:
    with ScriptedServer(sft()) as server:
        ran = project.run(
            "train", "--config", "cfg/sft.toml", "--backend", server.base, "--no-poll", env={"SYNTH_API_KEY": ""}
        )

    assert ran.code == 0, ran.err
    assert {row.header("Authorization") for row in server.log} == {f"Bearer {SYNTH_KEY}"}


def test_the_directories_looked_in_are_listed_when_nothing_is_found(project: Workspace) -> None:
    (project.cwd / ".env").unlink()
    with ScriptedServer(sft()) as server:
        ran = project.run("train", "--config", "cfg/sft.toml", "--backend", server.base, "--no-poll")

    assert ran.code == 4
    for folder in (project.cwd, project.cwd / "cfg", project.home / ".synth-ai"):
        assert str(folder) in ran.err
    assert server.log == []
