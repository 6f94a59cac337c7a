"""What every JournalPort promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from synth_train.adapters.file_journal import FileJournal
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.domain.model.jobs import FileId, IdempotencyKey, JobId, Kind
from synth_train.domain.model.submission import Stage, Submission
from synth_train.ports.journal import JournalPort

Another = Callable[[], JournalPort]


@pytest.fixture(params=["in-memory", "files"])
def journals(request: pytest.FixtureRequest, tmp_path: Path) -> Another:
    """Makes journals over the same entries, each as a process of its own would have it."""
    if request.param == "files":
        return lambda: FileJournal(tmp_path / "submissions")
    first = InMemoryJournal()
    return first.beside


@pytest.fixture
def journal(journals: Another) -> JournalPort:
    return journals()


def entry(number: int = 1, **changes: object) -> Submission:
    made = Submission(
        id=f"{number:013d}-00000000000000aa",
        fingerprint="f" * 64,
        backend="https://backend.example",
        account="a" * 16,
        kind=Kind.SFT,
        config="sft.toml",
        key=IdempotencyKey(f"key-{number}"),
        key_is_users=False,
    )
    return replace(made, **changes)


def test_an_entry_that_stopped_is_taken_up_where_it_stopped(journals: Another) -> None:
    before = journals()
    before.open(entry())
    before.advance(entry(stage=Stage.CREATING, training_file=FileId("file_1")))
    before.release(entry())
    assert journals().take_up("f" * 64) == entry(stage=Stage.CREATING, training_file=FileId("file_1"))


def test_an_entry_that_another_process_holds_is_left_to_it(journals: Another, journal: JournalPort) -> None:
    journal.open(entry())
    assert journals().take_up("f" * 64) is None


def test_an_entry_is_taken_up_by_one_only(journals: Another, journal: JournalPort) -> None:
    journal.open(entry())
    journal.release(entry())
    first, second = journals(), journals()
    assert first.take_up("f" * 64) is not None
    assert second.take_up("f" * 64) is None


def test_an_entry_that_is_let_go_again_can_be_taken_up_by_the_next(journals: Another, journal: JournalPort) -> None:
    journal.open(entry())
    journal.release(entry())
    first = journals()
    taken = first.take_up("f" * 64)
    assert taken is not None
    first.release(taken)
    assert journals().take_up("f" * 64) == taken


@pytest.mark.parametrize("stage", [Stage.HANDED_OVER, Stage.REFUSED])
def test_an_entry_that_is_finished_is_not_taken_up(journals: Another, journal: JournalPort, stage: Stage) -> None:
    journal.open(entry())
    journal.advance(entry(stage=stage))
    journal.release(entry(stage=stage))
    assert journals().take_up("f" * 64) is None


def test_an_entry_of_another_request_is_not_taken_up(journals: Another, journal: JournalPort) -> None:
    journal.open(entry())
    journal.release(entry())
    assert journals().take_up("f" * 16 + "0" * 48) is None


def test_an_entry_under_the_users_own_key_is_found_by_that_key_only(journals: Another, journal: JournalPort) -> None:
    named = entry(key_is_users=True, key=IdempotencyKey("K"), stage=Stage.HANDED_OVER)
    journal.open(named)
    journal.release(named)
    later = journals()
    assert later.take_up("f" * 64) is None
    assert later.with_key("https://backend.example", "a" * 16, IdempotencyKey("K")) == named


@pytest.mark.parametrize(
    ("backend", "account", "key"),
    [
        ("https://other.example", "a" * 16, "K"),
        ("https://backend.example", "b" * 16, "K"),
        ("https://backend.example", "a" * 16, "k"),
    ],
)
def test_a_key_means_something_only_on_its_backend_and_account(
    journal: JournalPort, backend: str, account: str, key: str
) -> None:
    journal.open(entry(key_is_users=True, key=IdempotencyKey("K")))
    assert journal.with_key(backend, account, IdempotencyKey(key)) is None


def test_a_key_that_we_drew_is_not_found_as_the_users(journal: JournalPort) -> None:
    journal.open(entry(key=IdempotencyKey("K")))
    assert journal.with_key("https://backend.example", "a" * 16, IdempotencyKey("K")) is None


def test_an_entry_under_the_users_key_is_told_even_while_another_process_holds_it(
    journals: Another, journal: JournalPort
) -> None:
    named = entry(key_is_users=True, key=IdempotencyKey("K"))
    journal.open(named)
    assert journals().with_key(named.backend, named.account, named.key) == named


def test_the_newest_of_several_entries_is_the_one_that_counts(journals: Another, journal: JournalPort) -> None:
    for number in (1, 3, 2):
        journal.open(entry(number))
        journal.release(entry(number))
    taken = journals().take_up("f" * 64)
    assert taken is not None
    assert taken.key == "key-3"


def test_the_latest_job_of_a_request_can_be_named(journal: JournalPort) -> None:
    assert journal.latest_handed_over("f" * 64) is None
    journal.open(entry(1, stage=Stage.HANDED_OVER, job_id=JobId("job_1")))
    journal.open(entry(2, stage=Stage.HANDED_OVER, job_id=JobId("job_2")))
    journal.open(entry(3, stage=Stage.CREATING))
    latest = journal.latest_handed_over("f" * 64)
    assert latest is not None
    assert latest.job_id == "job_2"


def test_the_status_last_seen_of_a_job_is_kept(journal: JournalPort) -> None:
    journal.open(entry(1, stage=Stage.HANDED_OVER, job_id=JobId("job_1")))
    journal.open(entry(2, stage=Stage.HANDED_OVER, job_id=JobId("job_2")))
    journal.saw(JobId("job_1"), "running")
    journal.saw(JobId("job_unknown"), "failed")
    latest = journal.latest_handed_over("f" * 64)
    assert latest is not None
    assert latest.last_word == ""
    journal.saw(JobId("job_2"), "succeeded")
    latest = journal.latest_handed_over("f" * 64)
    assert latest is not None
    assert latest.last_word == "succeeded"


def test_letting_go_of_an_entry_that_one_does_not_hold_changes_nothing(journals: Another, journal: JournalPort) -> None:
    journal.open(entry())
    journals().release(entry())
    assert journals().take_up("f" * 64) is None


def test_an_entry_that_one_holds_can_be_taken_up_again_by_oneself(journal: JournalPort) -> None:
    journal.open(entry())
    assert journal.take_up("f" * 64) == entry()


def test_an_empty_journal_has_nothing_to_take_up(journal: JournalPort) -> None:
    assert journal.take_up("f" * 64) is None
    assert journal.with_key("b", "a", IdempotencyKey("K")) is None
    journal.saw(JobId("job_1"), "running")


def test_entries_with_jobs_come_newest_first(journals: Another, journal: JournalPort) -> None:
    assert journal.with_jobs() == []
    first, second, without = entry(1, job_id=JobId("a")), entry(3, job_id=JobId("b")), entry(2)
    for one in (first, second, without):
        journal.open(one)
    assert journals().with_jobs() == [second, first]
