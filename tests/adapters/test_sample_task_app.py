"""The sample task app keeps the contract of wire-contract §7, and passes the command's own preflight."""

from __future__ import annotations

import http.client
import importlib.util
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cases.harness import ENV_KEY, SYNTH_KEY, Workspace
from cases.scripted_server import Reply, ScriptedServer, rl

EXAMPLES = Path(__file__).parents[2] / "examples"
KEY, ALIAS = "fake-env-key-0002-ijklmnop", "fake-alias-key-0003"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sample_task_app", EXAMPLES / "rl" / "task_app.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SAMPLE = load()


@dataclass(frozen=True)
class Client:
    port: int

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, json.dumps(body) if body is not None else None, named)
            reply = connection.getresponse()
            content = reply.read()
            return reply.status, json.loads(content) if content else None
        finally:
            connection.close()

    def rollout(self, request: dict[str, Any]) -> tuple[int, Any]:
        return self.ask("POST", "/rollout", request, X_API_Key=KEY)


def serving(*keys: str) -> Iterator[Client]:
    app = SAMPLE.serve("127.0.0.1", 0, keys)
    thread = threading.Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Client(app.server_port)
    app.shutdown()
    thread.join()
    app.server_close()


@pytest.fixture
def app() -> Iterator[Client]:
    yield from serving(KEY, ALIAS)


@pytest.fixture
def app_without_keys() -> Iterator[Client]:
    yield from serving()


def call(answer: object, *, name: str = "submit", arguments: object = None) -> Reply:
    """A chat completion that calls a tool with an answer, or with whatever `arguments` says."""
    function = {"name": name, "arguments": arguments or json.dumps({"answer": answer})}
    calls = [{"id": "c1", "type": "function", "function": function}]
    return {"json": {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]}}


def request(policy: ScriptedServer, *, seed: int = 3, run_id: str = "run_1", **more: Any) -> dict[str, Any]:
    config = {"model": "m", "inference_url": f"{policy.origin}/v1?cid=c-1", "trace_correlation_id": "c-1"}
    return {
        "run_id": run_id,
        "mode": "rl",
        "env": {"env_name": "sums", "seed": seed},
        "policy": {"policy_name": "p", "config": {**config, **more.pop("config", {})}},
        "ops": ["agent", "env"],
        **more,
    }


def right(seed: int) -> str:
    return str(sum(SAMPLE.numbers(seed)))


# ---- who may ask ----


@pytest.mark.parametrize(
    "headers",
    [
        {"X_API_Key": KEY},
        {"X_API_Key": ALIAS},
        {"X_API_Keys": f"other, {ALIAS}"},
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer nope,{KEY}"},
        {"X_API_Key": "wrong", "Authorization": f"Bearer {ALIAS}"},
    ],
)
def test_any_key_that_fits_opens_it(app: Client, headers: dict[str, str]) -> None:
    assert app.ask("GET", "/health", **headers) == (200, {"healthy": True, "auth": {"required": True}})


@pytest.mark.parametrize(
    "headers",
    [{}, {"X_API_Key": "wrong"}, {"Authorization": f"Basic {KEY}"}, {"X_API_Key": KEY[:-1]}, {"X_API_Key": ""}],
)
@pytest.mark.parametrize("route", ["GET /health", "GET /info", "GET /task_info", "POST /rollout", "POST /done"])
def test_without_one_it_says_401_and_no_part_of_a_key(app: Client, route: str, headers: dict[str, str]) -> None:
    method, path = route.split()
    status, body = app.ask(method, path, **headers)

    assert status == 401
    assert body["detail"]["error"]["code"] == "unauthorised"
    assert "fake" not in json.dumps(body)


def test_without_a_key_of_its_own_it_is_not_ready(app_without_keys: Client) -> None:
    status, body = app_without_keys.ask("GET", "/health", X_API_Key=KEY)

    assert status == 503
    assert body["detail"]["error"]["code"] == "missing_environment_api_key"


