"""The preflight of an RL job: is the task app there, and can the backend use it (design §3, wire-contract §2.1)?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from synth_train.domain.model.addresses import address
from synth_train.domain.model.errors import NotOffered, TaskAppUnhealthy
from synth_train.domain.model.jobs import Verification
from synth_train.domain.model.moments import Noted, TaskAppHealthy, TaskAppVerified
from synth_train.domain.model.secret import redact
from synth_train.domain.model.showing import plain
from synth_train.domain.model.task_app import Fault, Probe, TaskAppKeys, health_fault, task_info_fault
from synth_train.domain.usecases.retries import retried
from synth_train.ports.backend import Backend
from synth_train.ports.clock import ClockPort
from synth_train.ports.patience import PatiencePort, RetryPolicy
from synth_train.ports.progress import ProgressPort
from synth_train.ports.task_app import PROBE_TIME, TaskAppPort

PROBES_TIME = 30.0
"""Seconds for all probes of an app together (design §4, Retries)."""

ATTEMPTS = 3

MOST_ALONE = 6
"""Keys that are tried alone once the app has refused them together."""

LONGEST_REPORT = 500
"""Characters of the backend's report that a message shows."""

_KEY_REFUSED = (400, 401, 403)
_SHORTEST_PROBE = 1.0
"""Seconds that a probe is given even when the time for all of them is nearly over."""


class CheckTaskApp(Struct, frozen=True, kw_only=True):
    """Check one task app, for the backend that will call it."""

    backend: Backend
    task_app: TaskAppPort
    patience: PatiencePort
    clock: ClockPort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def __call__(self, task_url: str, keys: TaskAppKeys, *, publish: Callable[[], None] | None = None) -> None:
        """Return when the backend and we ourselves have found the app healthy.

        Args:
            publish: uploads our environment key to the backend. Called once at most: when the app accepts it and none
                that the backend holds.

        Raises:
            TaskAppUnhealthy: one of both has not; with what was asked, what came back, and what to do.
            BackendError, KeyRefused: the backend could not be asked, or did not take the key.
        """
        verification = self._verified(task_url)
        if verification is not None and verification.ok:
            self._tell_verified(verification)
        key_fits = self._probed(task_url, keys)
        if verification is not None and not verification.ok:
            if publish is not None and key_fits and all(status in _KEY_REFUSED for status in verification.statuses):
                verification = self._verified_with_our_key(task_url, keys, publish) or verification
            if not verification.ok:
                raise self._unverified(task_url, keys, verification)
            self._tell_verified(verification)
        self.progress.tell(TaskAppHealthy(task_url=task_url))

    # -- the backend's look

    def _verified(self, task_url: str) -> Verification | None:
        """What the backend has found; None when it does not look."""
        try:
            return retried(
                lambda: self.backend.verify_task_app(task_url),
                what="let the backend verify the task app",
                patience=self.patience,
                progress=self.progress,
            )
        except NotOffered:
            far = _out_of_reach(task_url, self.backend.base)
            text = "this backend does not verify task apps; what counts is our own look alone"
            self.progress.tell(Noted(text=f"{text}. {far}" if far else text, warning=bool(far)))
            return None

    def _verified_with_our_key(
        self, task_url: str, keys: TaskAppKeys, publish: Callable[[], None]
    ) -> Verification | None:
        try:
            publish()
        except NotOffered:
            return None
        mask = keys.primary.mask
        text = f"The backend had no key that the task app accepts; ENVIRONMENT_API_KEY {mask} was uploaded."
        self.progress.tell(Noted(text=text))
        return self._verified(task_url)

    def _tell_verified(self, verification: Verification) -> None:
        self.progress.tell(TaskAppVerified(candidates=verification.candidates, statuses=verification.statuses))

    def _unverified(self, task_url: str, keys: TaskAppKeys, verification: Verification) -> TaskAppUnhealthy:
        report = plain(redact(verification.report, keys.all), longest=LONGEST_REPORT)
        return TaskAppUnhealthy(
            f"the backend {self.backend.base} cannot use the task app at {task_url}, which answers us well "
            f"(candidates={verification.candidates}, statuses={list(verification.statuses)}): {report}",
            hint=_out_of_reach(task_url, self.backend.base) or _remedy(verification),
        )

    # -- our own look

    def _probed(self, task_url: str, keys: TaskAppKeys) -> bool:
        """Ask both routes. Tells whether the app was seen to accept our key."""
        deadline = self.clock.monotonic() + PROBES_TIME
        health = self._asked(self.task_app.health, health_fault, task_url, keys, deadline)
        self._asked(self.task_app.task_info, task_info_fault, task_url, keys, deadline)
        return health.status == 200 and not (isinstance(health.body, dict) and health.body.get("authorized") is False)

    def _asked(self, ask: _Ask, fault_of: _FaultOf, task_url: str, keys: TaskAppKeys, deadline: float) -> Probe:
        def once() -> Probe:
            left = deadline - self.clock.monotonic()
            probe = ask(task_url, keys, within=max(_SHORTEST_PROBE, min(PROBE_TIME, left)))
            fault = fault_of(probe)
            if fault is not None:
                raise _Faulty(fault)
            return probe

        try:
            return retried(
                once,
                what="look at the task app",
                patience=self.patience,
                progress=self.progress,
                policy=RetryPolicy(attempts=ATTEMPTS, total=deadline - self.clock.monotonic()),
                again=lambda error: isinstance(error, _Faulty) and error.fault.passing,
            )
        except _Faulty as error:
            what, remedy = f"task app not healthy: {error.fault.what}", error.fault.remedy
            if error.fault.about_key:
                what += f" (asked with {', '.join(key.mask for key in keys.all)})"
                remedy = self._fitting(ask, fault_of, task_url, keys) or remedy
            raise TaskAppUnhealthy(what, hint=remedy) from None

    def _fitting(self, ask: _Ask, fault_of: _FaultOf, task_url: str, keys: TaskAppKeys) -> str:
        """Try each of several keys alone, for apps that look at one header only; what to do if one of them fits."""
        for key in keys.all[:MOST_ALONE] if keys.aliases else ():
            if fault_of(ask(task_url, TaskAppKeys(key), within=PROBE_TIME)) is None:
                name = "ENVIRONMENT_API_KEY" if key == keys.primary else "one of ENVIRONMENT_API_KEY_ALIASES"
                return (
                    f"The task app accepts {key.mask} ({name}) when it is sent alone: set ENVIRONMENT_API_KEY to that "
                    "key, and unset ENVIRONMENT_API_KEY_ALIASES."
                )
        return ""


