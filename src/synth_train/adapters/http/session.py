"""One request and its whole reply, by requests: what the machine's settings may change, and what they may not.

Proxies (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) and certificates (`REQUESTS_CA_BUNDLE`,
`CURL_CA_BUNDLE`, `SSL_CERT_FILE`) are taken from the environment, a `.netrc` never is: it would replace the key that
was chosen. Loopback hosts are never asked through a proxy. No cookie is kept, and no redirect followed but those of a
GET on its own origin.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.client import BadStatusLine
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from socket import gaierror
from typing import TypeVar
from urllib.parse import urldefrag, urljoin, urlsplit

import requests
import urllib3.exceptions
from msgspec import Struct
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies, select_proxy

from synth_train.adapters.http.body import BLOCK, Body, NotRead
from synth_train.domain.model.addresses import is_loopback, same_origin, without_credentials
from synth_train.domain.model.secret import Secret, redact
from synth_train.domain.model.task_app import Trouble
from synth_train.ports.streams import Readable
from synth_train.version import own_version

T = TypeVar("T")

LARGEST_REPLY = 4 << 20
"""Bytes. No reply of the contract comes near; what is longer is something else, and is not read to its end."""

STALL = 60.0
"""Seconds in which one block of an upload must have gone out."""

UPLOAD_REPLY = 300.0
"""Seconds that a backend may take to look at what was uploaded before it answers."""

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-")
_REDIRECTS = (301, 302, 303, 307, 308)
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class Reply(Struct, frozen=True, kw_only=True):
    """What came back, read to its end."""

    method: str
    url: str
    """The last one asked, when redirects were followed."""
    status: int
    content_type: str
    content: bytes
    retry_after: str | None
    location: str | None
    """Where a redirect points, as a whole URL; None when it is none."""
    cut: bool = False
    """Whether it was longer than `LARGEST_REPLY`."""


class NoReply(Exception):
    """No whole reply came. `sent` tells whether the request may have reached the other side."""

    def __init__(self, trouble: Trouble, detail: str = "", *, proxy: str | None = None, sent: bool) -> None:
        super().__init__(f"{trouble.value}: {detail}" if detail else trouble.value)
        self.trouble = trouble
        self.detail = detail
        """The transport's own words, and the proxy if one was used; holds no credentials of a proxy."""
        self.proxy = proxy
        """Where the proxy is, without its credentials."""
        self.sent = sent


class Session:
    """Requests to one service, over connections that are kept. Safe to use from several threads."""

    def __init__(self, *, at_once: int = 10) -> None:
        """
        Args:
            at_once: how many connections are worth keeping.
        """
        self._requests = _Requests()
        self._requests.trust_env = False
        self._requests.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        self._requests.headers["User-Agent"] = f"synth-train/{own_version()}"
        for scheme in ("http://", "https://"):
            self._requests.mount(scheme, _Adapter(at_once))

    def get(self, url: str, headers: Mapping[str, str], *, within: float, redirects: int) -> Reply:
        """GET, following at most so many redirects, all of them on the origin of `url`, in `within` seconds in all.

        The reply is a redirect when it points elsewhere or when there were too many.

        Raises:
            NoReply: as the name says.
        """

        def follow() -> Reply:
            reply = self._exchange("GET", url, headers, None, (within, within))
            for _ in range(redirects):
                if reply.location is None or not same_origin(url, reply.location):
                    break
                reply = self._exchange("GET", reply.location, headers, None, (within, within))
            return reply

        return _within(within, follow, overrun=lambda: True)

    def post(self, url: str, headers: Mapping[str, str], body: bytes, *, within: float) -> Reply:
        """POST, in `within` seconds in all. Redirects are not followed: they could turn it into a GET.

        Raises:
            NoReply: as the name says.
        """
        sent = Body.of(body)
        return _within(
            within, lambda: self._exchange("POST", url, headers, sent, (within, within)), overrun=sent.abandon
        )

    def upload(self, url: str, headers: Mapping[str, str], body: Body) -> Reply:
        """POST in as much time as it takes, as long as it goes on: see `STALL` and `UPLOAD_REPLY`.

        Raises:
            NoReply: as the name says.
            Whatever the body raises when it is read.
        """
        return self._exchange("POST", url, headers, body, (STALL, UPLOAD_REPLY))

    def download(self, url: str, headers: Mapping[str, str], *, within: float) -> Reply | Download:
        """GET of something that may be long: its bytes, as they come, or the whole reply when it is no success.

        Args:
            within: seconds until the first bytes, and between any two.

        Raises:
            NoReply: as the name says; `Download.read` raises it, too.
        """
        response, proxy = self._asked("GET", url, headers, None, (within, within))
        if response.status_code in (200, 206):
            return Download(response, proxy)
        with response:
            return _reply("GET", url, response, proxy, None)

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, timeouts: tuple[float, float]
    ) -> Reply:
        response, proxy = self._asked(method, url, headers, body, timeouts)
        with response:
            return _reply(method, url, response, proxy, body)

    def _asked(
        self, method: str, url: str, headers: Mapping[str, str], body: Body | None, timeouts: tuple[float, float]
    ) -> tuple[requests.Response, str | None]:
        """The head of a reply, and the proxy that it came through."""
        # The first time-out holds for the connection and for each block that is sent, the second for each that comes.
        proxies = {} if is_loopback(urlsplit(url).hostname or "") else get_environ_proxies(url)
        proxy = _checked(select_proxy(url, proxies))
        with _without_reply(proxy, body):
            response = self._requests.request(
                method,
                url,
                headers=dict(headers),
                data=body,
                timeout=timeouts,
                allow_redirects=False,
                stream=True,
                proxies=proxies,
                verify=_certificates(url),
            )
        return response, proxy