def test_the_root_is_open(app: Client) -> None:
    assert app.ask("GET", "/") == (200, {"status": "ok", "service": "sums"})
    assert app.ask("HEAD", "/") == (200, None)


@pytest.mark.parametrize(
    ("environment", "keys"),
    [
        ([("ENVIRONMENT_API_KEY", "a"), ("ENVIRONMENT_API_KEY_ALIASES", "b, c,,")], ("a", "b", "c")),
        ([("dev_environment_api_key", "d")], ("d",)),
        ([("DEV_ENVIRONMENT_API_KEY", "d"), ("ENVIRONMENT_API_KEY", "")], ("d",)),
        ([], ()),
    ],
)
def test_its_keys_come_from_the_environment(environment: list[tuple[str, str]], keys: tuple[str, ...]) -> None:
    assert SAMPLE.accepted_keys(environment) == keys


def test_an_env_file_is_read_plainly(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("\ufeff# note\nexport ENVIRONMENT_API_KEY='k 1'\nOTHER = 2\nnothing\n", encoding="utf-8")

    assert SAMPLE.read_env_file(path) == [("ENVIRONMENT_API_KEY", "k 1"), ("OTHER", "2")]


# ---- what it tells of itself ----


def test_info_and_task_info_have_the_fields_of_the_contract(app: Client) -> None:
    _, info = app.ask("GET", "/info", X_API_Key=KEY)
    _, taskset = app.ask("GET", "/task_info", X_API_Key=KEY)
    _, one = app.ask("GET", "/task_info?seed=3", X_API_Key=KEY)
    _, several = app.ask("GET", "/task_info?seed=3&seed=4&seeds=5,6", X_API_Key=KEY)

    assert set(info) == {"service", "dataset", "rubrics", "inference", "limits"}
    assert info["service"] == {"task": "sums", "version": SAMPLE.VERSION}
    assert set(taskset) == {"taskset"}
    assert {"task", "environment", "dataset", "rubric", "inference", "limits", "task_metadata"} == set(one)
    assert [info["task_metadata"]["seed"] for info in several] == [3, 4, 5, 6]
    assert one == several[0]
    assert app.ask("GET", "/task_info?seed=x", X_API_Key=KEY)[0] == 422


def test_a_seed_always_gives_the_same_numbers_and_seeds_differ() -> None:
    assert SAMPLE.numbers(7) == SAMPLE.numbers(7)
    assert len({SAMPLE.numbers(seed) for seed in range(50)}) > 40
    assert all(1 <= number < 100 for seed in range(50) for number in SAMPLE.numbers(seed))


# ---- rollouts ----


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        (call(right(3)), 1.0),
        (call(int(right(3))), 1.0),
        (call(f" {right(3)} "), 1.0),
        (call(None, arguments={"answer": right(3)}), 1.0),
        (call("many"), 0.0),
        (call(0), 0.0),
        (call(None, arguments='{"answer": '), 0.0),
        (call(None, arguments="[1]"), 0.0),
        (call(right(3), name="guess"), -1.0),
        ({"json": {"choices": [{"message": {"role": "assistant", "content": right(3)}}]}}, -1.0),
    ],
    ids=["right", "number", "blanks", "object", "no-number", "wrong", "cut", "list", "other-tool", "no-call"],
)
def test_the_reward_is_for_the_submitted_sum(app: Client, reply: Reply, reward: float) -> None:
    with ScriptedServer({"POST /v1/chat/completions": [reply]}) as policy:
        status, body = app.rollout(request(policy))

    assert status == 200
    assert body["metrics"]["mean_return"] == reward
    assert body["metrics"]["episode_returns"] == [reward]
    assert body["metrics"]["outcome_score"] == reward
    assert body["trajectories"][0]["steps"][0]["reward"] == reward


