"""Where the doc page and the public SDK disagree, the doc page wins: one test for each row of wire-contract §8.

The real command runs against a scripted backend on loopback.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from nacl.public import PrivateKey

from cases.harness import DATA, ENV_KEY, KEYS, SYNTH_KEY, Workspace
from cases.scripted_server import Reply, Script, ScriptedServer, Seen, rl, sft
from cases.terminals import Answer, on_terminal

QUICK = ("--poll-interval", "0.2")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A directory with an SFT job, an RL job, and their keys in the environment."""
    made = Workspace(tmp_path, env=dict(KEYS))
    made.put("common/sft.toml", "common/rl.toml", "common/train.jsonl")
    return made


def bare(script: Script) -> Script:
    """A backend without `/api`, as in the doc page's transcript."""
    return {pattern.replace(" /api/", " /"): replies for pattern, replies in script.items()}


def set_in(workspace: Workspace, config: str, old: str, new: str) -> None:
    path = workspace.cwd / config
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def body_of(request: Seen) -> Any:
    return json.loads(request.body)


def test_row_01_several_configs_run_in_turn_and_a_broken_one_skips_the_rest(workspace: Workspace) -> None:
    shutil.copyfile(workspace.cwd / "sft.toml", workspace.cwd / "second.toml")
    with ScriptedServer(sft()) as server:
        good = workspace.run(
            "train", "--config", "sft.toml", "--config", "second.toml", "--backend", server.base, *QUICK
        )
    assert good.code == 0, good.err
    steps = [row.route for row in server.log if row.method == "POST" or "/learning/jobs/" in row.path]
    assert steps[: len(steps) // 2] == steps[len(steps) // 2 :], "the first one ends before the second begins"
    assert len(server.seen("POST /api/learning/jobs")) == 2

    workspace.write("broken.toml", '[algorithm]\ntype = "offline"\nmethod = "sft"\nvariety = "fft"\n[job]\nmodel = 7\n')
    with ScriptedServer(sft()) as server:
        broken = workspace.run(
            "train", "--config", "sft.toml", "--config", "broken.toml", "--config", "second.toml", "--backend",
            server.base, *QUICK,
        )  # fmt: skip
    assert broken.code == 3
    assert "broken.toml:6: job.model" in broken.err
    assert len(server.seen("POST /api/learning/jobs")) == 1, "those before it run, those after it do not"


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_row_02_a_dry_run_prints_the_payload_and_creates_nothing(workspace: Workspace, kind: str) -> None:
    with ScriptedServer({**sft(), **rl()}) as server:
        ran = workspace.run("train", "--config", f"{kind}.toml", "--backend", server.base, "--dry-run")

    assert ran.code == 0, ran.err
    assert server.log == []
    payload = json.loads(ran.out)
    if kind == "sft":
        assert payload["training_file_id"] is None
        assert payload["training_type"] == "sft_offline"
    else:
        assert payload["job_type"] == "rl"
        assert payload["data"]["base_model"] == "Qwen/Qwen3-0.6B"


def test_row_03_a_file_is_waited_for_until_the_poll_timeout_and_before_the_job(workspace: Workspace) -> None:
    processing: Reply = {"json": {"id": "file_1", "status": "processing"}}
    ready: Reply = {"json": {"id": "file_1", "status": "ready"}}
    with ScriptedServer(sft({"GET /api/files/*": [processing, ready]})) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, *QUICK)
    assert ran.code == 0, ran.err
    routes = [row.route for row in server.log]
    assert routes.index("POST /api/learning/jobs") > max(
        index for index, route in enumerate(routes) if route == "GET /api/files/file_1"
    )

    with ScriptedServer(sft({"GET /api/files/*": [processing]})) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, "--poll-timeout", "1")
    assert ran.code == 9
    assert server.seen("POST /api/learning/jobs*") == []


@pytest.mark.parametrize(("kind", "where"), [("sft", ["model"]), ("rl", ["data", "model"])])
def test_row_04_model_overrides_the_configs_model(workspace: Workspace, kind: str, where: list[str]) -> None:
    ran = workspace.run("train", "--config", f"{kind}.toml", "--model", "qwen/qwen3-4b", "--dry-run")

    assert ran.code == 0, ran.err
    sent = json.loads(ran.out)
    if kind == "rl":
        assert "base_model" not in sent["data"]
        assert sent["data"]["config"]["model"] == {"base": "Qwen/Qwen3-0.6B"}, "the embedded table is not rewritten"
    for step in where:
        sent = sent[step]
    assert sent == "Qwen/Qwen3-4B"


