"""Probes of a task app over HTTP (wire-contract §2.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from synth_train.adapters.http.reading import decoded, excerpt
from synth_train.adapters.http.session import NoReply, Reply, Session
from synth_train.domain.model.addresses import address, without_credentials
from synth_train.domain.model.secret import Secret, redact
from synth_train.domain.model.showing import plain
from synth_train.domain.model.task_app import Probe, TaskAppKeys, Trouble
from synth_train.ports.task_app import PROBE_TIME, TaskAppDialogue, TaskAppPort

MOST_REDIRECTS = 3

_IN_A_HEADER = re.compile(r"[\x20-\x7e]+")


class HttpTaskApp(TaskAppPort, TaskAppDialogue):
    """TaskAppPort and TaskAppDialogue over HTTP."""

    def __init__(self) -> None:
        self._session = Session()

    def health(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        return self.ask("GET", task_url, "health", keys, within=within)

    def task_info(self, task_url: str, keys: TaskAppKeys, *, within: float = PROBE_TIME) -> Probe:
        return self.ask("GET", task_url, "task_info", keys, within=within)

    def ask(
        self,
        method: str,
        task_url: str,
        route: str,
        keys: TaskAppKeys | None,
        *,
        body: bytes | None = None,
        within: float,
        hidden: Sequence[Secret] = (),
    ) -> Probe:
        try:
            app = address(task_url)
        except ValueError as reason:
            return _failed(plain(without_credentials(task_url)), Trouble.OTHER, f"the task URL {reason}")
        url = f"{app.url}/{route}"
        sent = keys.all if keys is not None else ()
        if not all(_IN_A_HEADER.fullmatch(key.reveal()) for key in sent):
            return _failed(url, Trouble.OTHER, "ENVIRONMENT_API_KEY or an alias has characters that no header can hold")
        secrets = (*sent, *hidden, *([app.password] if app.password else []))
        headers = _headers(keys)
        try:
            if method == "GET":
                reply = self._session.get(url, headers, within=within, redirects=MOST_REDIRECTS)
            else:
                headers["Content-Type"] = "application/json"
                reply = self._session.post(url, headers, body or b"", within=within)
        except NoReply as error:
            through = f", through the proxy {error.proxy}" if error.proxy else ""
            return _failed(url, error.trouble, plain(redact(f"{error.detail}{through}".lstrip(", "), secrets)))
        if reply.location is not None:
            return _failed(url, Trouble.REDIRECTS, plain(redact(f"{reply.status} to {reply.location}", secrets)))
        return _read(reply, url, secrets)


def _headers(keys: TaskAppKeys | None) -> dict[str, str]:
    if keys is None:
        return {"Accept": "application/json"}
    primary = keys.primary.reveal()
    return {
        "Accept": "application/json",
        "Authorization": f"Bearer {primary}",
        "X-API-Key": primary,
        "X-API-Keys": ",".join(key.reveal() for key in keys.all),
    }


def _failed(url: str, trouble: Trouble, detail: str) -> Probe:
    return Probe(url=url, trouble=trouble, detail=detail)


def _read(reply: Reply, url: str, secrets: tuple[Secret, ...]) -> Probe:
    try:
        body = decoded(reply.content, secrets)
    except ValueError:
        body = None
    return Probe(
        url=url,
        status=reply.status,
        content_type=plain(redact(reply.content_type, secrets)),
        body=body,
        excerpt=excerpt(reply.content, secrets),
    )
