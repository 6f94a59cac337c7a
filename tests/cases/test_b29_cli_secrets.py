"""B29: the key shows up in output or logs. Part (h) belongs to the embedded backend."""

from __future__ import annotations

import base64
import re
import socket
from pathlib import Path

import pytest
from nacl.public import PrivateKey

import synth_train
from cases.harness import ENV_KEY, SYNTH_KEY, Ran, Workspace
from cases.scripted_server import Script, ScriptedServer, rl, sft
from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.http.backend import HttpBackend
from synth_train.domain.model.jobs import JobId
from synth_train.domain.model.task_app import TaskAppKeys

URL_PASSWORD = "fake-url-password"
WINDOW = 8


def windows(secret: str) -> set[str]:
    return {secret[start : start + WINDOW] for start in range(len(secret) - WINDOW + 1)}


def assert_nothing_leaked(workspace: Workspace, ran: Ran, *secrets: str, kept_in: Path | None = None) -> None:
    """No 8 characters in a row of a secret: not in the output, nor in any file that was left but the .env itself."""
    sources = {"stdout": ran.stdout, "stderr": ran.stderr}
    for file in workspace.root.rglob("*"):
        if file.is_file() and file.name != ".env" and file != kept_in:
            sources[str(file)] = file.read_bytes() + str(file).encode()
    for secret in (SYNTH_KEY, ENV_KEY, URL_PASSWORD, *secrets):
        for window in windows(secret):
            for name, content in sources.items():
                assert window.encode() not in content, f"{window!r} is in {name}"


VERBOSITY = [[], ["-v"], ["-v", "-v"], ["--dry-run"], ["--output", "json"], ["--dry-run", "-v"]]


@pytest.mark.parametrize("extra", VERBOSITY, ids=lambda extra: " ".join(extra) or "plain")
@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_a_good_run_shows_no_key_however_much_it_talks(workspace: Workspace, kind: str, extra: list[str]) -> None:
    workspace.sft()
    workspace.put("common/rl.toml")
    with ScriptedServer({**sft(), **rl()}) as server:
        task = ["--task-url", server.origin] if kind == "rl" else []
        ran = workspace.run(
            "train", "--config", f"{kind}.toml", "--backend", server.base, "--poll-interval", "0.2", *task, *extra
        )

    assert ran.code == 0, ran.err
    assert_nothing_leaked(workspace, ran)
    if extra != ["--dry-run"] and "--dry-run" not in extra and extra != ["--output", "json"]:
        assert "(key fak...fgh)" in ran.out


def test_of_a_short_key_nothing_is_shown(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train",
            "--config",
            "sft.toml",
            "--backend",
            server.base,
            "--no-poll",
            "-v",
            env={"SYNTH_API_KEY": "fk-q7w8e9r0"},
        )

    assert ran.code == 0, ran.err
    for part in ("fk-", "fk-q", "9r0", "e9r0"):
        assert part not in ran.both


@pytest.mark.parametrize("extra", [[], ["-v"]], ids=["plain", "-v"])
def test_a_backend_that_is_not_there_shows_no_key(workspace: Workspace, extra: list[str]) -> None:
    workspace.sft()
    with socket.socket() as unheard:  # bound, but nobody listens
        unheard.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unheard.getsockname()[1]}/api"
        ran = workspace.run("train", "--config", "sft.toml", "--backend", base, *extra)

    assert ran.code == 7
    assert_nothing_leaked(workspace, ran)


@pytest.mark.parametrize("extra", [[], ["-v"]], ids=["plain", "-v"])
def test_a_server_that_repeats_the_keys_is_shown_with_masks(workspace: Workspace, extra: list[str]) -> None:
    workspace.sft()
    echo = {
        "detail": "bad credentials",
        "received": {"authorization": "{{AUTH}}", "x_api_key": "{{XKEY}}", "env": ENV_KEY},
    }
    with ScriptedServer(sft({"POST /api/files": [{"status": 401, "json": echo}]})) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, *extra)

    assert ran.code == 4
    assert "bad credentials" in ran.err
    assert "fak...fgh" in ran.err
    assert_nothing_leaked(workspace, ran)


