"""B20: settings of the machine change the request."""

from __future__ import annotations

import shutil
import socket

import pytest

from cases.harness import DATA, SYNTH_KEY, Workspace
from cases.scripted_server import Script, ScriptedServer, rl, sft
from support.served import served

DEAD_PROXY = dict.fromkeys(
    ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:1"
)


def ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_netrc_never_replaces_the_key_on_any_route_nor_after_a_retry(workspace: Workspace) -> None:
    workspace.sft()
    netrc = workspace.home / ".netrc"
    shutil.copyfile(DATA / "B20/netrc.txt", netrc)
    netrc.chmod(0o600)
    shaky: Script = {
        route: [{"status": 503}, *replies] for route, replies in sft().items() if not route.endswith("/start")
    }
    with ScriptedServer(shaky) as server:
        ran = workspace.run(
            "train",
            "--config",
            "sft.toml",
            "--backend",
            server.base,
            "--poll-interval",
            "0.2",
            env={"NETRC": str(netrc)},
        )

    assert ran.code == 0, ran.err
    assert len(server.seen("POST /api/files")) == 2
    assert len(server.seen("POST /api/learning/jobs")) == 2
    assert {row.header("Authorization") for row in server.log} == {f"Bearer {SYNTH_KEY}"}


def test_netrc_does_not_reach_the_task_app(workspace: Workspace) -> None:
    workspace.rl()
    shutil.copyfile(DATA / "B20/netrc.txt", workspace.home / ".netrc")
    (workspace.home / ".netrc").chmod(0o600)
    with ScriptedServer(rl()) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "--no-poll"
        )

    assert ran.code == 0, ran.err
    assert not [row for row in server.log if (row.header("Authorization") or "").startswith("Basic")]


LOOPBACK = pytest.mark.parametrize(
    ("bound", "named"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        pytest.param("::1", "[::1]", marks=pytest.mark.skipif(not ipv6(), reason="no IPv6 loopback here")),
    ],
)


@LOOPBACK
def test_loopback_is_reached_directly_whatever_the_proxy(workspace: Workspace, bound: str, named: str) -> None:
    workspace.sft()
    workspace.put("common/rl.toml")
    with ScriptedServer({**sft(), **rl()}, host=bound) as server:
        origin = f"http://{named}:{server.port}"
        ran = workspace.run(
            "train", "--config", "sft.toml", "--config", "rl.toml", "--backend", f"{origin}/api", "--task-url", origin,
            "--poll-interval", "0.2", env=DEAD_PROXY,
        )  # fmt: skip

    assert ran.code == 0, ran.err
    assert server.seen("GET /task_info")


@LOOPBACK
def test_the_server_of_this_machine_is_reached_directly_whatever_the_proxy(
    workspace: Workspace, bound: str, named: str
) -> None:
    workspace.sft()
    folder = workspace.root / "served"
    folder.mkdir()
    with served(folder, "--host", bound, env={**DEAD_PROXY, "SYNTH_SERVE_TOKEN": SYNTH_KEY}) as server:
        port = server.ready().rsplit(":", 1)[1]
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", f"http://{named}:{port}", "--poll-interval", "0.2",
            env=DEAD_PROXY,
        )  # fmt: skip

    assert ran.code == 0, ran.err


def through(proxy: str) -> dict[str, str]:
    return {"HTTP_PROXY": proxy, "http_proxy": proxy}


def test_another_host_is_reached_through_the_proxy(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft()) as proxy:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", "http://backend.invalid/api", "--insecure-http", "--no-poll",
            env=through(proxy.origin),
        )  # fmt: skip

    assert ran.code == 0, ran.err
    (create,) = proxy.seen("POST /api/learning/jobs")
    assert create.target == "http://backend.invalid/api/learning/jobs"
    assert {row.header("Authorization") for row in proxy.log} == {f"Bearer {SYNTH_KEY}"}


def test_no_proxy_is_obeyed(workspace: Workspace) -> None:
    workspace.sft()
    with ScriptedServer(sft()) as proxy:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", "http://backend.invalid/api", "--insecure-http", "--no-poll",
            env={**through(proxy.origin), "NO_PROXY": "backend.invalid", "no_proxy": "backend.invalid"},
        )  # fmt: skip

    assert ran.code == 7
    assert proxy.log == []


def test_a_proxy_that_fails_is_named_without_its_sign_in(workspace: Workspace) -> None:
    workspace.sft()
    ran = workspace.run(
        "train", "--config", "sft.toml", "--backend", "http://backend.invalid/api", "--insecure-http", "--no-poll",
        env=through("http://fake-proxy-user:fake-proxy-word@127.0.0.1:1"),
    )  # fmt: skip

    assert ran.code == 7
    assert "proxy" in ran.err
    assert "127.0.0.1:1" in ran.err
    assert "fake-proxy" not in ran.both