@pytest.mark.parametrize(("kind", "route"), [("sft", "POST /api/learning/jobs"), ("rl", "POST /api/rl/jobs")])
def test_row_05_idempotency_goes_with_the_creation_of_every_kind(workspace: Workspace, kind: str, route: str) -> None:
    with ScriptedServer({**sft(), **rl()}) as server:
        task = ["--task-url", server.origin] if kind == "rl" else []
        ran = workspace.run(
            "train", "--config", f"{kind}.toml", "--backend", server.base, "--idempotency", "K-1", "--no-poll", *task
        )

    assert ran.code == 0, ran.err
    assert [row.header("Idempotency-Key") for row in server.seen(route)] == ["K-1"]


def test_row_06_several_env_files_are_merged_and_the_later_one_wins(workspace: Workspace) -> None:
    workspace.env.clear()
    workspace.write("one.env", f"SYNTH_API_KEY=fake-first-key-0000\nENVIRONMENT_API_KEY={ENV_KEY}\n")
    workspace.write("two.env", f"SYNTH_API_KEY={SYNTH_KEY}\n")
    with ScriptedServer(rl()) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--env-file", "one.env", "--env-file", "two.env", "--backend", server.base,
            "--task-url", server.origin, "--no-poll",
        )  # fmt: skip

    assert ran.code == 0, ran.err
    assert {row.header("Authorization") for row in server.seen("* /api/*")} == {f"Bearer {SYNTH_KEY}"}
    assert server.seen("GET /health")[0].header("X-API-Key") == ENV_KEY


def test_row_07_without_an_env_file_there_is_a_list_with_that_of_the_home_in_it(workspace: Workspace) -> None:
    workspace.env.clear()
    workspace.write("near/.env", "SYNTH_API_KEY=fake-other-key-0000\n")
    at_home = workspace.home / ".synth-ai"
    at_home.mkdir()
    (at_home / ".env").write_text(f"SYNTH_API_KEY={SYNTH_KEY}\n")
    with ScriptedServer(sft()) as server:
        ran = on_terminal(
            workspace, "train", "--config", "sft.toml", "--backend", server.base, "--no-poll",
            answers=[Answer(after="2) ", type="2\n")],
        )  # fmt: skip

    assert ran.code == 0, ran.out
    assert re.search(r"1\) .*near/\.env", ran.out)
    assert re.search(r"2\) .*\.synth-ai/\.env", ran.out)
    assert {row.header("Authorization") for row in server.log} == {f"Bearer {SYNTH_KEY}"}


@pytest.mark.parametrize("given", ["option", "config"])
def test_row_08_the_task_url_is_the_options_else_the_configs_and_never_asked_for(
    workspace: Workspace, given: str
) -> None:
    with ScriptedServer(rl()) as server:
        if given == "config":
            set_in(workspace, "rl.toml", "http://127.0.0.1:9901", server.origin)
        option = ["--task-url", server.origin] if given == "option" else []
        ran = workspace.run("train", "--config", "rl.toml", "--backend", server.base, "--no-poll", *option)

    assert ran.code == 0, ran.err
    assert len(server.seen("GET /health")) == 1
    (create,) = server.seen("POST /api/rl/jobs")
    data = body_of(create)["data"]
    assert data["endpoint_base_url"] == data["config"]["services"]["task_url"] == server.origin


def test_row_09_a_missing_environment_key_is_minted_before_anything_else(workspace: Workspace) -> None:
    del workspace.env["ENVIRONMENT_API_KEY"]
    public = base64.b64encode(bytes(PrivateKey.generate().public_key)).decode()
    vault: Script = {
        "GET /api/v1/env-keys/verify": [{"json": {"present": False}}, {"json": {"present": True}}],
        "GET /api/v1/crypto/public-key": [{"json": {"public_key": public, "alg": "libsodium.sealedbox.v1"}}],
        "POST /api/v1/env-keys": [{"json": {"id": "k1", "name": "ENVIRONMENT_API_KEY"}}],
    }
    with ScriptedServer(rl(vault)) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "--no-poll"
        )

    assert ran.code == 0, ran.err
    minted = re.fullmatch(r"ENVIRONMENT_API_KEY=([0-9a-f]{64})\n", (workspace.cwd / ".env").read_text())
    assert minted
    assert server.seen("GET /health")[0].header("X-API-Key") == minted[1]
    routes = [row.route for row in server.log]
    assert routes.index("POST /api/v1/env-keys") < routes.index("POST /api/rl/verify_task_app")


