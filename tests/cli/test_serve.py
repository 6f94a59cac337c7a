"""`synth-ai serve` as a process: its keys, its end, and what is left after it was killed."""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from support.local import rl_play, until
from support.served import Served, served

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

ROW = b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'
OURS, THEIRS = "a-key-of-ours-0001-abcdef", "a-key-of-theirs-0002-zyxwv"


def create(server: Served, key: str | None = None, **play: object) -> str:
    reply = server.ask("POST", "/rl/jobs", key=key, data=rl_play(**play))
    assert reply.status_code == 201, reply.text
    return str(reply.json()["job_id"])


def upload(server: Served, key: str | None = None, content: bytes = ROW) -> requests.Response:
    return server.ask("POST", "/files", key=key, files={"file": ("a.jsonl", content)}, data={"purpose": "fine-tune"})


# Keys


def test_a_key_is_made_at_the_first_start_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.ready().startswith("http://127.0.0.1:")
        key = server.key
        assert server.ask("GET", "/files").status_code == 200
        assert requests.get(f"{server.ready()}/files", timeout=5).status_code == 401
        assert server.ask("GET", "/files", key="another-key-0123456789").status_code == 403
        assert server.end() == 0
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert key.encode() not in file.read_bytes()
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    with served(tmp_path) as again:
        again.ready()
        assert "shown this once" not in again.text
        assert again.ask("GET", "/files", key=key).status_code == 200


def test_keys_can_be_given_in_a_file_and_each_sees_its_own(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{OURS}\n\n{THEIRS}\n")
    with served(tmp_path, "--token-file", "keys") as server:
        server.ready()
        file_id = upload(server, OURS).json()["id"]
        job_id = create(server, OURS)
        for path in (f"/files/{file_id}", f"/rl/jobs/{job_id}", f"/rl/jobs/{job_id}/events", f"/rl/jobs/{job_id}/log"):
            assert server.ask("GET", path, key=OURS).status_code == 200
            assert server.ask("GET", path, key=THEIRS).status_code == 404
        for method, path in (("DELETE", f"/files/{file_id}"), ("POST", f"/rl/jobs/{job_id}/cancel")):
            assert server.ask(method, path, key=THEIRS).status_code == 404
        assert server.ask("GET", "/learning/jobs", key=THEIRS).json()["jobs"] == []
        assert server.ask("GET", "/files", key=THEIRS).json()["files"] == []
        assert OURS not in server.text


def test_a_key_can_be_given_in_the_environment_and_is_not_handed_down_to_workers(tmp_path: Path) -> None:
    with served(tmp_path, env={"SYNTH_SERVE_TOKEN": OURS}) as server:
        server.ready()
        assert "shown this once" not in server.text
        job_id = create(server, OURS, steps=1, pause=20)
        pids = server.home / "jobs" / job_id / "pids"
        until(pids.exists)
        assert OURS not in Path(f"/proc/{pids.read_text().split()[0]}/environ").read_text()


def test_the_key_that_was_made_opens_the_jobs_of_the_command_line_too(tmp_path: Path) -> None:
    from synth_train.adapters.local.sqlite_store import SqliteJobStore

    with served(tmp_path) as server:
        server.ready()
        job_id = create(server)
        with SqliteJobStore(server.home / "db.sqlite").transaction() as rows:
            job = rows.job(job_id)  # type: ignore[arg-type]
        assert job is not None
        assert job.owner == "local"


@pytest.mark.parametrize(
    ("args", "keys", "said", "code"),
    [
        (["--host", "0.0.0.0"], OURS, "--expose", 2),
        (["--host", "::"], OURS, "--expose", 2),
        (["--host", "0.0.0.0", "--expose"], None, "a key that you choose", 4),
        (["--token-file", "nowhere"], None, "nowhere: No such file", 2),
        (["--token-file", "keys"], "short", "at least 16", 4),
        (["--token-file", "keys"], f"{OURS}\ntwo words in one line", "key 2 of keys", 4),
        (["--token-file", "keys"], "\n \n", "holds no key", 4),
        (["--host", "192.0.2.1", "--expose", "--token-file", "keys"], OURS, "cannot listen on 192.0.2.1", 2),
    ],
)
def test_what_would_let_in_the_wrong_ones_is_refused_in_words(
    tmp_path: Path, args: list[str], keys: str | None, said: str, code: int
) -> None:
    if keys is not None:
        (tmp_path / "keys").write_text(keys)
    with served(tmp_path, *args) as server:
        assert server.ended() == code
        assert said in server.text
        assert "Traceback" not in server.text
        assert OURS not in server.text


def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, served(tmp_path, "--port", str(taken.getsockname()[1])) as it:
        assert it.ended() == 2
        assert "--port" in it.text


# Limits


def test_the_largest_upload_can_be_set_and_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with served(tmp_path, "--max-upload", "1K") as server:
        server.ready()
        assert upload(server, content=ROW).status_code == 201
        reply = upload(server, content=ROW * 100)
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "file_too_large")
        assert len(list((server.home / "blobs").iterdir())) == 1


