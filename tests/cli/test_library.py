"""The facade for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synth_train
from support.commands import RL, ROW, SFT, python
from synth_train import (
    InMemoryBackend,
    InvalidConfig,
    InvalidDataset,
    Kind,
    OutcomeUnknown,
    Phase,
    RecordedProgress,
    Rehearsal,
    Secret,
    UsageError,
)
from synth_train.domain.model.errors import BackendUnreachable
from synth_train.domain.model.moments import Created

SFT_TABLE = {"type": "sft", "job": {"model": "Qwen/Qwen3-0.6B", "data": "train.jsonl"}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTH_AI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SYNTH_API_KEY", raising=False)
    Path("sft.toml").write_text(SFT)
    Path("rl.toml").write_text(RL)
    Path("train.jsonl").write_text(ROW * 3)
    return tmp_path


@pytest.fixture
def rehearsal() -> Rehearsal:
    return Rehearsal()


@pytest.mark.parametrize("config", ["sft.toml", Path("rl.toml")], ids=str)
def test_a_config_by_its_path_becomes_one_job_and_is_followed_to_its_end(
    rehearsal: Rehearsal, config: str | Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = synth_train.submit(config, backend=rehearsal)

    (job,) = rehearsal.backend.jobs
    assert (result.job_id, result.phase, result.word, result.ok) == (job.id, Phase.SUCCEEDED, "succeeded", True)
    assert capsys.readouterr() == ("", "")


def test_a_backend_in_memory_ends_its_jobs_without_taking_time() -> None:
    backend = InMemoryBackend()
    result = synth_train.submit("sft.toml", backend=backend)

    (job,) = backend.jobs
    assert (result.job_id, result.word) == (job.id, "succeeded")
    assert synth_train.watch(job.id, backend=backend).phase is Phase.SUCCEEDED


def test_a_config_may_be_a_mapping(rehearsal: Rehearsal) -> None:
    result = synth_train.submit(SFT_TABLE, backend=rehearsal, wait=False)

    (job,) = rehearsal.backend.jobs
    assert (result.config, result.kind, result.job_id, result.phase) == ("config", Kind.SFT, job.id, None)


def test_a_mapping_may_hold_paths_and_tuples(rehearsal: Rehearsal) -> None:
    job = {"model": "Qwen/Qwen3-0.6B", "data": Path("train.jsonl")}
    table = {**SFT_TABLE, "job": job, "lora": {"target_modules": ("q",)}}

    assert synth_train.submit(table, backend=rehearsal).ok


def test_what_no_toml_can_hold_is_said_at_once() -> None:
    job = {"model": "Qwen/Qwen3-0.6B", "data": None, 3: 4}
    table = {**SFT_TABLE, "job": job, "tags": {"a": [1, {2}]}}

    with pytest.raises(InvalidConfig) as refused:
        synth_train.check_config(table)

    assert str(refused.value).splitlines() == [
        "config: job: a key must be text, not int",
        "config: job.data: TOML has no NoneType; leave the key out",
        "config: tags.a[1]: TOML has no set",
    ]
    assert len(refused.value.problems) == 3


def test_a_mapping_that_holds_itself_is_refused() -> None:
    tags: dict[str, object] = {}
    tags["tags"] = tags

    with pytest.raises(InvalidConfig, match="tables and lists go down more than 64 levels here"):
        synth_train.check_config({**SFT_TABLE, "tags": tags})


def test_a_name_that_no_file_can_have_is_no_file() -> None:
    with pytest.raises(InvalidConfig, match="there is no such file"):
        synth_train.check_config("a\0b.toml")


def test_what_is_given_comes_before_what_the_config_says(rehearsal: Rehearsal) -> None:
    Path("other.jsonl").write_text(ROW * 5)
    synth_train.submit(
        "sft.toml",
        backend=rehearsal,
        model="Qwen/Qwen3-8B",
        dataset=Path("other.jsonl"),
        examples=2,
        idempotency="K",
        wait=False,
    )

    (file,) = rehearsal.backend.files
    assert json.loads(rehearsal.backend.requests[0])["model"] == "Qwen/Qwen3-8B"
    assert rehearsal.backend.content(file) == (ROW * 2).encode()
    assert [call.key for call in rehearsal.backend.called("create")] == ["K"]


def test_one_key_is_one_job_however_often_it_is_asked_for(rehearsal: Rehearsal) -> None:
    results = [synth_train.submit("sft.toml", backend=rehearsal, idempotency="K", wait=False) for _ in range(3)]

    assert len({result.job_id for result in results}) == len(rehearsal.backend.jobs) == 1


def test_an_unknown_outcome_is_cleared_up_by_the_same_call(rehearsal: Rehearsal) -> None:
    rehearsal.backend.fail_next("create", BackendUnreachable("cut off"), after_effect=True, times=9)
    with pytest.raises(OutcomeUnknown):
        synth_train.submit("sft.toml", backend=rehearsal, wait=False)
    rehearsal.backend._outages.clear()
    result = synth_train.submit("sft.toml", backend=rehearsal, wait=False)

    assert [job.id for job in rehearsal.backend.jobs] == [result.job_id]


def test_a_job_that_fails_is_a_result_and_not_an_error(rehearsal: Rehearsal) -> None:
    rehearsal.backend.world.trainer.failure = "out of memory"
    result = synth_train.submit("sft.toml", backend=rehearsal)

    assert (result.phase, result.ok) == (Phase.FAILED, False)


def test_what_happens_is_told_to_who_wants_to_know(rehearsal: Rehearsal) -> None:
    progress = RecordedProgress()
    result = synth_train.submit("sft.toml", backend=rehearsal, wait=False, progress=progress)

    assert [moment.job_id for moment in progress.of(Created)] == [result.job_id]


def test_a_backend_object_needs_no_key_from_elsewhere() -> None:
    backend = InMemoryBackend(api_key=Secret("sk-only-the-object-knows"))
    result = synth_train.submit("sft.toml", backend=backend, wait=False)

    assert [job.id for job in backend.jobs] == [result.job_id]


def test_nobody_is_asked_for_a_key_that_is_missing() -> None:
    with pytest.raises(synth_train.CredentialsError, match="SYNTH_API_KEY"):
        synth_train.submit("sft.toml", backend="http://127.0.0.1:1")


def test_a_key_may_be_given(rehearsal: Rehearsal) -> None:
    with pytest.raises(synth_train.BackendUnreachable):
        synth_train.watch("job_1", backend="http://127.0.0.1:1", api_key=Secret("sk-given-00000"))


def test_a_job_can_be_watched_later(rehearsal: Rehearsal) -> None:
    job_id = synth_train.submit("rl.toml", backend=rehearsal, wait=False).job_id
    assert job_id is not None
    state = synth_train.watch(job_id, backend=rehearsal)

    assert (state.job_id, state.phase) == (job_id, Phase.SUCCEEDED)


def test_a_config_can_be_checked_alone() -> None:
    plan = synth_train.check_config("rl.toml", model="Qwen/Qwen3-8B", task_url="https://other.example")

    assert (plan.kind, plan.model, plan.task_url and plan.task_url.url) == (
        Kind.RL,
        "Qwen/Qwen3-8B",
        "https://other.example",
    )


def test_a_model_of_no_catalogue_may_be_asked_for_by_name(rehearsal: Rehearsal) -> None:
    config = {"type": "sft", "job": {"model": "tiny", "data": "train.jsonl"}}

    assert synth_train.check_config(config, any_model=True).model == "tiny"
    assert b'"model":"tiny"' in synth_train.build_payload(config, any_model=True)
    assert synth_train.submit(config, backend=rehearsal, any_model=True).word == "succeeded"
    with pytest.raises(synth_train.InvalidConfig, match="not in the catalogue"):
        synth_train.submit(config, backend=rehearsal)


def test_a_broken_config_raises_every_problem() -> None:
    with pytest.raises(InvalidConfig) as refused:
        synth_train.check_config({"type": "sft", "job": {"model": "nothing"}, "compute": {"gpu_count": "two"}})

    assert {problem.key for problem in refused.value.problems} == {"job.model", "job.data", "compute.gpu_count"}
    assert all(problem.place.source == "config" for problem in refused.value.problems)


def test_a_dataset_can_be_checked_alone() -> None:
    report = synth_train.check_dataset(Path("train.jsonl"), examples=2)

    assert (report.rows, report.turns) == (2, 4)


def test_a_broken_dataset_raises() -> None:
    Path("train.jsonl").write_text("{}\n")
    with pytest.raises(InvalidDataset) as refused:
        synth_train.check_dataset("train.jsonl")

    assert refused.value.problems[0].place.line == 1


def test_the_payload_is_what_would_be_sent(rehearsal: Rehearsal) -> None:
    payload = json.loads(synth_train.build_payload(SFT_TABLE, examples=1))
    synth_train.submit(SFT_TABLE, backend=rehearsal, examples=1, wait=False)

    assert {**json.loads(rehearsal.backend.requests[0]), "training_file_id": None} == payload


def test_an_impossible_wish_raises() -> None:
    with pytest.raises(UsageError):
        synth_train.build_payload("rl.toml", dataset="train.jsonl")
    with pytest.raises(ValueError, match="idempotency key"):
        synth_train.submit("sft.toml", idempotency="no\nway")


# -- the surface


def test_every_name_that_is_promised_is_there_and_no_other() -> None:
    assert synth_train.__all__ == sorted(synth_train.__all__)
    assert dir(synth_train) == synth_train.__all__
    for name in synth_train.__all__:
        assert getattr(synth_train, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Train'"):
        _ = synth_train.Train


def test_every_error_is_promised() -> None:
    from synth_train.domain.model import errors

    ours = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert ours <= set(synth_train.__all__)


def test_public_functions_and_their_arguments_are_explained() -> None:
    for name in ("submit", "watch", "check_config", "check_dataset", "build_payload"):
        assert (getattr(synth_train, name).__doc__ or "").strip()


def test_importing_loads_nothing() -> None:
    code = "import sys, synth_train; print(*(name for name in sys.modules if name.startswith('synth_train')))"

    assert python(code).stdout.split() == ["synth_train"]


def test_the_package_is_typed() -> None:
    assert Path(str(synth_train.__file__)).with_name("py.typed").exists()
