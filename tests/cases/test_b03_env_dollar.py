"""B03: a $ inside a key. Values are literal here: nothing is ever expanded."""

from __future__ import annotations

from cases.harness import DATA, Workspace
from cases.scripted_server import ScriptedServer, rl
from synth_train.adapters.dotenv_env import DotenvEnv


def test_values_with_dollars_are_kept_as_they_stand() -> None:
    assert DotenvEnv().read(DATA / "B03/dot-env.txt").values == {
        "REGION": "eu",
        "SYNTH_API_KEY": "fake$key$0001",
        "ENVIRONMENT_API_KEY": "fake-${NOT_SET_ANYWHERE}-0002",
        "TASK_APP_URL": "http://127.0.0.1:9901/${REGION}",
    }


def test_keys_with_dollars_are_sent_as_they_stand(workspace: Workspace) -> None:
    workspace.put("common/rl.toml")
    workspace.put_env("B03/dot-env.txt")
    with ScriptedServer(rl()) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--env-file", ".env", "--backend", server.base, "--task-url", server.origin
        )

    assert ran.code == 0, ran.err
    (health,) = server.seen("GET /health")
    assert health.header("X-API-Key") == "fake-${NOT_SET_ANYWHERE}-0002"
    to_backend = server.seen("* /api/*")
    assert {row.header("Authorization") for row in to_backend} == {"Bearer fake$key$0001"}
    everything = ran.both + "".join(f"{row.headers}{row.body!r}" for row in server.log)
    assert "fake--0002" not in everything
