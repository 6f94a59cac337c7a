"""Where requests go: one test for each row of wire-contract §1.1, and the URLs that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth_train.domain.model.backend_base import BackendBase, resolve_base
from synth_train.domain.model.errors import UsageError
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import EnvFile, Variables

IN_PROCESS = "the process environment"
ROWS = [
    ({}, "https://api.usesynth.ai", "default"),
    ({"BACKEND_BASE_URL": "https://a.test/api/"}, "https://a.test/api", f"BACKEND_BASE_URL in {IN_PROCESS}"),
    ({"BACKEND_OVERRIDE": "https://b.test"}, "https://b.test", f"BACKEND_OVERRIDE in {IN_PROCESS}"),
    (
        {"BACKEND_OVERRIDE": "https://b.test", "BACKEND_BASE_URL": "https://a.test"},
        "https://a.test",
        f"BACKEND_BASE_URL in {IN_PROCESS}",
    ),
    (
        {"SYNTH_BACKEND_URL_OVERRIDE": "local"},
        "http://localhost:8000",
        f"SYNTH_BACKEND_URL_OVERRIDE in {IN_PROCESS}",
    ),
    (
        {"SYNTH_BACKEND_URL_OVERRIDE": "Local", "LOCAL_BACKEND_URL": "http://127.0.0.1:9"},
        "http://127.0.0.1:9",
        f"LOCAL_BACKEND_URL in {IN_PROCESS}",
    ),
    (
        {"SYNTH_BACKEND_URL_OVERRIDE": "dev", "DEV_BACKEND_URL": ""},
        "http://localhost:8000",
        f"SYNTH_BACKEND_URL_OVERRIDE in {IN_PROCESS}",
    ),
    (
        {"SYNTH_BACKEND_URL_OVERRIDE": "DEV", "DEV_BACKEND_URL": "https://dev.test"},
        "https://dev.test",
        f"DEV_BACKEND_URL in {IN_PROCESS}",
    ),
    (
        {"SYNTH_BACKEND_URL_OVERRIDE": "prod"},
        "https://api.usesynth.ai",
        f"SYNTH_BACKEND_URL_OVERRIDE in {IN_PROCESS}",
    ),
    ({"PROD_BACKEND_URL": "https://prod.test"}, "https://prod.test", f"PROD_BACKEND_URL in {IN_PROCESS}"),
    ({"LOCAL_BACKEND_URL": "http://127.0.0.1:9"}, "https://api.usesynth.ai", "default"),
]


@pytest.mark.parametrize(("process", "base", "source"), ROWS)
def test_the_variables_decide_in_the_order_of_the_contract(process: dict[str, str], base: str, source: str) -> None:
    assert resolve_base(None, Variables(process=process)) == BackendBase(base=base, source=source)


def test_the_option_beats_every_variable() -> None:
    variables = Variables(process={"BACKEND_BASE_URL": "https://a.test"})

    assert resolve_base("https://o.test//", variables) == BackendBase(base="https://o.test", source="--backend")


def test_another_word_for_the_mode_means_prod_and_is_said() -> None:
    chosen = resolve_base(None, Variables(process={"SYNTH_BACKEND_URL_OVERRIDE": "staging"}))

    assert chosen.base == "https://api.usesynth.ai"
    assert chosen.notes == (
        "SYNTH_BACKEND_URL_OVERRIDE in the process environment is none of local, dev, prod; it is taken as prod.",
    )


def test_a_file_that_was_found_by_itself_does_not_decide() -> None:
    found = EnvFile(path=Path("/repo/.env"), values={"BACKEND_BASE_URL": "https://elsewhere.test"})

    passed_over = resolve_base(None, Variables(files=(found,)))
    named = resolve_base(None, Variables(files=(found,), named=True))

    assert passed_over.base == "https://api.usesynth.ai"
    assert passed_over.notes == (
        "BACKEND_BASE_URL in /repo/.env is not used: a file that was found by itself does not decide where keys are "
        "sent. Name the file with --env-file to use it.",
    )
    assert named == BackendBase(base="https://elsewhere.test", source="BACKEND_BASE_URL in /repo/.env")


@pytest.mark.parametrize("option", ["local", " Local "])
def test_local_is_the_embedded_backend_when_the_option_says_it(option: str) -> None:
    chosen = resolve_base(option, Variables())

    assert (chosen.base, chosen.embedded) == ("local", True)
    assert not resolve_base("http://localhost:8000", Variables()).embedded


def test_local_in_a_variable_is_no_url() -> None:
    with pytest.raises(UsageError, match="BACKEND_BASE_URL in the process environment: 'local' ") as caught:
        resolve_base(None, Variables(process={"BACKEND_BASE_URL": "local"}))

    assert caught.value.hint == "Only --backend local means the embedded backend."


@pytest.mark.parametrize("option", ["", "  "])
def test_an_empty_option_is_a_usage_error(option: str) -> None:
    with pytest.raises(UsageError, match="--backend is empty"):
        resolve_base(option, Variables(process={"BACKEND_BASE_URL": "https://a.test"}))


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("api.usesynth.ai", "Write https://api.usesynth.ai, or local for the embedded backend."),
        ("localhost:8000/api", "Write http://localhost:8000/api, or local for the embedded backend."),
        ("ftp://a.test", "A base looks like https://api.usesynth.ai."),
        ("https://", "A base looks like https://api.usesynth.ai."),
        ("https://a.test:port", "A base looks like https://api.usesynth.ai."),
        ("https://[::1", "A base looks like https://api.usesynth.ai."),
        ("https://a b.test", "A base looks like https://api.usesynth.ai."),
        ("https://a.test/\x1b[0m", "A base looks like https://api.usesynth.ai."),
        ("https://a.test/?x=1", "A base looks like https://api.usesynth.ai."),
        ("https://a.test/#top", "A base looks like https://api.usesynth.ai."),
    ],
)
def test_what_is_no_base_is_refused_with_a_remedy(text: str, remedy: str) -> None:
    with pytest.raises(UsageError, match="--backend: '") as caught:
        resolve_base(text, Variables())

    assert caught.value.hint == remedy
    assert "\x1b" not in str(caught.value)


def test_the_remedy_for_a_variable_does_not_speak_of_the_embedded_backend() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_base(None, Variables(process={"BACKEND_OVERRIDE": "a.test"}))

    assert caught.value.hint == "Write https://a.test."


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.8.9.1", "[::1]"])
def test_plain_http_is_for_loopback(host: str) -> None:
    assert resolve_base(f"http://{host}:8000/api", Variables()).source == "--backend"


@pytest.mark.parametrize("host", ["a.test", "10.0.0.1", "localhost.a.test", "[2001:db8::1]"])
def test_plain_http_elsewhere_needs_leave(host: str) -> None:
    with pytest.raises(UsageError, match="would send the key unencrypted") as caught:
        resolve_base(f"http://{host}", Variables())

    assert "--insecure-http" in caught.value.hint
    assert resolve_base(f"http://{host}", Variables(), insecure_http=True).base == f"http://{host}"


def test_a_sign_in_inside_the_url_is_left_out_and_said() -> None:
    chosen = resolve_base("https://user:fake-url-password@a.test/api/", Variables())

    assert chosen.base == "https://a.test/api"
    assert chosen.password == Secret("fake-url-password")
    assert chosen.notes == ("--backend: the sign-in inside the URL is not used; SYNTH_API_KEY is sent.",)
    assert "fake-url" not in repr(chosen)


def test_an_at_sign_in_the_path_is_no_sign_in() -> None:
    assert resolve_base("https://a.test/@team", Variables()) == BackendBase(
        base="https://a.test/@team", source="--backend"
    )


@pytest.mark.parametrize(
    "text",
    [
        "user:fake-url-password@a.test",
        "http://user:fake-url-password@a.test",
        "https://user:fake-/url-password@a.test",
        "https://user:fake-?url-password@a.test",
        "https://user:fake-#url-password@a.test",
        "https://a.test/?key=fake-url-password",
    ],
)
def test_a_refusal_shows_no_password_and_no_query(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_base(text, Variables())

    said = str(caught.value) + caught.value.hint
    assert "a.test" in said
    assert "fake" not in said
    assert "url-password" not in said
