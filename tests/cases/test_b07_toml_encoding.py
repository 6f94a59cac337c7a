"""B07: a config with a byte-order mark, or not in UTF-8."""

from __future__ import annotations

import pytest

from cases.harness import Ran, Workspace

PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def dry_run(workspace: Workspace, config: str, env: dict[str, str]) -> Ran:
    workspace.put(f"B07/{config}", "common/train.jsonl")
    return workspace.run("train", "--config", config, "--dry-run", env=env)


@pytest.mark.parametrize("env", [{}, PLAIN_C], ids=["default-locale", "C-locale"])
def test_a_mark_and_windows_line_ends_change_nothing(workspace: Workspace, env: dict[str, str]) -> None:
    plain, bom, crlf = (dry_run(workspace, config, env) for config in ("plain.toml", "bom.toml", "crlf.toml"))

    assert (plain.code, bom.code, crlf.code) == (0, 0, 0), plain.err + bom.err + crlf.err
    assert plain.stdout.startswith(b'{"model":"Qwen/Qwen3-0.6B"')
    assert bom.stdout == plain.stdout
    assert crlf.stdout == plain.stdout


@pytest.mark.parametrize("env", [{}, PLAIN_C], ids=["default-locale", "C-locale"])
@pytest.mark.parametrize(
    ("config", "said"), [("latin1.toml", ("latin1.toml:3", "UTF-8")), ("utf16.toml", ("utf16.toml", "UTF-16"))]
)
def test_another_encoding_is_named_and_never_an_empty_config(
    workspace: Workspace, config: str, said: tuple[str, ...], env: dict[str, str]
) -> None:
    ran = dry_run(workspace, config, env)

    assert ran.code == 3
    for words in said:
        assert words in ran.err
    assert ran.out == ""
    for words in ("inferred", "model", "missing"):
        assert words not in ran.err.lower()
