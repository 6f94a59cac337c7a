"""Commands that are shown to be pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from synth_train.domain.model.commands import on_jobs, watching
from synth_train.domain.model.jobs import JobId, Kind

JOB = JobId("job_1")


def test_a_watch_has_all_that_it_needs_to_reach_the_job_from_any_folder() -> None:
    shown = watching(JOB, base="https://h/api", kind=Kind.SFT, env_files=(Path("/my work/.env"), Path("/w/b.env")))

    assert shlex.split(shown) == [
        *("synth-ai", "jobs", "watch", "job_1", "--type", "sft", "--backend", "https://h/api"),
        *("--env-file", "/my work/.env", "--env-file", "/w/b.env"),
    ]


def test_jobs_of_several_kinds_are_watched_without_one() -> None:
    assert watching(JOB, JobId("job_2"), base="local") == "synth-ai jobs watch job_1 job_2 --backend local"


def test_options_of_an_action_come_behind_the_job_and_odd_ids_are_quoted() -> None:
    shown = on_jobs("logs", JobId("a b"), base="local", options=("--follow",))

    assert shown == "synth-ai jobs logs 'a b' --follow --backend local"


@pytest.mark.parametrize(
    ("base", "allowed"),
    [
        ("http://10.0.0.5:8000", True),
        ("http://127.0.0.1:8000", False),
        ("http://localhost/api", False),
        ("https://h", False),
    ],
)
def test_what_had_to_be_allowed_is_allowed_again(base: str, allowed: bool) -> None:
    assert watching(JOB, base=base).endswith(" --insecure-http") is allowed
