"""Hold a task app against the contract, rule by rule, as a trainer would use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from synth_train.domain.model import task_app_rules as rules
from synth_train.domain.model.addresses import address
from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.scripted_policy import Asked
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.showing import plain
from synth_train.domain.model.task_app import Probe, TaskAppKeys
from synth_train.domain.model.task_app_rules import Rollout
from synth_train.ports.clock import ClockPort
from synth_train.ports.entropy import EntropyPort
from synth_train.ports.policy import PolicyPort, ServedPolicy
from synth_train.ports.task_app import PROBE_TIME, TaskAppDialogue

SEEDS = tuple(range(10))
"""An app has to answer for at least ten seeds, from 0 on (wire-contract §7.2)."""


class Inspection(Struct, frozen=True, kw_only=True):
    """What came of it."""

    findings: tuple[Finding, ...]
    seconds: float | None
    """How long the first rollout took, with a policy that answers at once; None when there was none."""

    @property
    def ok(self) -> bool:
        """Whether no rule is broken; warnings and what was left out do not count."""
        return all(finding.outcome is not Outcome.FAILED for finding in self.findings)


class InspectTaskApp(Struct, frozen=True, kw_only=True):
    """Built once with its ports; inspects one app at a time."""

    app: TaskAppDialogue
    policy: PolicyPort
    clock: ClockPort
    entropy: EntropyPort

    def __call__(
        self,
        task_url: str,
        keys: TaskAppKeys,
        *,
        tell: Callable[[Finding], None],
        section: Mapping[str, Any] | None = None,
        rollout_time: float = 120.0,
    ) -> Inspection:
        """Everything found, also told one by one.

        Args:
            keys: those that the app should accept.
            section: the `[rollout]` of a config, for apps that need a name or a config of theirs.
            rollout_time: seconds that a rollout may take.

        Raises:
            UsageError: `task_url` is no http(s) URL.
        """
        try:
            host = address(task_url)
        except ValueError as error:
            raise UsageError(
                f"the task URL {plain(task_url)!r} {error}", hint="It looks like http://127.0.0.1:8001."
            ) from None
        look = _Look(self, task_url, keys, tell, section or {}, rollout_time)
        look.routes()
        if not look.reachable:
            return look.done()
        if host.loopback:
            look.rollouts()
        else:
            look.add(
                rules.skipped(
                    "rollout",
                    "the policy that answers for the model is on this machine's loopback, out of the app's reach",
                    "Run the check on the machine of the task app, with a URL like http://127.0.0.1:8001.",
                )
            )
        return look.done()


class _Look:
    """One inspection under way."""

    def __init__(
        self,
        ports: InspectTaskApp,
        task_url: str,
        keys: TaskAppKeys,
        tell: Callable[[Finding], None],
        section: Mapping[str, Any],
        rollout_time: float,
    ) -> None:
        self._ports = ports
        self._task_url = task_url
        self._keys = keys
        self._wrong = TaskAppKeys(Secret(f"wrong-{ports.entropy.token(16)}"))
        self._tell = tell
        self._section = section
        self._rollout_time = rollout_time
        self._findings: list[Finding] = []
        self._seconds: float | None = None
        self.reachable = True

    def add(self, finding: Finding) -> None:
        self._findings.append(finding)
        self._tell(finding)

    def done(self) -> Inspection:
        return Inspection(findings=tuple(self._findings), seconds=self._seconds)

    def routes(self) -> None:
        """What can be had by GET, and by whom."""
        health = self._get("health")
        self.add(rules.healthy(health))
        if health.trouble is not None:
            self.reachable = False
            return
        refusals = [self._get_as(keys, "health") for keys in (None, self._wrong)]
        for who, probe in zip(("no-key", "wrong-key"), refusals, strict=True):
            self.add(rules.keeps_out(f"health-{who}", probe, open_to_all=True))
        self.add(rules.open_to_all(self._get_as(None, "")))
        self.add(rules.describes_itself(self._get("info")))
        self.add(rules.describes("task-info", self._get("task_info")))
        strangers = [self._get_as(keys, "task_info") for keys in (None, self._wrong)]
        for who, probe in zip(("no-key", "wrong-key"), strangers, strict=True):
            self.add(rules.keeps_out(f"task-info-{who}", probe))
        self.add(rules.keeps_its_key(self._keys, [*refusals, *strangers]))
        self.add(rules.tells_an_instance(self._get("task_info?seed=3")))
        query = "&".join(f"seed={seed}" for seed in SEEDS)
        self.add(rules.tells_instances(self._get(f"task_info?{query}"), SEEDS))

    def rollouts(self) -> None:
        """What a trainer asks for, with a policy that answers for the model."""
        with self._ports.policy.serving() as policy:
            self.add(rules.keeps_out("rollout-no-key", self._play(self._rollout(policy, "stranger"), None)))
            first = self._rollout(policy, "first")
            began = self._ports.clock.monotonic()
            probe = self._play(first, self._keys)
            self._seconds = self._ports.clock.monotonic() - began
            for finding in rules.played(first, probe, _asked(policy, first)):
                self.add(finding)
            if rules.answers("rollout", probe).outcome is not Outcome.OK:
                return
            self.add(rules.repeatable(probe, self._play(first, self._keys)))
            for form in ("v1", "whole"):
                rollout = self._rollout(policy, form, form=form, seed=1)
                self._play(rollout, self._keys)
                self.add(rules.completions_path(rollout, _asked(policy, rollout)))
            evaluation = self._rollout(policy, "eval", mode="eval", cid="")
            self.add(rules.answers("eval-without-correlation-id", self._play(evaluation, self._keys)))
            self.add(rules.needs_correlation_id(self._play(self._rollout(policy, "nameless", cid=""), self._keys)))
            self.add(rules.survives(self._play(self._rollout(policy, "failing"), self._keys)))
        done = self._ports.app.ask("POST", self._task_url, "done", self._keys, body=b"{}", within=PROBE_TIME)
        self.add(rules.describes("done", done))

    def _get(self, route: str) -> Probe:
        return self._get_as(self._keys, route)

    def _get_as(self, keys: TaskAppKeys | None, route: str) -> Probe:
        return self._ports.app.ask("GET", self._task_url, route, keys, within=PROBE_TIME, hidden=self._keys.all)

    def _rollout(
        self,
        policy: ServedPolicy,
        name: str,
        *,
        cid: str | None = None,
        mode: str = "rl",
        form: str = "plain",
        seed: int = 0,
    ) -> Rollout:
        return Rollout(
            run_id=f"check-{name}-{self._ports.entropy.token(8)}",
            cid=f"cid-{self._ports.entropy.token(8)}" if cid is None else cid,
            policy_url=f"{policy.url}/{name}",
            mode=mode,
            form=form,
            seed=seed,
            section=self._section,
        )

    def _play(self, rollout: Rollout, keys: TaskAppKeys | None) -> Probe:
        return self._ports.app.ask(
            "POST",
            self._task_url,
            "rollout",
            keys,
            body=rollout.body,
            within=self._rollout_time,
            hidden=self._keys.all,
        )


def _asked(policy: ServedPolicy, rollout: Rollout) -> list[Asked]:
    """What the policy was asked in a rollout: its path begins with that of the rollout's URL."""
    begins = urlsplit(rollout.policy_url).path
    return [one for one in policy.asked() if one.path == begins or one.path.startswith(f"{begins}/")]