class _Ask(Protocol):
    def __call__(self, task_url: str, keys: TaskAppKeys, *, within: float) -> Probe: ...


_FaultOf = Callable[[Probe], "Fault | None"]


class _Faulty(Exception):
    """A probe is no sign of health. Never leaves this module."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


def _remedy(verification: Verification) -> str:
    """What to do about a verification that fails although the app answers us well."""
    statuses = verification.statuses
    if not statuses and not verification.candidates:
        return "The backend seems to hold no ENVIRONMENT_API_KEY for this account: store the one of the task app there."
    if all(status in _KEY_REFUSED for status in statuses):
        return (
            "None of the keys that the backend holds opens the task app: start it with the key that is stored there, "
            "or store the key that it has."
        )
    return "The backend must reach the task app itself: check that its URL is public, and see the task app's own log."


def _out_of_reach(task_url: str, base: str) -> str:
    """Why the backend cannot reach that URL at all, and what to do; empty when it may. `local` reaches everything."""
    try:
        app, backend = address(task_url), address(base)
    except ValueError:
        return ""
    if not (app.loopback and not backend.loopback) and not (app.private and not backend.private):
        return ""
    where = "this machine" if app.loopback else "this network"
    return (
        f"{app.host} is an address of {where}, which a backend elsewhere cannot reach: give the task app a public "
        "address, say by a tunnel such as cloudflared or ngrok, and name it with --task-url; or train here with "
        "--backend local."
    )