def test_a_rollout_carries_the_correlation_id_wherever_a_trainer_looks(app: Client) -> None:
    with ScriptedServer({"POST /v1/chat/completions": [call(right(3))]}) as policy:
        _, body = app.rollout(request(policy, record={"return_trace": True}))
        url = f"{policy.origin}/v1/chat/completions?cid=c-1"

    assert body["run_id"] == "run_1"
    assert body["trace_correlation_id"] == "c-1"
    assert body["pipeline_metadata"] == {"inference_url": url, "trace_correlation_id": "c-1"}
    (trajectory,) = body["trajectories"]
    assert trajectory["trace_correlation_id"] == "c-1"
    assert trajectory["inference_url"] == url
    (step,) = trajectory["steps"]
    assert step["info"]["meta"]["inference_url"] == url
    assert step["done"] is True
    assert step["tool_calls"][0]["tool_name"] == "submit"
    assert (trajectory["length"], body["ops_executed"], body["aborted"], body["branches"]) == (1, 2, False, {})
    assert body["trace"]["messages"][-1]["role"] == "assistant"


def test_the_policy_is_asked_as_the_contract_says(app: Client) -> None:
    config = {"temperature": 0.3, "max_tokens": 9, "extra_headers": {"X-Policy": "yes"}}
    with ScriptedServer({"POST /v1/chat/completions": [call(right(3))]}) as policy:
        app.rollout(request(policy, config=config))
        (asked,) = policy.log

    body = json.loads(asked.body)
    assert asked.target == "/v1/chat/completions?cid=c-1"
    assert asked.header("X-Policy") == "yes"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.3, 9)
    assert body["tools"][0]["function"]["name"] == "submit"
    assert body["tool_choice"]["function"]["name"] == "submit"
    left, right_number = SAMPLE.numbers(3)
    assert f"{left} + {right_number}" in body["messages"][-1]["content"]
    assert KEY not in str(asked)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("https://h", "https://h/v1/chat/completions"),
        ("https://h?cid=x", "https://h/v1/chat/completions?cid=x"),
        ("https://h/v1/", "https://h/v1/chat/completions"),
        ("https://h/api/v1?a=b", "https://h/api/v1/chat/completions?a=b"),
        ("https://h/chat/completions", "https://h/chat/completions"),
        ("https://h/base", "https://h/base/v1/chat/completions"),
    ],
)
def test_the_inference_url_is_completed_in_front_of_its_query(given: str, asked: str) -> None:
    assert SAMPLE.completions_url(given) == asked


@pytest.mark.parametrize(
    ("config", "cid"),
    [
        ({"trace_correlation_id": "a", "trace": "b", "inference_url": "http://h?cid=c"}, "a"),
        ({"trace_correlation_id": " ", "trace": "b", "inference_url": "http://h?cid=c"}, "b"),
        ({"inference_url": "http://h?x=1&cid=c&trace=t"}, "c"),
        ({"inference_url": "http://h?trace_correlation_id=d&trace=t"}, "d"),
        ({"inference_url": "http://h?trace=t"}, "t"),
        ({"inference_url": "http://h"}, ""),
    ],
)
def test_the_first_correlation_id_counts(config: dict[str, str], cid: str) -> None:
    assert SAMPLE.correlation_id(config) == cid


def test_the_correlation_id_stands_first_in_the_query_and_once() -> None:
    assert SAMPLE.with_cid("http://h/p?x=1&cid=old", "a/b c") == "http://h/p?cid=a%2Fb%20c&x=1"
    assert SAMPLE.with_cid("http://h/p?x=1", "") == "http://h/p?x=1"


@pytest.mark.parametrize(
    "reply",
    [
        {"status": 500, "text": "boom"},
        {"text": "no json"},
        {"json": {"choices": []}},
        {"json": {"choices": [{"message": None}]}},
        {"json": {"choices": [{"message": {"tool_calls": [7]}}]}},
        {"drop": "before_reply"},
    ],
    ids=["500", "no-json", "no-choice", "no-message", "no-call", "dropped"],
)
def test_a_policy_that_fails_gives_a_normal_reply_with_the_error_in_the_step(app: Client, reply: Reply) -> None:
    with ScriptedServer({"POST /v1/chat/completions": [reply]}) as policy:
        status, body = app.rollout(request(policy))

    assert status == 200
    assert body["metrics"]["mean_return"] == -1.0
    assert body["trajectories"][0]["steps"][0]["info"]["error"].startswith("the policy")


