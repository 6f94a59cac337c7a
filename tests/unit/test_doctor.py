"""What the doctor finds, over backends, task apps and machines in memory."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryBackends
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.machine import FixedMachine
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.domain.model.checkup import Finding, Outcome
from synth_train.domain.model.errors import BackendUnreachable, KeyRefused, NotOffered, UsageError
from synth_train.domain.model.jobs import Features
from synth_train.domain.model.secret import Secret
from synth_train.domain.usecases.doctor import Doctor

KEY, ENVIRONMENT = "sk-in-memory-qvzjxkwy", "q7vzhk3x9pwmtj5dbnrswxyz"
BASE, URL = "https://backend.example", "https://task.example"


class Practice:
    """A doctor, and the patient."""

    def __init__(self) -> None:
        self.backend = InMemoryBackend(api_key=Secret(KEY))
        self.backends = InMemoryBackends(self.backend)
        self.env = InMemoryEnv({"SYNTH_API_KEY": KEY, "ENVIRONMENT_API_KEY": ENVIRONMENT, "TASK_APP_URL": URL})
        self.task_app = InMemoryTaskApp(keys={Secret(ENVIRONMENT)})
        self.machine = FixedMachine()

    def __call__(self, **options: Any) -> list[Finding]:
        doctor = Doctor(
            env=self.env,
            prompt=ScriptedPrompt(),
            backends=self.backends,
            task_app=self.task_app,
            machine=self.machine,
        )
        given = {"backend": BASE, "env_files": (), "task_url": None, "insecure_http": False, "devices": False}
        return list(doctor(**given | options))

    def of(self, rule: str, **options: Any) -> list[Finding]:
        return [finding for finding in self(**options) if finding.rule == rule]

    def the(self, rule: str, **options: Any) -> Finding:
        [finding] = self.of(rule, **options)
        return finding


@pytest.fixture
def practice() -> Practice:
    return Practice()


def test_where_all_is_well_every_point_is(practice: Practice) -> None:
    findings = practice()
    assert [finding.rule for finding in findings if finding.outcome not in (Outcome.OK, Outcome.SKIPPED)] == []
    assert [finding.rule for finding in findings] == [
        "versions",
        "env-files",
        "synth-api-key",
        "environment-api-key",
        "backend",
        "account",
        "proxy",
        "certificates",
        "task-app",
        "home",
        "disk",
        "local-training",
    ]
    assert KEY not in repr(findings)
    assert ENVIRONMENT not in repr(findings)


def test_versions_name_what_is_installed(practice: Practice) -> None:
    assert practice.the("versions").what == "synth-train 1.0; Python 3.11.7 on Linux 6.1 x86_64"


def test_keys_are_masked_and_their_places_told(practice: Practice) -> None:
    assert practice.the("synth-api-key").what == "sk-...kwy (SYNTH_API_KEY in the process environment)"
    practice.env = InMemoryEnv({})
    file = practice.env.put(".env", {"SYNTH_API_KEY": KEY})
    assert practice.the("synth-api-key", env_files=(file,)).what == "sk-...kwy (SYNTH_API_KEY in /repo/.env)"
    assert practice.the("env-files", env_files=(file,)).what == "/repo/.env"


def test_lines_that_cannot_be_read_are_warned_of(practice: Practice) -> None:
    file = practice.env.put(".env", unreadable_lines=(3,))
    _, warning = practice.of("env-files", env_files=(file,))
    assert (warning.outcome, warning.what) == (Outcome.WARNING, "/repo/.env:3 cannot be read and is passed over")


def test_missing_keys_are_warnings_with_what_they_are_for(practice: Practice) -> None:
    practice.env = InMemoryEnv({"TASK_APP_URL": URL})
    assert practice.the("synth-api-key").what == "not set; the hosted backend asks for it"
    assert "`train` mints one" in practice.the("environment-api-key").what
    assert practice.the("account").outcome is Outcome.SKIPPED
    assert practice.the("task-app").what.startswith(f"{URL} (from TASK_APP_URL in the process environment) was not")


def test_a_key_that_no_header_can_hold_is_a_failure(practice: Practice) -> None:
    practice.env = InMemoryEnv(
        {"SYNTH_API_KEY": "a\u200bkey", "ENVIRONMENT_API_KEY": "b\u200bkey", "TASK_APP_URL": URL}
    )
    for rule in ("synth-api-key", "environment-api-key", "task-app"):
        finding = practice.the(rule)
        assert (finding.outcome, finding.remedy != "") == (Outcome.FAILED, True)
        assert "cannot be sent in an HTTP header" in finding.what


def test_the_backend_is_named_with_where_it_comes_from_and_its_api_root(practice: Practice) -> None:
    class Below(InMemoryBackend):
        def features(self) -> Features:
            return Features(base=f"{self.base}/api")

    practice.backends = InMemoryBackends(Below(api_key=Secret(KEY)))
    assert practice.the("backend").what == f"{BASE} answers, API root {BASE}/api (from --backend)"
    assert practice.the("backend", backend=None).what.endswith("(from the default)")


def test_what_is_strange_about_the_base_is_a_warning(practice: Practice) -> None:
    _, warning = practice.of("backend", backend="https://user:pass@backend.example")
    assert (warning.outcome, "sign-in" in warning.what) == (Outcome.WARNING, True)


@pytest.mark.parametrize("base", ["nowhere", "http://backend.example"])
def test_a_base_that_cannot_be_is_a_failure(practice: Practice, base: str) -> None:
    finding = practice.the("backend", backend=base)
    assert (finding.outcome, finding.remedy != "") == (Outcome.FAILED, True)
    assert practice.of("account", backend=base) == []


def test_a_backend_that_does_not_answer_is_a_failure(practice: Practice) -> None:
    practice.backend.fail_next("features", BackendUnreachable("refused", hint="Start it."))
    finding = practice.the("backend")
    assert (finding.outcome, finding.what, finding.remedy) == (Outcome.FAILED, "refused", "Start it.")


def test_a_backend_that_cannot_be_had_at_all_is_a_failure(practice: Practice) -> None:
    class Bare(InMemoryBackends):
        def connect(self, base: str, api_key: Secret | None) -> InMemoryBackend:
            raise UsageError("torch is not installed", hint="Install it.")

    practice.backends = Bare()
    assert practice.the("backend", backend="local").remedy == "Install it."


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KeyRefused("401", hint="Check it."), Outcome.FAILED),
        (NotOffered("404", status=404), Outcome.SKIPPED),
        (BackendUnreachable("cut"), Outcome.WARNING),
    ],
)
def test_the_key_is_tried_on_a_list_of_jobs(practice: Practice, error: Exception, outcome: Outcome) -> None:
    assert practice.the("account").what == "it takes the key"
    practice.backend.fail_next("list_jobs", error)
    assert practice.the("account").outcome is outcome


def test_the_embedded_backend_needs_no_key(practice: Practice) -> None:
    class Embedded(InMemoryBackends):
        def connect(self, base: str, api_key: Secret | None) -> InMemoryBackend:
            super().connect(base, api_key)
            return practice.backend

    practice.backends = Embedded()
    assert practice.the("account", backend="local").what == "it needs no key"
    assert practice.backends.connected == [("local", None)]


def test_proxies_and_certificates_are_told(practice: Practice) -> None:
    practice.machine.facts = replace(
        practice.machine.facts,
        proxies={"HTTPS_PROXY": "http://proxy:3128"},
        certificates={"SSL_CERT_FILE=/a.pem": True, "CURL_CA_BUNDLE=/b.pem": False},
    )
    assert practice.the("proxy").what == "HTTPS_PROXY=http://proxy:3128; loopback hosts are asked directly"
    good, bad = practice.of("certificates")
    assert (good.outcome, good.what) == (Outcome.OK, "SSL_CERT_FILE=/a.pem")
    assert (bad.outcome, bad.what) == (Outcome.FAILED, "CURL_CA_BUNDLE=/b.pem does not exist")
    assert bad.remedy == "Unset CURL_CA_BUNDLE, or name a file that is there."


def test_the_task_app_is_probed(practice: Practice) -> None:
    assert practice.the("task-app").what == f"{URL} is healthy (from TASK_APP_URL in the process environment)"
    assert practice.the("task-app", task_url="https://other.example").what.endswith("(from --task-url)")
    practice.task_app.replies["task_info"] = (500, {"detail": "boom"})
    assert practice.the("task-app").outcome is Outcome.FAILED
    practice.task_app.keys = set()
    finding = practice.the("task-app")
    assert (finding.outcome, "Set ENVIRONMENT_API_KEY" in finding.remedy) == (Outcome.FAILED, True)


def test_without_a_url_there_is_no_task_app_to_probe(practice: Practice) -> None:
    practice.env = InMemoryEnv({"SYNTH_API_KEY": KEY})
    assert practice.the("task-app").outcome is Outcome.SKIPPED


def test_a_full_disk_and_a_closed_folder_are_told(practice: Practice) -> None:
    practice.machine.facts = replace(practice.machine.facts, free_disk=1_500_000_000, home_fault="read-only")
    assert (practice.the("disk").outcome, practice.the("disk").what) == (Outcome.WARNING, "1.5 GB free")
    assert practice.the("home").outcome is Outcome.FAILED


def test_training_here_needs_torch_and_devices_are_looked_for_on_request(practice: Practice) -> None:
    facts = practice.machine.facts
    practice.machine.facts = replace(facts, training_lacks=("trl", "peft"), training_remedy="pip install it")
    missing = practice.the("local-training")
    assert missing.outcome is Outcome.SKIPPED
    assert missing.what.startswith("not installed: trl, peft; so --backend local takes no jobs;")
    assert missing.remedy == "With Python 3.11 or newer: pip install it"
    practice.machine.facts = replace(facts, training_lacks=(), devices=("cuda:0 (X)", "cpu"))
    assert practice.the("local-training").what == "torch is installed, 8 cores"
    assert practice.the("local-training", devices=True).what == "on cuda:0 (X), cpu; 8 cores"
