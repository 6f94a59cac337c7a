"""Completion scripts, as the shells take them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.commands import CommandLine


@pytest.fixture
def synth_ai(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_every_command_and_option(synth_ai: CommandLine, shell: str) -> None:
    ran = synth_ai("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    for word in ("train", "jobs", "doctor", "task-app", "stream-format", "idempotency"):
        assert word in ran.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_no_syntax_error_in_its_shell(synth_ai: CommandLine, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(synth_ai("completion", shell).out)
    subprocess.run([shell, "-n", str(script)], check=True)


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last word."""
    ask = f"""
{script}
COMP_WORDS=({" ".join(words)}) COMP_CWORD={len(words) - 1}
$(complete -p synth-ai | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_choices_and_files(
    synth_ai: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grpo.toml").write_text("")
    script = synth_ai("completion", "bash").out
    assert completed(script, "synth-ai", "tra") == ["train"]
    assert completed(script, "synth-ai", "jobs", "wat") == ["watch"]
    assert completed(script, "synth-ai", "train", "--poll-t") == ["--poll-timeout"]
    assert completed(script, "synth-ai", "train", "--type", "s") == ["sft"]
    assert completed(script, "synth-ai", "train", "--config", "gr") == ["grpo.toml"]
