"""Where the time of the RL loop goes: sampling, the task app, the update.

    python benchmarks/rl_loop.py [--iterations 8] [--in-flight 1 8 64] [--model tiny]

Trains on a task app in a process of its own that answers as fast as it can, so that what is shown beside sampling and
update is what our side of a rollout costs: two HTTP requests and their JSON. One thread (design §5). Each number is
the median over the iterations, in seconds for 64 rollouts, without the first one, which warms up.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from synth_train.adapters.dotenv_env import DotenvEnv
from synth_train.adapters.local.disk_blobs import DiskBlobStore
from synth_train.adapters.local.home import LocalHome
from synth_train.adapters.local.key_ring import KeyRing
from synth_train.adapters.local.rl import RlTrainer
from synth_train.adapters.local.trainers import Bench
from synth_train.adapters.system_entropy import SystemEntropy
from synth_train.domain.model.hosting import Job, Order, Owner, Step, Task
from synth_train.domain.model.jobs import JobId, Kind
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys

ROWS = ("time.generation", "time.task_app", "time.update")


class TaskApp(BaseHTTPRequestHandler):
    """One turn; the reward is the share of brackets in what the policy says."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        self._reply({"status": "ok"})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        config = request["policy"]["config"]
        body = {"messages": [{"role": "user", "content": f"Hi {request['env']['seed']}"}]}
        asked = urllib.request.Request(config["inference_url"], json.dumps(body).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as reply:
            text = json.load(reply)["choices"][0]["message"]["content"]
        self._reply({"metrics": {"mean_return": sum(letter in "()[]{}<>" for letter in text) / 16}})

    def _reply(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(port: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), TaskApp)
    port.send(server.server_port)
    server.serve_forever()


def train(folder: Path, url: str, model: str, in_flight: int, iterations: int) -> dict[str, float]:
    """The medians of a run."""
    home = LocalHome(folder)
    home.make()
    ring = KeyRing({}, DotenvEnv({}).read)
    config: dict[str, Any] = {
        "model": {"trainer_mode": "full"},
        "rollout": {
            "max_concurrent_rollouts": in_flight,
            "policy_config": {"temperature": 1.0, "top_p": 1.0, "max_tokens": 16},
        },
        "training": {
            "iterations_per_epoch": iterations + 1,
            "batch_size": 8,
            "group_size": 8,
            "learning_rate": 1e-5,
        },
        "local": {"seed": 1, "threads": 1},
    }
    data = {"model": model, "endpoint_base_url": url, "config": config}
    order = Order(
        kind=Kind.RL, model=model, training_type="rl_online", task_url=url, body=json.dumps({"data": data}).encode()
    )
    job = Job(
        id=JobId(f"job_{in_flight}"),
        owner=Owner("benchmark"),
        order=order,
        created_at=0.0,
        updated_at=0.0,
        claims=1,
        key_place=ring.lend(TaskAppKeys(Secret("benchmark")), name="ENVIRONMENT_API_KEY", file=None),
    )
    bench = Bench(home, DiskBlobStore(home.blobs, SystemEntropy()), ring)
    bench.folder(job).make()
    steps = [one.points for one in RlTrainer(bench).train(Task(job=job)) if isinstance(one, Step)][1:]
    return {name: statistics.median(step[name] for step in steps) for name in (*ROWS, "train.tokens_per_second")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--iterations", type=int, default=8)
    options.add_argument("--in-flight", type=int, nargs="+", default=[1, 8, 64])
    options.add_argument("--model", default="tiny")
    chosen = options.parse_args()

    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}"
    with tempfile.TemporaryDirectory() as folder:
        runs = {count: train(Path(folder), url, chosen.model, count, chosen.iterations) for count in chosen.in_flight}
    server.kill()
    server.join()

    print(f"{'rollouts in flight':<22}" + "".join(f"{count:>16}" for count in runs))
    for name in ROWS:
        cells = [f"{run[name]:.2f} s {run[name] / sum(run[row] for row in ROWS):5.0%}" for run in runs.values()]
        print(f"{name.removeprefix('time.').replace('_', ' '):<22}" + "".join(f"{cell:>16}" for cell in cells))
    print(
        f"{'sampled tokens a second':<22}"
        + "".join(f"{run['train.tokens_per_second']:>15.0f}" for run in runs.values())
    )


if __name__ == "__main__":
    main()
