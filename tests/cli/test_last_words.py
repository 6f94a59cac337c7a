"""What a run that is cut off says about its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.domain.model.errors import GaveUpWaiting
from synth_train.domain.model.jobs import IdempotencyKey, JobId, Kind, Phase
from synth_train.domain.model.moments import (
    ApiRootFound,
    BackendChosen,
    ConfigBegun,
    Created,
    Creating,
    EnvFilesUsed,
    JobEnded,
    Moment,
    PollingBegun,
    Resumed,
    SeveralWatched,
    StatusSeen,
    UploadBegun,
    WatchFailed,
)
from synth_train.entrypoints.cli.standing import Standing
from synth_train.ports.progress import ProgressPort

JOB = JobId("job_1")
KEY = IdempotencyKey("k-123")

CHOSEN = BackendChosen(base="https://h", key_mask="sk-...092")
UPLOADING = UploadBegun(path=Path("train.jsonl"), purpose="training set", size=1)
CREATING = Creating(url="https://h/api/learning/jobs", body=b"{}", key=KEY)
SFT_CREATED = Created(job_id=JOB, kind=Kind.SFT, status=201, reply="{}")
RL_CREATED = Created(job_id=JOB, kind=Kind.RL, status=201, reply="{}")
RUNNING = StatusSeen(job_id=JOB, elapsed=5, word="running", phase=Phase.LIVE)
QUEUED = StatusSeen(job_id=JOB, elapsed=0, word="queued", phase=Phase.LIVE)
POLLING = PollingBegun(job_id=JOB, interval=5, timeout=3600)
ENDED = JobEnded(job_id=JOB, word="failed", phase=Phase.FAILED, reason="", fine_tuned_model=None)


def last_words(*moments: Moment, creates: bool = True) -> tuple[str, str]:
    standing = Standing(ProgressPort(), creates=creates)
    for moment in moments:
        standing.tell(moment)
    return standing.last_words()


@pytest.mark.parametrize("moments", [(), (CHOSEN,), (CHOSEN, UPLOADING)])
def test_before_the_request_there_is_no_job(moments: tuple[Moment, ...]) -> None:
    assert last_words(*moments) == ("no job was created", "Run the same command again to go on.")


@pytest.mark.parametrize(
    "moments",
    [
        (CHOSEN, CREATING),
        (CHOSEN, Resumed(stage="creating", opened_at=0, key=KEY, job_id=None)),
    ],
)
def test_between_request_and_reply_the_job_may_exist(moments: tuple[Moment, ...]) -> None:
    what, hint = last_words(*moments)

    assert what == "the job may have been created (Idempotency-Key k-123)"
    assert hint.startswith("Run the same command again")


def test_a_submission_taken_up_before_its_request_has_no_job_yet() -> None:
    what, _ = last_words(CHOSEN, Resumed(stage="uploaded", opened_at=0, key=KEY, job_id=None))

    assert what == "no job was created"


@pytest.mark.parametrize(
    "moments", [(CREATING, SFT_CREATED), (Resumed(stage="created", opened_at=0, key=KEY, job_id=JOB),)]
)
def test_a_job_that_was_created_and_not_started_is_gone_on_with(moments: tuple[Moment, ...]) -> None:
    what, hint = last_words(CHOSEN, *moments)

    assert what == "job job_1 exists, but may not have been started"
    assert hint.startswith("Run the same command again")


def test_an_rl_job_is_started_by_its_creation() -> None:
    what, hint = last_words(CHOSEN, CREATING, RL_CREATED)

    assert what == "job job_1 goes on"
    assert hint == "Watch it again with: synth-ai jobs watch job_1 --type rl --backend https://h"


def test_a_watched_job_can_be_watched_again_with_the_same_keys_at_the_same_place() -> None:
    used = EnvFilesUsed(paths=(Path("/repo/my keys.env"),))
    what, hint = last_words(used, CHOSEN, ApiRootFound(base="https://h/api"), CREATING, SFT_CREATED, POLLING, RUNNING)

    assert what == "job job_1 is still running"
    assert hint == (
        "Watch it again with: synth-ai jobs watch job_1 --type sft --backend https://h/api "
        "--env-file '/repo/my keys.env'"
    )


def test_a_status_that_may_mean_anything_is_not_said_to_last() -> None:
    strange = StatusSeen(job_id=JOB, elapsed=5, word="zombie", phase=Phase.UNKNOWN)
    what, _ = last_words(CHOSEN, CREATING, RL_CREATED, POLLING, RUNNING, strange)

    assert what == "job job_1 goes on"


def test_a_job_that_has_ended_needs_nothing_more() -> None:
    assert last_words(CHOSEN, CREATING, SFT_CREATED, POLLING, ENDED) == ("job job_1 had ended", "")


def test_of_several_configs_the_one_whose_turn_it_was_counts() -> None:
    what, _ = last_words(CHOSEN, CREATING, RL_CREATED, POLLING, ENDED, ConfigBegun(config="b.toml", ordinal=2, of=2))

    assert what == "no job was created for b.toml"


def test_a_watch_that_creates_nothing_speaks_of_its_job_only() -> None:
    assert last_words(CHOSEN, creates=False) == ("", "")
    assert last_words(CHOSEN, POLLING, QUEUED, creates=False) == (
        "job job_1 is still queued",
        "Watch it again with: synth-ai jobs watch job_1 --backend https://h",
    )


def test_of_several_watched_jobs_those_count_that_are_not_over() -> None:
    together = SeveralWatched(job_ids=(JobId("job_0"), JOB, JobId("job_2")), interval=5, timeout=3600)
    running = StatusSeen(job_id=JobId("job_2"), elapsed=5, word="running", phase=Phase.LIVE)
    assert last_words(CHOSEN, together, running, ENDED, creates=False) == (
        "jobs job_0 goes on, job_2 is still running",
        "Watch them again with: synth-ai jobs watch job_0 job_2 --backend https://h",
    )
    lost = WatchFailed(job_id=JobId("job_0"), error=GaveUpWaiting("gave up"))
    assert last_words(CHOSEN, together, running, ENDED, lost, creates=False) == (
        "job job_2 is still running",
        "Watch it again with: synth-ai jobs watch job_2 --backend https://h",
    )


def test_a_job_that_could_not_be_told_of_is_remembered_all_the_same() -> None:
    class Mute(ProgressPort):
        def tell(self, moment: Moment) -> None:
            raise BrokenPipeError

    standing = Standing(Mute(), creates=True)
    with pytest.raises(BrokenPipeError):
        standing.tell(RL_CREATED)

    assert standing.last_words()[0] == "job job_1 goes on"


def test_every_moment_is_handed_on() -> None:
    inner = RecordedProgress()
    standing = Standing(inner, creates=True)
    for moment in (CHOSEN, UPLOADING, CREATING, SFT_CREATED, POLLING, ENDED):
        standing.tell(moment)

    assert inner.moments == [CHOSEN, UPLOADING, CREATING, SFT_CREATED, POLLING, ENDED]