def test_rows_that_cannot_be_trained_on_are_rejected_with_their_line(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.ready()
        file = upload(server, content=ROW + b"{}\n").json()
        assert file["status"] == "rejected"
        assert "a.jsonl:2" in file["status_details"]


# Life and death


def test_a_job_runs_to_its_end_and_its_model_can_be_fetched_in_parts(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.ready()
        job_id = create(server, say="hello from the trainer")
        with server.ask("GET", f"/rl/jobs/{job_id}/events", stream=True) as _:
            pass
        until(lambda: server.ask("GET", f"/rl/jobs/{job_id}").json()["status"] == "succeeded")
        assert [row["name"] for row in server.ask("GET", f"/rl/jobs/{job_id}/results").json()["files"]] == [
            "config.json"
        ]
        path = f"/rl/jobs/{job_id}/results/config.json"
        assert server.ask("GET", path).content == b"{}"
        rest = requests.get(
            f"{server.ready()}{path}",
            headers={"Authorization": f"Bearer {server.key}", "Range": "bytes=1-"},
            timeout=5,
        )
        assert (rest.status_code, rest.content, rest.headers["Content-Range"]) == (206, b"}", "bytes 1-1/2")
        log = server.ask("GET", f"/rl/jobs/{job_id}/log").json()
        assert log["text"].strip() == "hello from the trainer"
        assert server.ask("GET", f"/rl/jobs/{job_id}/log?after={log['next']}").json()["text"] == ""
        model = f"rl:tiny:{job_id}"
        assert [row["id"] for row in server.ask("GET", "/learning/models").json()["data"]] == [model]
        assert server.ask("GET", f"/models/{model}").json()["job_id"] == job_id
        assert server.ask("GET", f"/models/{model}/jobs").json()["jobs"][0]["id"] == job_id


def test_a_stored_environment_key_reaches_the_worker_and_nobody_else(tmp_path: Path) -> None:
    import base64

    from synth_train.adapters.sealed_box import SealedBoxSealer
    from synth_train.domain.model.secret import Secret

    secret = "fake-env-key-0002-ijklmnop"
    with served(tmp_path, "--verbose") as server:
        server.ready()
        public = base64.b64decode(server.ask("GET", "/api/v1/crypto/public-key").json()["public_key"])
        sealed = base64.b64encode(SealedBoxSealer().seal(public, Secret(secret))).decode()
        body = {"name": "ENVIRONMENT_API_KEY", "ciphertext_b64": sealed}
        assert server.ask("POST", "/api/v1/env-keys", json=body).status_code == 200
        assert server.ask("GET", "/api/v1/env-keys/verify").json() == {"present": True}
        job_id = create(server, tell_key=True)
        until(lambda: server.ask("GET", f"/rl/jobs/{job_id}").json()["status"] == "succeeded")
        events = server.ask("GET", f"/rl/jobs/{job_id}/events").json()["events"]
        assert secret[-4:] in [event["message"] for event in events]
        assert server.end() == 0
        # B29 (h): neither database nor logs hold eight characters in a row of a key.
        key = server.key
        places = {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        places["output"] = server.text.replace(key, "").encode()
        for text in (secret, key):
            for at in range(len(text) - 7):
                for place, content in places.items():
                    assert text[at : at + 8].encode() not in content, place


def test_sigterm_lets_what_is_in_flight_finish(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        url = server.ready()
        job_id = create(server, steps=1, pause=60)
        half = threading.Event()

        def slowly() -> Iterator[bytes]:
            yield b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
            half.set()
            until(lambda: "Stopped" in server.text or server.process.poll() is not None or _refuses(url))
            yield (
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
                + ROW
                + b"\r\n--b--\r\n"
            )

        length = len(b"".join(_form()))
        headers = {
            "Authorization": f"Bearer {server.key}",
            "Content-Type": "multipart/form-data; boundary=b",
            "Content-Length": str(length),
        }
        with ThreadPoolExecutor(2) as pool:
            following = pool.submit(
                lambda: (
                    requests.get(
                        f"{url}/rl/jobs/{job_id}/events",
                        headers={"Authorization": f"Bearer {server.key}", "Accept": "text/event-stream"},
                        timeout=30,
                    ).text
                )
            )
            sending = pool.submit(
                lambda: requests.post(f"{url}/files", data=_Sized(slowly(), length), headers=headers, timeout=30)
            )
            assert half.wait(10)
            server.process.send_signal(signal.SIGTERM)
            assert sending.result().status_code == 201
            assert '"rl.created"' in following.result()
        assert server.ended() == 0


def _form() -> list[bytes]:
    return [
        b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n' + ROW + b"\r\n--b--\r\n",
    ]


class _Sized:
    """A body that comes in pieces, of a length that is known."""

    def __init__(self, pieces: Iterator[bytes], length: int) -> None:
        self._pieces, self._length = pieces, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces


def _refuses(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return True
    return False


def test_what_a_killed_upload_has_left_is_gone_after_the_next_start(tmp_path: Path) -> None:
    with served(tmp_path, env={"SYNTH_SERVE_TOKEN": OURS}) as server:
        server.ready()
        upload(server, OURS)
        [named] = (server.home / "blobs").iterdir()
    left = named.with_name("blob_0123")
    left.write_bytes(b"cut off before its file was known")
    for path in (named, left):
        os.utime(path, (0, 0))
    with served(tmp_path, env={"SYNTH_SERVE_TOKEN": OURS}) as again:
        again.ready()
        assert list(named.parent.iterdir()) == [named]


def test_what_was_acknowledged_is_there_after_the_server_was_killed(tmp_path: Path) -> None:
    acknowledged: list[tuple[str, str]] = []

    def client(server: Served, number: int) -> None:
        for count in range(100):
            try:
                reply = upload(server, OURS, ROW + b" " * (number * 100 + count))
                acknowledged.append(("files", reply.json()["id"]))
                acknowledged.append(("rl/jobs", create(server, OURS, steps=1, pause=0.2)))
            except requests.RequestException:
                return

    with served(tmp_path, env={"SYNTH_SERVE_TOKEN": OURS}) as server:
        server.ready()
        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client, server, number) for number in range(4)]
            until(lambda: len(acknowledged) > 24)
            server.end(signal.SIGKILL)
            for one in clients:
                one.result()
    with served(tmp_path, env={"SYNTH_SERVE_TOKEN": OURS}) as again:
        again.ready()
        for route, one_id in acknowledged:
            assert again.ask("GET", f"/{route}/{one_id}", key=OURS).status_code == 200
        jobs = again.ask("GET", "/rl/jobs?limit=1000", key=OURS).json()["jobs"]
        assert len({job["id"] for job in jobs}) == len(jobs) >= 8
