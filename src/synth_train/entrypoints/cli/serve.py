"""`synth-ai serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from synth_train.adapters.user_paths import expanded
from synth_train.domain.model.backend_base import EMBEDDED
from synth_train.domain.model.errors import CredentialsError, LocalStateError, UsageError
from synth_train.domain.model.hosting import Owner, Refusal, owner_of
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import API_KEY
from synth_train.entrypoints.exit_codes import ExitCode
from synth_train.entrypoints.wiring import state_home
from synth_train.version import install_command

if TYPE_CHECKING:
    from synth_train.adapters.serving.server import Server
    from synth_train.entrypoints.cli.session import Session

TOKEN = "SYNTH_SERVE_TOKEN"
"""The variable that holds the key of the server."""

NEEDED = ("litestar", "uvicorn", "plotly")
"""What the extra `[serve]` brings."""

SHORTEST_KEY = 16
"""Characters. What is shorter can be guessed."""

PROGRAM: Sequence[str] = ()
"""What a worker runs; empty: the real one."""


def run(session: Session) -> int:
    """Serve the embedded backend until SIGTERM or Ctrl-C."""
    args, screen = session.args, session.screen
    _refuse_without(NEEDED, "serve")
    if not PROGRAM:
        from synth_train.adapters.local.backend import NEEDED as TRAINING

        _refuse_without(TRAINING, "local")
    keys = _given(args.token_file, os.environ)
    remote = not _is_this_machine(args.host)
    if remote and not args.expose:
        raise UsageError(
            f"--host {args.host} lets other machines in",
            hint="Add --expose if that is meant; the server speaks plain http, so put a proxy with TLS before it.",
        )
    if remote and not keys:
        raise CredentialsError(
            "other machines are let in only with a key that you choose",
            hint=f"Put one into a file for --token-file, or into {TOKEN}: openssl rand -hex 32",
        )
    server, minted = _server(args.host, args.port, keys, args.max_upload, log=_Log(session, verbose=args.verbose))
    screen.out(f"Serving on {server.url} (state in {_folder()})")
    if remote:
        screen.err(
            "keys and data go over the network in clear, unless a proxy with TLS stands before", label="warning:"
        )
    if minted is not None:
        screen.out(f"Key, shown this once: {minted.reveal()}")
        screen.out(f"Page: {server.url}/#key={minted.reveal()}")
        screen.out(f"Use it: export {API_KEY}=...; synth-ai train --backend {server.url} ...")
    else:
        screen.out(f"Page: {server.url}/")
    server.run()
    screen.out("Stopped. Workers go on with their jobs.")
    return ExitCode.OK


def _server(
    host: str, port: int, keys: tuple[Secret, ...], max_upload: int | None, *, log: _Log
) -> tuple[Server, Secret | None]:
    """The server, listening, and its key if one had to be made.

    Raises:
        UsageError: the port is taken.
        LocalStateError: the folder cannot be used.
    """
    from synth_train.adapters.dotenv_env import DotenvEnv
    from synth_train.adapters.local.backend import US
    from synth_train.adapters.local.home import LocalHome
    from synth_train.adapters.local.key_ring import KeyRing
    from synth_train.adapters.local.subprocess_executor import WORKER
    from synth_train.adapters.serving.embedded import hosting_in
    from synth_train.adapters.serving.own_key import own_key
    from synth_train.adapters.serving.server import Server, listening
    from synth_train.domain.usecases.hosting.files import LARGEST_FILE

    environ = {name: value for name, value in os.environ.items() if name != TOKEN}
    home = LocalHome(_folder())
    try:
        listener = listening(host, port)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}", hint="Choose another with --port."
        ) from error
    try:
        home.make()
        own, minted = own_key(home) if not keys else (None, None)
        hosting = hosting_in(
            home,
            KeyRing(environ, DotenvEnv(environ).read),
            owners=frozenset(map(owner_of, keys)) if own is None else frozenset({own}),
            aliases={} if own is None else {own: Owner(US)},
            largest=max_upload or LARGEST_FILE,
            program=PROGRAM or WORKER,
        )
        hosting.files.sweep()
    except Refusal as no:
        listener.close()
        raise LocalStateError(no.message, hint="SYNTH_AI_HOME chooses another folder.") from no
    return Server(hosting, listener, log=log, log_file=lambda job_id: home.job(job_id).log), minted


def _given(file: str | None, environ: Mapping[str, str]) -> tuple[Secret, ...]:
    """The keys that the server is to know: a line each in a file, else one in the environment.

    Raises:
        UsageError: the file cannot be read.
        CredentialsError: there is none in it, or one is too short.
    """
    if file is None:
        lines, where = [environ.get(TOKEN, "")], TOKEN
    else:
        try:
            lines, where = expanded(file).read_text(encoding="utf-8").splitlines(), file
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise UsageError(f"--token-file {file}: {why}") from error
    keys = tuple(Secret(line.strip()) for line in lines if line.strip())
    if file is not None and not keys:
        raise CredentialsError(f"{file} holds no key", hint="Write one into it, a line each: openssl rand -hex 32")
    for number, key in enumerate(keys, 1):
        text = key.reveal()
        if len(text) < SHORTEST_KEY or not text.isascii() or not text.isprintable() or " " in text:
            line = f"key {number} of {where}" if file else where
            raise CredentialsError(
                f"{line} must be at least {SHORTEST_KEY} letters and digits without blanks",
                hint="Make one with: openssl rand -hex 32",
            )
    return keys


def _is_this_machine(host: str) -> bool:
    """Whether nobody else can reach what listens there. The unspecified address listens everywhere."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _folder() -> Path:
    return state_home().absolute() / EMBEDDED


def _refuse_without(packages: Sequence[str], extra: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        old = ". They need Python 3.11 or newer." if extra == "local" and sys.version_info < (3, 11) else ""
        what = "The server needs the extras [serve] and [local]"
        raise UsageError(
            f"not installed: {', '.join(missing)}",
            hint=f"{what}. Install them with: {install_command('local,serve')}{old}",
        )


class _Log:
    """Requests when they are asked for, bugs always; on stderr."""

    def __init__(self, session: Session, *, verbose: bool) -> None:
        self._session = session
        self._verbose = verbose

    def __call__(self, text: str) -> None:
        if self._verbose or "\n" in text:
            for line in text.splitlines():
                self._session.screen.err(line)