class Download(Readable):
    """The body of a reply, while it comes in."""

    def __init__(self, response: requests.Response, proxy: str | None) -> None:
        self._response = response
        self._proxy = proxy
        self._left = _announced(response)
        span = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        self.first = int(span[1]) if span and response.status_code == 206 else 0
        """Where in the whole it begins, in bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """See `Readable.read`.

        Raises:
            NoReply: the connection was lost before the end.
        """
        with _without_reply(self._proxy, None):
            block: bytes = self._response.raw.read(None if size < 0 else size, decode_content=True)
        if self._left is not None:
            self._left -= len(block)
            if not block and size != 0 and self._left > 0:
                raise NoReply(Trouble.RESET, f"{self._left} bytes are missing", proxy=self._proxy, sent=True)
        return block

    def close(self) -> None:
        """See `Readable.close`."""
        self._response.close()


@contextlib.contextmanager
def _without_reply(proxy: str | None, body: Body | None) -> Iterator[None]:
    """Nothing but NoReply comes out, and what reading the body raised."""
    try:
        yield
    except NotRead as error:
        raise (error.__cause__ or error) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise _no_reply(error, proxy, body) from _harmless(error)


def _reply(method: str, url: str, response: requests.Response, proxy: str | None, body: Body | None) -> Reply:
    """A response, read to its end."""
    with _without_reply(proxy, body):
        content, cut = _content(response)
    if response.status_code == 407 and proxy:
        shown = without_credentials(proxy)
        raise NoReply(Trouble.PROXY, f"{shown} asks for a user name and password", proxy=shown, sent=False)
    return Reply(
        method=method,
        url=url,
        status=response.status_code,
        content_type=response.headers.get("Content-Type", ""),
        content=content,
        retry_after=response.headers.get("Retry-After"),
        location=_location(url, response),
        cut=cut,
    )


def _announced(response: requests.Response) -> int | None:
    """Bytes that are to come, when that is known and nothing is packed."""
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and "Content-Encoding" not in response.headers else None


class _Requests(requests.Session):
    """A session that leaves redirects alone. The library looks at where they point even when it is not to follow,
    reads such a reply to its end, and fails over an address that is none."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class _Adapter(HTTPAdapter):
    """Sends in blocks that are worth their system call, and never sends anything twice."""

    def __init__(self, at_once: int) -> None:
        super().__init__(max_retries=0, pool_maxsize=at_once)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: object) -> None:
        super().init_poolmanager(connections, maxsize, block, blocksize=BLOCK, **options)

    def proxy_manager_for(self, proxy: str, **options: object) -> urllib3.ProxyManager:
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, blocksize=BLOCK, **options)
        return manager


def _within(seconds: float, call: Callable[[], T], *, overrun: Callable[[], bool]) -> T:
    """What `call` gives in `seconds`, or NoReply, with `sent` as `overrun` says.

    A socket's time-out begins anew with every byte, and looking up a name has none, so it takes a second thread to
    keep time. A call that overruns is left to itself; its socket's own time-out ends it.
    """
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:  # noqa: BLE001 - it is raised again on the other side
            outcome.set_exception(error)

    threading.Thread(target=run, name="synth-train request", daemon=True).start()
    try:
        return outcome.result(seconds)
    except concurrent.futures.TimeoutError:
        raise NoReply(Trouble.TIMED_OUT, f"after {round(seconds, 1):g} s", sent=overrun()) from None