def test_a_rollout_asked_for_again_is_played_once(app: Client) -> None:
    with ScriptedServer({"POST /v1/chat/completions": [{**call(right(3)), "delay": 0.3}, call(0)]}) as policy:
        asked = request(policy)
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(app.rollout, [asked] * 4))
        again = app.rollout(asked)
        changed = app.rollout({**asked, "env": {"seed": 4}})
        other = app.rollout({**asked, "run_id": "run_2"})

    assert all(reply == again for reply in replies)
    assert again[1]["metrics"]["mean_return"] == 1.0
    assert changed[0] == 409
    assert other[1]["metrics"]["mean_return"] == 0.0
    assert len(policy.log) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run_id": ""}, "run_id"),
        ({"mode": None}, "mode"),
        ({"policy": {}}, "inference_url"),
        ({"policy": {"config": {"inference_url": "http://h"}}}, "trace_correlation_id"),
        ({"policy": "p"}, "policy"),
        ({"env": {"seed": "x"}}, "seed"),
        ({"safety": {"max_time_s": "long"}}, "max_time_s"),
    ],
)
def test_a_request_that_lacks_something_is_refused_by_name(app: Client, change: dict[str, Any], words: str) -> None:
    with ScriptedServer({}) as policy:
        status, body = app.rollout({**request(policy), **change})

    assert status == 422
    assert words in body["detail"]["error"]["message"]


def test_a_refused_rollout_can_be_asked_for_again(app: Client) -> None:
    with ScriptedServer({"POST /v1/chat/completions": [call(right(3))]}) as policy:
        good = request(policy)
        assert app.rollout({**good, "mode": "train"})[0] == 422
        assert app.rollout(good)[0] == 200