def test_a_task_app_that_repeats_the_keys_is_shown_with_masks(workspace: Workspace) -> None:
    workspace.rl()
    echo: Script = {
        "GET /health": [{"status": 403, "json": {"detail": "bad key {{XKEY}}", "authorization": "{{AUTH}}"}}]
    }
    with ScriptedServer(rl(echo)) as server:
        ran = workspace.run("train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "-v")

    assert ran.code == 5
    assert "bad key" in ran.err
    assert_nothing_leaked(workspace, ran)


@pytest.mark.parametrize("extra", [[], ["-v"], ["--dry-run"]], ids=lambda extra: " ".join(extra) or "plain")
def test_a_sign_in_inside_the_backend_url_is_not_shown(workspace: Workspace, extra: list[str]) -> None:
    workspace.sft()
    with ScriptedServer(sft()) as server:
        base = f"http://user:{URL_PASSWORD}@127.0.0.1:{server.port}/api"
        ran = workspace.run("train", "--config", "sft.toml", "--backend", base, "--no-poll", *extra)

    assert ran.code != 1
    assert_nothing_leaked(workspace, ran)
    for row in server.log:
        assert row.header("Authorization") == f"Bearer {SYNTH_KEY}"


def test_a_directory_in_place_of_the_data_is_an_ordinary_error(workspace: Workspace) -> None:
    workspace.sft()
    (workspace.cwd / "train.jsonl").unlink()
    (workspace.cwd / "train.jsonl").mkdir()
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, "-v")

    assert ran.code == 3
    assert "directory" in ran.err
    assert_nothing_leaked(workspace, ran)
    assert server.log == []


@pytest.mark.parametrize("extra", [[], ["-v"]], ids=["plain", "-v"])
def test_a_minted_key_is_in_the_env_file_and_nowhere_else(workspace: Workspace, extra: list[str]) -> None:
    workspace.put("common/rl.toml")
    public = base64.b64encode(bytes(PrivateKey.generate().public_key)).decode()
    vault: Script = {
        "GET /api/v1/env-keys/verify": [{"json": {"present": False}}, {"json": {"present": True}}],
        "GET /api/v1/crypto/public-key": [{"json": {"public_key": public, "alg": "libsodium.sealedbox.v1"}}],
        "POST /api/v1/env-keys": [{"status": 201, "json": {"id": "k1", "name": "ENVIRONMENT_API_KEY"}}],
    }
    with ScriptedServer(rl(vault)) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "--no-poll", *extra,
            env={"SYNTH_API_KEY": SYNTH_KEY},
        )  # fmt: skip

    assert ran.code == 0, ran.err
    minted = re.search(r"^ENVIRONMENT_API_KEY=(\w{64})$", (workspace.cwd / ".env").read_text(), re.MULTILINE)
    assert minted
    assert_nothing_leaked(workspace, ran, minted[1])
    stored = server.seen("POST /api/v1/env-keys")[0]
    assert minted[1].encode() not in stored.body


def objects_that_hold_keys(workspace: Workspace) -> list[object]:
    """Of the library's: settings, clients, and the errors that come out of them."""
    workspace.sft()
    key = synth_train.Secret(SYNTH_KEY)
    echo: Script = {"GET /api/*": [{"status": 401, "json": {"detail": "bad credentials: {{AUTH}}"}}]}
    with ScriptedServer(echo) as server:
        backend = HttpBackend(f"http://user:{URL_PASSWORD}@127.0.0.1:{server.port}/api", api_key=key)
        errors = []
        for kind in synth_train.Kind:
            with pytest.raises(synth_train.KeyRefused) as refused:
                backend.job(kind, JobId("job_1"))
            errors.append(refused.value)
    return [
        key,
        [key],
        {"key": key},
        TaskAppKeys(key, (synth_train.Secret(ENV_KEY),)),
        DotenvEnv().read(workspace.cwd / ".env"),
        backend,
        *errors,
        *(error.hint for error in errors),
        *(error.__cause__ for error in errors),
    ]


def test_no_object_of_the_library_shows_a_key(workspace: Workspace) -> None:
    for held in objects_that_hold_keys(workspace):
        for text in (repr(held), str(held), f"{held}"):
            for secret in (SYNTH_KEY, URL_PASSWORD):
                assert not [window for window in windows(secret) if window in text], text
