"""The browser of whoever sits at this machine."""

from __future__ import annotations

import sys
import webbrowser

import pytest

from synth_train.adapters.system_browser import show


@pytest.mark.parametrize(
    ("platform", "environ", "opened"),
    [
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"BROWSER": "w3m"}, True),
        ("linux", {"TERM": "xterm"}, False),
        ("darwin", {}, True),
    ],
)
def test_a_browser_is_opened_where_there_is_a_screen_or_one_is_named(
    monkeypatch: pytest.MonkeyPatch, platform: str, environ: dict[str, str], opened: bool
) -> None:
    urls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not urls.append(url))  # type: ignore[func-returns-value]
    monkeypatch.setattr(sys, "platform", platform)
    assert show("http://h/#job=1", environ) is opened
    assert urls == (["http://h/#job=1"] if opened else [])


def test_a_browser_that_does_not_start_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert not show("http://h", {"DISPLAY": ":0"})
