"""What a probe of a task app means."""

from __future__ import annotations

import pytest

from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import (
    Fault,
    Probe,
    TaskAppKeys,
    Trouble,
    health_fault,
    task_info_fault,
)

URL = "http://127.0.0.1:8001/health"


def probe(status: int, body: object = None, *, content_type: str = "application/json", excerpt: str = "") -> Probe:
    return Probe(url=URL, status=status, body=body, content_type=content_type, excerpt=excerpt)


def fault(found: Fault | None) -> Fault:
    assert found is not None
    assert URL in found.what
    assert found.remedy
    return found


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"healthy": True},
        {"ok": True, "status": "ok"},
        {"status": "healthy", "authorized": False, "expected_api_key_prefix": "abc"},
        {"status": 200},
        {"healthy": None},
    ],
)
def test_an_object_that_does_not_say_the_opposite_is_health(body: object) -> None:
    assert health_fault(probe(200, body)) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"healthy": False, "detail": "model not loaded"}, "healthy is false: model not loaded"),
        ({"ok": False}, "ok is false"),
        ({"status": "unhealthy", "detail": "db down"}, "status is 'unhealthy': db down"),
        ({"status": " Error "}, "status is"),
        ({"status": "DOWN"}, "status is"),
        ({"status": "failing"}, "status is"),
        ({"healthy": False, "status": "down"}, "healthy is false and status is 'down'"),
    ],
)
def test_an_object_that_says_so_is_no_health(body: object, said: str) -> None:
    found = fault(health_fault(probe(200, body)))

    assert "200" in found.what
    assert said in found.what
    assert not found.passing


def test_task_info_may_hold_any_words() -> None:
    assert task_info_fault(probe(200, {"status": "down", "healthy": False})) is None


@pytest.mark.parametrize("judge", [health_fault, task_info_fault])
@pytest.mark.parametrize("body", [None, [], "ok", 1])
def test_what_is_no_object_comes_from_another_program(judge: object, body: object) -> None:
    assert callable(judge)
    found = fault(judge(probe(200, body, content_type="text/html", excerpt="<title>Sign in</title>")))

    assert "no JSON object but text/html: <title>Sign in" in found.what
    assert "another program" in found.remedy


def test_a_body_without_a_type_is_not_given_one() -> None:
    assert fault(health_fault(probe(200, content_type=""))).what == f"GET {URL}: 200, but the reply is no JSON object"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    "body",
    [
        {"expected_api_key_prefix": "abcd"},
        {"detail": "Invalid key; Expected Prefix abcd"},
        {"detail": {"message": "expected prefix abcd"}},
    ],
)
def test_an_app_that_tells_which_key_it_wants_is_alive(status: int, body: object) -> None:
    assert health_fault(probe(status, body)) is None
    assert fault(task_info_fault(probe(status, body))).about_key


@pytest.mark.parametrize(
    "refused",
    [
        probe(401, {"detail": "bad key"}),
        probe(403, {"expected_api_key_prefix": "", "detail": "bad key"}),
        probe(401, excerpt="bad key"),
        probe(401, ["bad key"], excerpt='["bad key"]'),
        probe(400, {"detail": {"error": {"code": "unauthorised", "message": "bad key"}}}),
    ],
)
def test_a_key_that_is_refused_is_named(refused: Probe) -> None:
    found = fault(health_fault(refused))

    assert found.about_key
    assert not found.passing
    assert "bad key" in found.what
    assert "ENVIRONMENT_API_KEY" in found.remedy


def test_of_the_key_that_is_wanted_only_three_characters_are_told() -> None:
    found = fault(task_info_fault(probe(401, {"expected_api_key_prefix": "abcdefgh", "detail": "no"})))

    assert "begins with 'abc'" in found.remedy
    assert "abcd" not in found.remedy + found.what


def test_a_400_that_is_not_about_the_key_is_the_apps_own_trouble() -> None:
    assert not fault(health_fault(probe(400, {"detail": "bad request"}))).about_key


@pytest.mark.parametrize("status", [404, 405])
def test_a_missing_route_means_another_url(status: int) -> None:
    found = fault(task_info_fault(probe(status, {"detail": "not found"})))

    assert f"{status}: not found" in found.what
    assert "--task-url" in found.remedy
    assert not found.passing


@pytest.mark.parametrize(("status", "passing"), [(429, True), (500, True), (503, True), (302, False), (418, False)])
def test_only_some_statuses_are_worth_another_try(status: int, passing: bool) -> None:
    assert fault(health_fault(probe(status))).passing is passing


def test_an_app_without_a_key_of_its_own_must_be_started_again() -> None:
    found = fault(health_fault(probe(503, {"detail": {"error": {"code": "missing_environment_api_key"}}})))

    assert "itself has no ENVIRONMENT_API_KEY" in found.remedy
    assert not found.passing


@pytest.mark.parametrize("trouble", Trouble)
def test_every_trouble_has_a_remedy_of_its_own(trouble: Trouble) -> None:
    found = fault(health_fault(Probe(url=URL, trouble=trouble, detail="some words")))

    assert f"{trouble.value}: some words" in found.what
    assert found.passing is (trouble not in (Trouble.TLS, Trouble.REDIRECTS))
    others = [health_fault(Probe(url=URL, trouble=other)) for other in Trouble if other is not trouble]
    assert found.remedy not in [fault(other).remedy for other in others]


def test_what_an_app_says_is_shown_as_one_line_without_control_characters() -> None:
    found = fault(health_fault(probe(500, {"detail": "line one\nline \x1b[31mtwo"})))

    assert found.what.endswith("500: line one line [31mtwo")


def test_all_keys_are_the_key_and_then_its_aliases() -> None:
    key, alias = Secret("a-key-of-twenty-characters"), Secret("another-of-twenty-characters")

    assert TaskAppKeys(key, (alias,)).all == (key, alias)
