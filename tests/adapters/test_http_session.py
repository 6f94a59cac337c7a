"""One request and its reply: what the machine's settings change, and which failures are told apart."""

from __future__ import annotations

import io
import socket
import time
from pathlib import Path

import pytest

from cases.scripted_server import Reply as Scripted
from cases.scripted_server import ScriptedServer
from support.raw_server import CERTIFICATE, RawServer, reply
from synth_train.adapters.http.body import Body
from synth_train.adapters.http.session import LARGEST_REPLY, NoReply, Reply, Session
from synth_train.domain.model.task_app import Trouble

FINE: Scripted = {"json": {"ok": True}}
DEAD_PROXY = "http://me:proxy-password-1234@127.0.0.1:1"
"""Nothing listens on port 1."""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def session() -> Session:
    return Session()


def get(session: Session, url: str, *, within: float = 20.0, redirects: int = 10, **headers: str) -> Reply:
    return session.get(url, headers, within=within, redirects=redirects)


def failure(session: Session, url: str, *, within: float = 20.0) -> NoReply:
    with pytest.raises(NoReply) as caught:
        get(session, url, within=within)
    return caught.value


# -- settings of the machine


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_netrc_never_speaks_for_us(
    session: Session, host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login someone password fake-netrc-password\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    with ScriptedServer({"* /x": [FINE]}, host=host) as server:
        get(session, f"{server.origin}/x", Authorization="Bearer ours")
        get(session, f"{server.origin}/x")
        session.post(f"{server.origin}/x", {"Authorization": "Bearer ours"}, b"{}", within=20.0)

    assert [row.header("Authorization") for row in server.log] == ["Bearer ours", None, "Bearer ours"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_is_never_asked_through_a_proxy(session: Session, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, DEAD_PROXY)
    with ScriptedServer({"GET /x": [FINE]}, host="::1" if host == "[::1]" else "127.0.0.1") as server:
        assert get(session, f"http://{host}:{server.port}/x").status == 200


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_other_hosts_are_asked_through_the_proxy(
    session: Session, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer({"GET /api/x": [FINE]}) as proxy:
        monkeypatch.setenv(variable, proxy.origin)
        assert get(session, "http://backend.invalid/api/x").status == 200

    assert [row.target for row in proxy.log] == ["http://backend.invalid/api/x"]


def test_a_host_in_no_proxy_is_asked_directly(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", DEAD_PROXY)
    monkeypatch.setenv("NO_PROXY", "backend.invalid")

    error = failure(session, "http://backend.invalid/api/x")

    assert error.trouble is Trouble.NAME
    assert error.proxy is None


@pytest.mark.parametrize("proxy", ["http://me:proxy-password-1234@ho st:1", "ftp://me:proxy-password-1234@host:1"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_login(
    session: Session, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)

    error = failure(session, "http://backend.invalid/api/x")

    assert error.detail
    assert error.proxy
    assert "proxy-password" not in f"{error} {error!r} {error.proxy}"


def test_a_proxy_that_is_down_is_named_without_its_login(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", DEAD_PROXY)

    error = failure(session, "http://backend.invalid/api/x")

    assert error.trouble is Trouble.PROXY
    assert error.proxy == "http://127.0.0.1:1"
    assert not error.sent
    assert "proxy-password" not in f"{error} {error!r} {error.__cause__}"


@pytest.mark.parametrize(
    "proxy", ["http://me:proxy-password-1234@:", "me:proxy-password-1234@host:port", "http://[::1"]
)
def test_a_proxy_that_is_no_address_is_said_to_be_none(
    session: Session, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)

    error = failure(session, "http://backend.invalid/api/x")

    assert error.trouble is Trouble.PROXY
    assert error.detail == "its address cannot be read"
    assert "proxy-password" not in f"{error} {error!r} {error.__cause__}"


@pytest.mark.parametrize("url", ["http://backend.invalid/x", "https://backend.invalid/x"])
def test_a_proxy_that_wants_a_login_is_told_from_the_service(
    session: Session, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer((reply(b"", status="407 Proxy Authentication Required"),)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.origin)
        error = failure(session, url)

    assert error.trouble is Trouble.PROXY
    assert error.proxy == proxy.origin
    assert "407" in error.detail or "user name and password" in error.detail


def test_no_cookie_is_kept(session: Session) -> None:
    with ScriptedServer({"GET /x": [{**FINE, "headers": {"Set-Cookie": "a=b"}}]}) as server:
        get(session, f"{server.origin}/x")
        get(session, f"{server.origin}/x")

    assert [row.header("Cookie") for row in server.log] == [None, None]


def test_we_say_who_we_are(session: Session) -> None:
    with ScriptedServer({"GET /x": [FINE]}) as server:
        get(session, f"{server.origin}/x")

    assert (server.log[0].header("User-Agent") or "").startswith("synth-train/")


# -- certificates


def test_a_certificate_that_nobody_vouches_for_is_refused(session: Session) -> None:
    with RawServer((reply(b"{}"),), tls=True) as server:
        error = failure(session, f"{server.origin}/x")

    assert error.trouble is Trouble.TLS
    assert "self-signed" in error.detail or "self signed" in error.detail
    assert not error.sent
    assert server.heard == []


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_an_authority_of_ones_own_is_trusted(session: Session, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, str(CERTIFICATE))
    with RawServer((reply(b"{}"),), tls=True) as server:
        assert get(session, f"{server.origin}/x").content == b"{}"


def test_an_authority_that_is_not_there_is_named(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))

    error = failure(session, "https://127.0.0.1:1/x")

    assert error.trouble is Trouble.TLS
    assert "SSL_CERT_FILE" in error.detail
    assert "gone.pem" in error.detail


def test_https_on_a_port_that_speaks_http_is_a_matter_of_tls(session: Session) -> None:
    with ScriptedServer({}) as server:
        error = failure(session, f"https://127.0.0.1:{server.port}/x")

    assert error.trouble is Trouble.TLS
    assert error.detail


# -- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["/there", "{origin}/there", "there#part"])
def test_a_get_follows_on_its_own_origin_with_its_headers(session: Session, status: int, to: str) -> None:
    with ScriptedServer({"GET /there": [FINE]}) as server:
        server.script = {
            **server.script,
            "GET /x": [{"status": status, "headers": {"Location": to.format(origin=server.origin)}}],
        }
        found = get(session, f"{server.origin}/x", Authorization="Bearer ours")

    assert (found.status, found.url, found.location) == (200, f"{server.origin}/there", None)
    assert server.seen("GET /there")[0].header("Authorization") == "Bearer ours"


def test_a_get_does_not_follow_to_another_origin(session: Session) -> None:
    with ScriptedServer({"GET /x": [FINE]}) as other:
        to = {"status": 302, "headers": {"Location": f"http://user:pw@127.0.0.1:{other.port}/x"}}
        with ScriptedServer({"GET /x": [to]}) as server:
            found = get(session, f"{server.origin}/x", Authorization="Bearer ours")

    assert (found.status, found.location) == (302, f"{other.origin}/x")
    assert other.log == []


def test_a_get_in_a_circle_ends(session: Session) -> None:
    with ScriptedServer({"GET /x": [{"status": 302, "headers": {"Location": "/x"}}]}) as server:
        found = get(session, f"{server.origin}/x", redirects=3)

    assert (found.status, found.location) == (302, f"{server.origin}/x")
    assert len(server.log) == 4


@pytest.mark.parametrize("headers", [{}, {"Location": "http://[::1"}, {"Location": "http://host:port/"}])
def test_a_redirect_to_nowhere_is_a_reply(session: Session, headers: dict[str, str]) -> None:
    with ScriptedServer({"GET /x": [{"status": 302, "headers": headers}]}) as server:
        found = get(session, f"{server.origin}/x")

    assert (found.status, found.location) == (302, None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_post_is_never_redirected(session: Session, status: int) -> None:
    with ScriptedServer({"POST /x": [{"status": status, "headers": {"Location": "/there"}}]}) as server:
        found = session.post(f"{server.origin}/x", {}, b"{}", within=20.0)

    assert (found.status, found.location) == (status, f"{server.origin}/there")
    assert [row.route for row in server.log] == ["POST /x"]


# -- no reply


def test_a_name_that_does_not_exist(session: Session) -> None:
    error = failure(session, "http://nobody.invalid/x")

    assert error.trouble is Trouble.NAME
    assert error.detail
    assert not error.sent


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_name_that_cannot_be_one(session: Session, host: str) -> None:
    assert failure(session, f"http://{host}/x").detail


def test_a_port_where_nothing_listens(session: Session) -> None:
    error = failure(session, "http://127.0.0.1:1/x")

    assert error.trouble is Trouble.REFUSED
    assert "refused" in error.detail.lower()
    assert not error.sent


@pytest.mark.parametrize(
    "said",
    [
        (),
        (reply(b'{"half', length=100),),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf",),
    ],
    ids=["nothing", "half-a-body", "half-a-chunk"],
)
def test_a_reply_that_is_cut_is_none(session: Session, said: tuple[bytes, ...]) -> None:
    with RawServer(said) as server:
        error = failure(session, f"{server.origin}/x")

    assert error.trouble is Trouble.RESET
    assert error.sent


def test_what_does_not_speak_http_is_said_not_to(session: Session) -> None:
    with RawServer((b"SSH-2.0-OpenSSH_9.6\r\n",)) as server:
        error = failure(session, f"{server.origin}/x")

    assert error.trouble is Trouble.OTHER
    assert error.detail == "what answers there does not speak HTTP"


def test_a_body_that_is_not_packed_as_it_says(session: Session) -> None:
    with RawServer((reply(b"not gzip", "Content-Encoding: gzip"),)) as server:
        assert failure(session, f"{server.origin}/x").trouble is Trouble.OTHER


@pytest.mark.parametrize(
    "said",
    [
        (b"",),
        tuple(bytes([byte]) for byte in reply(b"{}", "X-Padding: " + "x" * 500)),
        (reply(b"", length=500), *[b"x"] * 500),
    ],
    ids=["nothing", "dripping-head", "dripping-body"],
)
def test_a_time_limit_is_for_the_whole_reply_and_not_for_each_byte(session: Session, said: tuple[bytes, ...]) -> None:
    with RawServer(said, pause=0.05 if len(said) > 1 else 60.0) as server:
        began = time.monotonic()
        error = failure(session, f"{server.origin}/x", within=0.4)
        took = time.monotonic() - began

    assert error.trouble is Trouble.TIMED_OUT
    assert error.sent
    assert took < 10.0


def test_a_reply_without_end_is_not_read_to_its_end(session: Session) -> None:
    with RawServer((reply(b"x" * (LARGEST_REPLY + 10)),)) as server:
        found = get(session, f"{server.origin}/x")

    assert found.cut
    assert len(found.content) == LARGEST_REPLY


def test_the_cause_of_a_failure_does_not_hold_the_request(session: Session) -> None:
    error = failure(session, "http://127.0.0.1:1/x")

    assert error.__cause__ is not None
    assert getattr(error.__cause__, "request", None) is None


# -- what has gone out


def unanswered(session: Session, url: str) -> NoReply:
    with pytest.raises(NoReply) as caught:
        session.post(url, {}, b'{"a": 1}', within=20.0)
    return caught.value


def test_a_post_that_found_nobody_was_not_sent(session: Session) -> None:
    assert not unanswered(session, "http://127.0.0.1:1/x").sent


def test_a_post_to_somebody_who_cannot_be_trusted_was_not_sent(session: Session) -> None:
    with RawServer((), tls=True) as server:
        assert not unanswered(session, f"{server.origin}/x").sent


@pytest.mark.parametrize("drop", ["before_reply", "reset", "mid_body"])
def test_a_post_without_a_whole_reply_may_have_been_heard(session: Session, drop: str) -> None:
    with ScriptedServer({"POST /x": [{**FINE, "drop": drop}]}) as server:
        assert unanswered(session, f"{server.origin}/x").sent

    assert server.log[0].body == b'{"a": 1}'


def test_a_post_that_is_given_up_unsent_will_not_be_sent_later(session: Session) -> None:
    """The other side accepts connections and takes its time with TLS; when it goes on, nobody waits any more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(NoReply) as caught:
            session.post(f"https://127.0.0.1:{listener.getsockname()[1]}/x", {}, b"{}", within=0.3)
        assert caught.value.trouble is Trouble.TIMED_OUT
        assert not caught.value.sent


def test_an_upload_is_one_body_of_its_announced_length(session: Session) -> None:
    with ScriptedServer({"POST /x": [FINE]}) as server:
        session.upload(f"{server.origin}/x", {}, Body(io.BytesIO(b"x" * 3_000_000), 3_000_000))

    [row] = server.log
    assert row.header("Content-Length") == "3000000"
    assert row.header("Transfer-Encoding") is None
    assert row.length == 3_000_000
