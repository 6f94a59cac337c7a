"""B06: a .env that the tool writes is for its owner only, whole, and stays a link if it was one."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from nacl.public import PrivateKey, SealedBox

from cases.harness import DATA, Workspace
from cases.scripted_server import Script, ScriptedServer, rl
from synth_train.adapters.dotenv_env import DotenvEnv

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX")

OLD = "SYNTH_API_KEY=fake-synth-key-0001-abcdefgh\nNOTE=keep me\n"


def vault(public_key: bytes) -> Script:
    """A backend that has a vault and no key in it."""
    return rl(
        {
            "GET /api/v1/env-keys/verify": [{"json": {"present": False}}, {"json": {"present": True}}],
            "GET /api/v1/crypto/public-key": [
                {"json": {"public_key": base64.b64encode(public_key).decode(), "alg": "libsodium.sealedbox.v1"}}
            ],
            "POST /api/v1/env-keys": [{"status": 201, "json": {"id": "k1", "name": "ENVIRONMENT_API_KEY"}}],
        }
    )


def mint(
    workspace: Workspace, command: tuple[str, ...] = (sys.executable, "-m", "synth_train")
) -> tuple[int, str, str]:
    """Run an RL job that has to mint; gives exit status, stderr, and the key that reached the vault."""
    if not (workspace.cwd / "rl.toml").exists():
        workspace.put("common/rl.toml")
    private = PrivateKey.generate()
    with ScriptedServer(vault(bytes(private.public_key))) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "--no-poll",
            env={"SYNTH_API_KEY": "fake-synth-key-0001-abcdefgh"}, command=command,
        )  # fmt: skip
    stored = server.seen("POST /api/v1/env-keys")
    sealed = base64.b64decode(json.loads(stored[-1].body)["ciphertext_b64"], validate=True) if stored else b""
    return ran.code, ran.err, SealedBox(private).decrypt(sealed).decode() if sealed else ""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_minted_key_is_saved_in_a_file_for_its_owner_only(workspace: Workspace) -> None:
    code, err, key = mint(workspace)

    assert code == 0, err
    assert len(key) == 64
    env_file = workspace.cwd / ".env"
    assert DotenvEnv().read(env_file).values == {"ENVIRONMENT_API_KEY": key}
    assert mode(env_file) == 0o600


def test_a_new_file_has_its_mode_from_the_moment_it_exists(workspace: Workspace) -> None:
    # With no umask and no chmod, only a file that was opened with mode 0600 has it.
    script = (
        "import os, pathlib; os.umask(0); os.chmod = os.fchmod = lambda *a, **k: None\n"
        "from synth_train.adapters.dotenv_env import DotenvEnv\n"
        "DotenvEnv().save(pathlib.Path('.env'), 'ENVIRONMENT_API_KEY', 'fake-minted-key-0003')"
    )
    ran = workspace.run("-c", script, command=(sys.executable,))

    assert ran.code == 0, ran.err
    assert mode(workspace.cwd / ".env") == 0o600


@pytest.mark.parametrize("before", [0o640, 0o600])
def test_an_older_file_ends_up_for_its_owner_only(workspace: Workspace, before: int) -> None:
    env_file = workspace.put_env("B06/store-real-env.txt")
    env_file.chmod(before)

    code, err, key = mint(workspace)

    assert code == 0, err
    assert mode(env_file) == 0o600
    assert env_file.read_text() == f"{OLD}ENVIRONMENT_API_KEY={key}\n"


def test_a_link_stays_a_link_and_its_target_is_written(workspace: Workspace) -> None:
    store = workspace.cwd / "store"
    store.mkdir()
    real = store / "real.env"
    shutil.copyfile(DATA / "B06/store-real-env.txt", real)
    real.chmod(0o600)
    env_file = workspace.cwd / ".env"
    env_file.symlink_to("store/real.env")

    code, err, key = mint(workspace)

    assert code == 0, err
    assert env_file.readlink() == Path("store/real.env")
    assert real.read_text() == f"{OLD}ENVIRONMENT_API_KEY={key}\n"
    assert mode(real) == 0o600
    assert sorted(path.name for path in store.iterdir()) == ["real.env"]


BOUND_BY_MODES = """\
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2, 3):  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
        assert ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-m", "synth_train", *sys.argv[1:]])
"""
"""Runs the command as somebody whom file modes bind; for root, the capabilities that set them aside are dropped."""


@pytest.mark.skipif(os.geteuid() == 0 and sys.platform != "linux", reason="modes do not bind root")
def test_a_directory_that_cannot_be_written_is_said_and_nothing_is_left(workspace: Workspace) -> None:
    workspace.put("common/rl.toml")
    workspace.cwd.chmod(0o555)
    try:
        code, err, key = mint(workspace, command=(sys.executable, "-c", BOUND_BY_MODES))
    finally:
        workspace.cwd.chmod(0o755)

    assert code not in (0, 1)
    assert str(workspace.cwd / ".env") in err or "./.env" in err
    assert key == "", "a key that could not be saved was uploaded"
    assert sorted(path.name for path in workspace.cwd.iterdir()) == ["rl.toml"]


def test_fifty_kills_during_a_save_leave_the_old_file_or_the_new_one(workspace: Workspace) -> None:
    env_file = workspace.put_env("B06/store-real-env.txt")
    env_file.chmod(0o600)
    program = Path(__file__).with_name("kill_during_save.py")

    ran = workspace.run(str(env_file), command=(sys.executable, str(program)))

    assert ran.code == 0, ran.err
    left = json.loads(ran.out)
    assert len(left) == 50
    whole = {OLD, *(f"{OLD}ENVIRONMENT_API_KEY=fake-{letter * 60}\n" for letter in "ab")}
    assert {state["content"] for state in left} <= whole
    assert {state["content"] for state in left} - {OLD}, "no kill came after a save"
    assert {mode for state in left for mode in state["modes_of_others"]} <= {0o600}
    assert env_file.stat().st_mode & 0o777 == 0o600
