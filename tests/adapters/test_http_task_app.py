"""What is particular to probes over HTTP."""

from __future__ import annotations

import time

import pytest

from cases.scripted_server import PAGE, Script, ScriptedServer
from support.raw_server import RawServer, reply
from synth_train.adapters.http.task_app import HttpTaskApp
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import Probe, TaskAppKeys, Trouble, health_fault

KEY, ALIAS = Secret("ours-5f1c2a9e7b3d4f60-001"), Secret("alias-9c0d1e2f3a4b5c6d-002")
KEYS = TaskAppKeys(KEY, (ALIAS,))


def probe(script: Script, path: str = "") -> tuple[Probe, ScriptedServer]:
    with ScriptedServer(script) as server:
        return HttpTaskApp().health(server.origin + path, KEYS), server


def test_every_header_that_an_app_may_look_at_is_sent() -> None:
    _, server = probe({"GET /health": [{"json": {}}]})

    [row] = server.log
    assert row.header("X-API-Key") == KEY.reveal()
    assert row.header("X-API-Keys") == f"{KEY.reveal()},{ALIAS.reveal()}"
    assert row.header("Authorization") == f"Bearer {KEY.reveal()}"


@pytest.mark.parametrize(
    ("path", "asked"),
    [("", "/health"), ("/", "/health"), ("//", "/health"), ("/app", "/app/health"), ("/app/", "/app/health")],
)
def test_a_path_is_kept_and_a_slash_at_its_end_does_not_count(path: str, asked: str) -> None:
    _, server = probe({}, path)

    assert [row.target for row in server.log] == [asked]


def test_a_login_in_the_url_is_neither_sent_nor_shown() -> None:
    with ScriptedServer({"GET /health": [{"status": 500, "text": "password fake-url-password"}]}) as server:
        url = server.origin.replace("//", "//user:fake-url-password@")
        found = HttpTaskApp().health(url, KEYS)

    assert found.url == f"{server.origin}/health"
    assert "fake-url" not in repr(found)
    assert server.log[0].header("Authorization") == f"Bearer {KEY.reveal()}"


def test_a_page_is_told_with_its_type_and_its_beginning() -> None:
    found, _ = probe({"GET /health": [PAGE]})

    assert (found.status, found.body, found.content_type) == (200, None, "text/html")
    assert found.excerpt.startswith("<!doctype html>")


def test_no_probe_holds_a_key_that_the_app_has_sent_back() -> None:
    for answer in ({"json": {"detail": "got {{XKEY}} and {{AUTH}}"}}, {"text": "got {{XKEY}}"}):
        found, _ = probe({"GET /health": [{"status": 401, **answer}]})

        assert "ours-5f1" not in repr(found)
        assert "our...001" in found.excerpt


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_three_redirects_on_the_same_origin_are_followed(hops: int) -> None:
    script: Script = {
        f"GET /health{'/' * n}": [{"status": 307, "headers": {"Location": f"/health{'/' * (n + 1)}"}}]
        for n in range(hops)
    }
    found, server = probe({**script, f"GET /health{'/' * hops}": [{"json": {"healthy": True}}]})

    assert health_fault(found) is None
    assert len(server.log) == hops + 1


def test_a_circle_of_redirects_is_a_trouble() -> None:
    found, server = probe({"GET /health*": [{"status": 307, "headers": {"Location": "/health/"}}]})

    assert (found.trouble, found.detail) == (Trouble.REDIRECTS, f"307 to {server.origin}/health/")
    assert len(server.log) == 4


def test_the_keys_do_not_follow_to_another_origin() -> None:
    with ScriptedServer({"GET /*": [{"json": {}}]}) as other:
        found, _ = probe({"GET /health": [{"status": 302, "headers": {"Location": f"{other.origin}/health"}}]})

    assert found.trouble is Trouble.REDIRECTS
    assert other.log == []


def test_an_app_that_drips_is_given_up_in_time() -> None:
    with RawServer(tuple(bytes([byte]) for byte in reply(b"{}" + b" " * 500)), pause=0.05) as server:
        began = time.monotonic()
        found = HttpTaskApp().task_info(server.origin, KEYS, within=0.4)
        took = time.monotonic() - began

    assert (found.trouble, found.detail) == (Trouble.TIMED_OUT, "after 0.4 s")
    assert took < 10.0


@pytest.mark.parametrize("url", ["task.example", "http://user:fake-url-password@", "http://h:port", "http://h/\n"])
def test_what_is_no_url_is_a_trouble(url: str) -> None:
    found = HttpTaskApp().health(url, KEYS)

    assert found.trouble is Trouble.OTHER
    assert found.detail.startswith("the task URL ")
    assert "fake-url" not in repr(found)


@pytest.mark.parametrize("keys", [TaskAppKeys(Secret("two\nlines")), TaskAppKeys(KEY, (Secret("schlüssel"),))])
def test_a_key_that_no_header_can_hold_is_a_trouble_and_not_shown(keys: TaskAppKeys) -> None:
    with ScriptedServer({}) as server:
        found = HttpTaskApp().health(server.origin, keys)

    assert found.trouble is Trouble.OTHER
    assert "ENVIRONMENT_API_KEY" in found.detail
    assert "lines" not in repr(found)
    assert "schl" not in repr(found)
    assert server.log == []


def test_a_proxy_in_between_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:proxy-password-1234@127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    found = HttpTaskApp().health("http://task.invalid", KEYS)

    assert found.trouble is Trouble.PROXY
    assert found.detail.endswith("through the proxy http://127.0.0.1:1")