def test_row_10_primary_and_alias_keys_of_an_env_file_are_used(workspace: Workspace) -> None:
    workspace.env.clear()
    workspace.write(
        ".env",
        f"SYNTH_API_KEY={SYNTH_KEY}\ndev_environment_api_key={ENV_KEY}\nENVIRONMENT_API_KEY_ALIASES=fake-a, fake-b,\n",
    )
    with ScriptedServer(rl()) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "--no-poll"
        )

    assert ran.code == 0, ran.err
    for probe in (*server.seen("GET /health"), *server.seen("GET /task_info")):
        assert probe.header("X-API-Key") == ENV_KEY
        assert probe.header("X-API-Keys") == f"{ENV_KEY},fake-a,fake-b"
        assert probe.header("Authorization") == f"Bearer {ENV_KEY}"


def test_row_11_of_the_candidates_only_the_count_is_printed(workspace: Workspace) -> None:
    candidates = ["abcdefghijklmno", "pqrstuvwxyzabcd", "0123456789abcde"]
    report = {
        "any_ok": True,
        "candidates_first15": candidates,
        "attempts": [{"status": 200}, {"status": 200}, {"status": 200}],
    }
    with ScriptedServer(rl({"POST /api/rl/verify_task_app": [{"json": report}]})) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", server.base, "--task-url", server.origin, "--no-poll"
        )

    assert ran.code == 0, ran.err
    assert "Verification OK (candidates=3, statuses=[200, 200, 200])" in ran.out.splitlines()
    for candidate in candidates:
        assert candidate not in ran.both


def test_row_12_base_and_post_url_are_printed_without_api_and_production_is_the_default(workspace: Workspace) -> None:
    with ScriptedServer(bare(rl())) as server:
        ran = workspace.run(
            "train", "--config", "rl.toml", "--backend", f"{server.origin}/", "--task-url", server.origin, "--no-poll"
        )
    assert ran.code == 0, ran.err
    assert f"Backend base: {server.origin} (key fak...fgh)" in ran.out.splitlines()
    assert f"POST {server.origin}/rl/jobs" in ran.out.splitlines()
    assert not [row for row in server.log if row.path.startswith("/api")]

    dry = workspace.run("train", "--config", "rl.toml", "--dry-run")
    assert json.loads(dry.out)["metadata"] == {"backend_base_url": "https://api.usesynth.ai"}


def test_row_12_a_backend_that_has_only_api_is_found(workspace: Workspace) -> None:
    with ScriptedServer({**sft(), "GET /api/health": [{"json": {"status": "ok"}}]}) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.origin, "--no-poll")

    assert ran.code == 0, ran.err
    assert f"POST {server.base}/learning/jobs" in ran.out.splitlines()


def test_row_13_a_key_is_shown_by_its_first_and_last_three_characters(workspace: Workspace) -> None:
    with ScriptedServer(sft()) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", server.base, "--no-poll",
            env={"SYNTH_API_KEY": "sk-0123456789abcdef092"},
        )  # fmt: skip

    assert f"Backend base: {server.base} (key sk-...092)" in ran.out.splitlines()


def test_row_14_polling_has_a_header_and_then_a_line_for_each_change(workspace: Workspace) -> None:
    polls = [{"json": {"job_id": "job_1", "status": word}} for word in ("queued", "queued", "running", "succeeded")]
    with ScriptedServer(sft({"GET /api/learning/jobs/job_1": polls})) as server:
        ran = workspace.run(
            "train", "--config", "sft.toml", "--backend", server.base, "--poll-interval", "0.5", "--poll-timeout", "60"
        )

    lines = ran.out.splitlines()
    header = lines.index("Polling job status (interval=0.5s, timeout=60s)...")
    assert lines[header + 1 :] == ["[00:00] queued", "[00:01] running", "[00:01] succeeded"]


def test_row_14_the_default_interval_and_timeout_are_5_and_3600_seconds(workspace: Workspace) -> None:
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base)

    assert "Polling job status (interval=5s, timeout=3600s)..." in ran.out.splitlines()