def test_an_evaluation_needs_no_correlation_id(app: Client) -> None:
    with ScriptedServer({"POST /v1/chat/completions": [call(right(3))]}) as policy:
        status, body = app.rollout(
            request(policy, mode="eval", config={"inference_url": policy.origin, "trace_correlation_id": None})
        )

    assert status == 200
    assert body["pipeline_metadata"]["inference_url"] == f"{policy.origin}/v1/chat/completions"


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {}, 422),
        (b"[]", {}, 422),
        (b"", {"Content-Length": "9999999"}, 413),
        (b"", {"Content-Length": "-1"}, 413),
        (b"", {"Content-Length": "many"}, 411),
    ],
)
def test_a_body_that_is_none_is_refused(app: Client, content: bytes, headers: dict[str, str], status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", app.port, timeout=10)
    connection.request("POST", "/rollout", content, {"X-API-Key": KEY, **headers})

    assert connection.getresponse().status == status
    connection.close()


def test_what_it_does_not_have_is_404_and_the_connection_stays_usable(app: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", app.port, timeout=10)
    for _ in range(2):
        connection.request("POST", "/env/sums/initialize", b'{"seed": 1}', {"X-API-Key": KEY})
        reply = connection.getresponse()
        assert reply.status == 404
        reply.read()
    connection.close()


def test_done_is_acknowledged(app: Client) -> None:
    assert app.ask("POST", "/done", {}, X_API_Key=KEY) == (200, {"ok": True, "service": "sums"})


# ---- with the command ----


def test_the_example_config_and_the_sample_app_pass_the_preflight(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    program = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "rl" / "task_app.py"), "--port", "0"],
        env={"ENVIRONMENT_API_KEY": ENV_KEY},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout
        url = program.stdout.readline().split(" on ", 1)[1].split(" ", 1)[0]
        with ScriptedServer(rl()) as server:
            ran = workspace.run(
                "train", "--config", str(EXAMPLES / "rl" / "grpo.toml"), "--backend", server.base, "--task-url", url,
                "--poll-interval", "0.2", env={"SYNTH_API_KEY": SYNTH_KEY, "ENVIRONMENT_API_KEY": ENV_KEY},
            )  # fmt: skip
    finally:
        program.terminate()
        program.communicate()

    assert ran.code == 0, ran.err
    assert "Task app healthy" in ran.out
    assert len(server.seen("POST /api/rl/jobs")) == 1


@pytest.mark.parametrize(
    ("config", "backend"),
    [("rl/grpo.toml", []), ("sft/sft.toml", [])]
    + [(config, ["--backend", "local"]) for config in ("rl/brackets.toml", "sft/tiny.toml")],
)
def test_the_example_configs_are_valid_without_a_warning(tmp_path: Path, config: str, backend: list[str]) -> None:
    ran = Workspace(tmp_path).run("train", "--config", str(EXAMPLES / config), "--dry-run", "--strict", *backend)

    assert ran.code == 0, ran.err
    assert "warning" not in ran.err.lower()


# ---- its command line ----


def start(*options: str, key: str = ENV_KEY) -> subprocess.CompletedProcess[str]:
    """The app, started with options that it cannot start with."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "rl" / "task_app.py"), *options],
        env={"ENVIRONMENT_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_env_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.env").write_bytes(b"NAME=\xe9\n")
    for name, why in (("none.env", "No such file or directory"), ("latin.env", "no UTF-8"), (".", "Is a directory")):
        ran = start("--env-file", str(tmp_path / name))

        assert ran.returncode == 2
        assert ran.stderr.splitlines()[-1].endswith(f"{tmp_path / name} cannot be read: {why}")
        assert "Traceback" not in ran.stderr


def test_a_port_that_cannot_be_had_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = start("--port", str(port))
    assert ran.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port" in ran.stderr
    assert "Traceback" not in ran.stderr

    ran = start("--port", "70000")
    assert ran.returncode == 2
    assert "cannot listen on 127.0.0.1:70000" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_a_key_it_says_where_one_may_come_from() -> None:
    ran = start(key=" ")

    assert ran.returncode == 2
    assert "set ENVIRONMENT_API_KEY, or name a file that holds it with --env-file" in ran.stderr


def test_a_trainer_that_goes_away_in_mid_reply_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with SAMPLE.serve("127.0.0.1", 0, (KEY,)) as app:
        for error in (BrokenPipeError(), ConnectionResetError()):
            try:
                raise error
            except OSError:
                app.handle_error(None, ("127.0.0.1", 1))
        assert capsys.readouterr().err == ""
        try:
            raise KeyError("a bug")
        except KeyError:
            app.handle_error(None, ("127.0.0.1", 1))
        assert "a bug" in capsys.readouterr().err


# ---- the task that a random model can learn ----


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("(apple)", 1.0),
        ("so: [x], y", 1.0),
        ("(apple", 0.5),
        ("()", 0.5),
        ("(apple]", 0.5),
        (")apple(", 0.5),
        ("", 0.0),
    ],
)
def test_brackets_are_worth_something_and_with_text_between_them_everything(text: str, reward: float) -> None:
    assert SAMPLE.TASKS["brackets"].score(3, text, []) == reward


def test_brackets_are_asked_for_without_a_tool() -> None:
    def answer(text: str | None) -> Reply:
        return {"json": {"choices": [{"message": {"role": "assistant", "content": text}}]}}

    replies = [answer("(drum)"), answer(None)]
    app = SAMPLE.serve("127.0.0.1", 0, (KEY,), SAMPLE.TASKS["brackets"])
    thread = threading.Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        with ScriptedServer({"POST /v1/chat/completions": replies}) as policy:
            client = Client(app.server_port)
            rewards = []
            for run_id in ("run_1", "run_2"):
                _, reply = client.rollout(request(policy, run_id=run_id))
                rewards.append(reply["metrics"]["mean_return"])
            bodies = [json.loads(seen.body) for seen in policy.seen("POST /v1/chat/completions")]
    finally:
        app.shutdown()
        thread.join()
        app.server_close()

    assert rewards == [1.0, 0.0]
    assert bodies[0]["messages"] == [{"role": "user", "content": "drum, in brackets"}]
    assert "tools" not in bodies[0]