def _checked(proxy: str | None) -> str | None:
    """`proxy`, if it is an address: of some that are none the library makes a TypeError."""
    if proxy is None:
        return None
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        _ = parts.port
        readable = bool(parts.hostname)
    except ValueError:
        readable = False
    if not readable:
        raise NoReply(Trouble.PROXY, "its address cannot be read", proxy=without_credentials(proxy), sent=False)
    return proxy


def _certificates(url: str) -> str | bool:
    """Whom to trust: the file or folder that the environment names, else the authorities that requests brings."""
    name = next((name for name in _CERTIFICATES if os.environ.get(name)), None)
    if name is None or not url.startswith("https:"):
        return True
    path = os.environ[name]
    if not Path(path).exists():
        raise NoReply(Trouble.TLS, f"{name} names {path}, which does not exist", sent=False)
    return path


def _content(response: requests.Response) -> tuple[bytes, bool]:
    content = bytearray()
    for block in response.iter_content(1 << 16):
        content += block
        if len(content) > LARGEST_REPLY:
            return bytes(content[:LARGEST_REPLY]), True
    return bytes(content), False


def _location(url: str, response: requests.Response) -> str | None:
    to = response.headers.get("Location")
    if response.status_code not in _REDIRECTS or not to:
        return None
    try:
        whole = without_credentials(urldefrag(urljoin(url, to)).url)
        same_origin(url, whole)
    except ValueError:
        return None
    return whole


def _no_reply(error: Exception, proxy: str | None, body: Body | None) -> NoReply:
    causes = list(_causes(error))
    trouble = _trouble(causes)
    detail = _words(causes)
    shown = without_credentials(proxy) if proxy else None
    if proxy:
        login = proxy.rpartition("://")[2].rpartition("@")[0]
        detail = redact(detail, [Secret(login.partition(":")[2])])
    unsent = trouble in (Trouble.NAME, Trouble.REFUSED, Trouble.TLS, Trouble.PROXY)
    return NoReply(trouble, detail, proxy=shown, sent=body.begun if body else not unsent)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and all that it wraps: as an argument (requests), as `reason` (urllib3) or as `__cause__`."""
    yield error
    wrapped = (getattr(error, "reason", None), *error.args, error.__cause__)
    for inner in dict.fromkeys(inner for inner in wrapped if isinstance(inner, BaseException)):
        yield from _causes(inner)


_TROUBLES: tuple[tuple[tuple[type[BaseException], ...], Trouble], ...] = (
    ((urllib3.exceptions.ProxyError, requests.exceptions.InvalidProxyURL), Trouble.PROXY),
    ((gaierror, urllib3.exceptions.NameResolutionError), Trouble.NAME),
    ((ConnectionRefusedError,), Trouble.REFUSED),
    ((ssl.SSLError, requests.exceptions.SSLError), Trouble.TLS),
    ((TimeoutError, urllib3.exceptions.TimeoutError, requests.Timeout), Trouble.TIMED_OUT),
    ((ConnectionError, urllib3.exceptions.IncompleteRead, requests.exceptions.ChunkedEncodingError), Trouble.RESET),
)


def _trouble(causes: list[BaseException]) -> Trouble:
    """The most telling of the causes, most telling first."""
    return next((trouble for kinds, trouble in _TROUBLES if any(isinstance(c, kinds) for c in causes)), Trouble.OTHER)


def _words(causes: list[BaseException]) -> str:
    """What the operating system or the TLS library says: the rest is a list of wrappers."""
    system = [c for c in causes if isinstance(c, OSError) and not isinstance(c, requests.RequestException)]
    last = system[-1] if system else causes[-1]
    if isinstance(last, ssl.SSLCertVerificationError):
        return last.verify_message
    if isinstance(last, BadStatusLine) and not isinstance(last, ConnectionError):
        return "what answers there does not speak HTTP"
    return (isinstance(last, OSError) and last.strerror) or str(last)


def _harmless(error: Exception) -> Exception:
    """The library's error as a cause, without the request, whose headers hold the key."""
    if isinstance(error, requests.RequestException):
        error.request = None
    return error