def test_row_15_polling_ends_at_the_timeout(workspace: Workspace) -> None:
    running: Reply = {"json": {"job_id": "job_1", "status": "running"}}
    with ScriptedServer(sft({"GET /api/learning/jobs/job_1": [running]})) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, *QUICK, "--poll-timeout", "1")

    assert ran.code == 9
    polls = server.seen("GET /api/learning/jobs/job_1")
    assert polls[-1].at - polls[0].at < 2, "the last moment is tested on a clock of our own: this machine may be busy"
    assert "job_1" in ran.err


@pytest.mark.parametrize("kind", ["sft", "rl"])
def test_row_16_an_experimental_model_is_gated_by_flag_and_variable(workspace: Workspace, kind: str) -> None:
    model, dry = "Qwen/Qwen3-4B-Thinking-2507", ("train", "--config", f"{kind}.toml", "--dry-run")
    set_in(workspace, f"{kind}.toml", "Qwen/Qwen3-0.6B", model)
    config = (workspace.cwd / f"{kind}.toml").read_bytes()

    refused = workspace.run(*dry)
    assert refused.code == 3
    for words in (model, "--allow-experimental", "SDK_EXPERIMENTAL"):
        assert words in refused.err

    by_flag = workspace.run(*dry, "--allow-experimental")
    by_variable = workspace.run(*dry, env={"SDK_EXPERIMENTAL": "1"})
    against_variable = workspace.run(*dry, "--no-allow-experimental", env={"SDK_EXPERIMENTAL": "1"})
    assert (by_flag.code, by_variable.code, against_variable.code) == (0, 0, 3)
    assert "experimental" in by_flag.err
    assert model in by_flag.out
    assert (workspace.cwd / f"{kind}.toml").read_bytes() == config


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('variety = "fft"', 'variety = "qlora"', "sft.toml:4: algorithm"),
        ("n_epochs = 1", "n_epochs = 0", "sft.toml:15: hyperparameters.n_epochs"),
        ("learning_rate = 1e-5", 'learning_rate = "fast"', "sft.toml:17: hyperparameters.learning_rate"),
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.7B", "sft.toml:7: job.model"),
    ],
)
def test_row_17_a_bad_config_is_one_error_before_any_request(
    workspace: Workspace, old: str, new: str, said: str
) -> None:
    set_in(workspace, "sft.toml", old, new)
    with ScriptedServer(sft()) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base)

    assert ran.code == 3
    assert said in ran.err
    assert server.log == []


def test_row_18_type_decides_for_a_config_that_tells_no_kind(workspace: Workspace) -> None:
    workspace.write("plain.toml", '[job]\nmodel = "Qwen/Qwen3-0.6B"\ndata = "train.jsonl"\n')

    assert workspace.run("train", "--config", "plain.toml", "--dry-run").code == 3
    forced = workspace.run("train", "--config", "plain.toml", "--type", "sft", "--dry-run")
    assert forced.code == 0, forced.err
    assert json.loads(forced.out)["training_type"] == "sft_offline"
    assert "algorithm" in forced.err, "the default triple is said"


def test_row_19_a_file_called_grpo_trains_with_gspo_and_the_variety_grpo_is_refused_by_name(
    workspace: Workspace,
) -> None:
    shutil.copyfile(DATA / "common/rl.toml", workspace.cwd / "grpo.toml")
    assert workspace.run("train", "--config", "grpo.toml", "--dry-run").code == 0

    set_in(workspace, "grpo.toml", '"gspo"', '"grpo"')
    ran = workspace.run("train", "--config", "grpo.toml", "--dry-run")
    assert ran.code == 3
    assert "grpo.toml:4: algorithm" in ran.err
    assert "gspo" in ran.err


def test_row_20_payload_and_response_are_one_compact_line_each(workspace: Workspace) -> None:
    created: Reply = {"status": 201, "json": {"job_id": "job_1", "pad": "x" * 1000}}
    with ScriptedServer(sft({"POST /api/learning/jobs": [created]})) as server:
        ran = workspace.run("train", "--config", "sft.toml", "--backend", server.base, "--no-poll")

    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    (preview,) = [line for line in lines if line.startswith("Payload preview:{")]
    (create,) = server.seen("POST /api/learning/jobs")
    assert preview.removeprefix("Payload preview:").encode() == create.body
    (response,) = [line for line in lines if line.startswith("Response 201: {")]
    assert json.loads(response.removeprefix("Response 201: "))["pad"] == "x" * 1000
