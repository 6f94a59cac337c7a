"""The whole command, from files to results: over in-memory adapters, in no time and without a socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from synth_train.adapters.in_memory.backend import InMemoryBackend, InMemoryBackends, InMemoryHosting
from synth_train.adapters.in_memory.clock import ManualClock
from synth_train.adapters.in_memory.configs import InMemoryConfigs
from synth_train.adapters.in_memory.datasets import InMemoryDatasets
from synth_train.adapters.in_memory.entropy import CountingEntropy
from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.journal import InMemoryJournal
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.in_memory.sealer import ReadableSealer
from synth_train.adapters.in_memory.task_app import InMemoryTaskApp
from synth_train.adapters.stdin_prompt import NobodyToAsk
from synth_train.adapters.tenacity_patience import TenacityPatience
from synth_train.domain.model.errors import (
    BackendRefused,
    BackendUnreachable,
    CredentialsError,
    GaveUpWaiting,
    InvalidConfig,
    InvalidDataset,
    KeyRefused,
    TaskAppUnhealthy,
    UsageError,
)
from synth_train.domain.model.jobs import Features, IdempotencyKey, Kind, Phase
from synth_train.domain.model.moments import (
    ApiRootFound,
    BackendChosen,
    ConfigBegun,
    ConfigFailed,
    Creating,
    KeyMinted,
    Noted,
    PollingBegun,
    ProblemFound,
    Retrying,
)
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.task_app import TaskAppKeys, Trouble
from synth_train.domain.usecases.batch import ConfigResult
from synth_train.domain.usecases.train import Train, TrainRequest
from synth_train.ports.prompt import PromptPort

API_KEY = "sk-in-memory-000000000000"
ENVIRONMENT_KEY = "environment-key-0123456789"

SFT = """
[algorithm]
type = "offline"
method = "sft"
variety = "fft"
[job]
model = "Qwen/Qwen3-4B"
data = "train.jsonl"
[hyperparameters]
n_epochs = 1
"""

RL = """
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "https://app.example"
[model]
base = "Qwen/Qwen3-4B"
"""

ROW = b'{"messages":[{"role":"user","content":"1+1"},{"role":"assistant","content":"2"}]}\n'


class World:
    """Files, variables, a backend and a task app, and `train` over them."""

    def __init__(self, *, prompt: PromptPort | None = None) -> None:
        self.clock = ManualClock()
        self.configs = InMemoryConfigs({"sft.toml": SFT, "rl.toml": RL})
        self.datasets = InMemoryDatasets({"/repo/train.jsonl": ROW * 3})
        self.env = InMemoryEnv({"SYNTH_API_KEY": API_KEY, "ENVIRONMENT_API_KEY": ENVIRONMENT_KEY})
        self.prompt = prompt or NobodyToAsk()
        self.task_app = InMemoryTaskApp()
        self.backend = InMemoryBackend(world=InMemoryHosting(clock=self.clock, task_app=self.task_app))
        self.backend.store_environment_key(ReadableSealer().seal(self.backend.public_key(), Secret(ENVIRONMENT_KEY)))
        self.backend.calls.clear()
        self.backends = InMemoryBackends(self.backend)
        self.journal = InMemoryJournal()
        self.progress = RecordedProgress()

    def train(self, *configs: str, **options: object) -> tuple[ConfigResult, ...]:
        train = Train(
            configs=self.configs,
            datasets=self.datasets,
            env=self.env,
            prompt=self.prompt,
            backends=self.backends,
            task_app=self.task_app,
            sealer=ReadableSealer(),
            journal=self.journal,
            patience=TenacityPatience(self.clock),
            clock=self.clock,
            entropy=CountingEntropy(),
            progress=self.progress,
        )
        return train(TrainRequest(configs=tuple(map(Path, configs)), **options))  # type: ignore[arg-type]

    def one(self, config: str, **options: object) -> ConfigResult:
        (result,) = self.train(config, **options)
        return result

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.progress.of(Noted)]


@pytest.fixture
def world() -> World:
    return World()


# -- one config


@pytest.mark.parametrize(("config", "kind"), [("sft.toml", Kind.SFT), ("rl.toml", Kind.RL)])
def test_a_config_becomes_a_job_that_is_watched_to_its_end(world: World, config: str, kind: Kind) -> None:
    result = world.one(config)
    (job,) = world.backend.jobs
    assert result.ok
    assert (result.kind, result.job_id, result.word, result.phase) == (kind, job.id, "succeeded", Phase.SUCCEEDED)
    assert result.fine_tuned_model == job.fine_tuned_model


def test_without_polling_the_run_ends_when_the_job_is_handed_over(world: World) -> None:
    result = world.one("rl.toml", poll=False)
    assert (result.ok, result.phase) == (True, None)
    assert world.progress.of(PollingBegun) == []


def test_a_job_that_fails_is_no_success(world: World) -> None:
    world.backend.world.trainer.failure = "out of memory"
    result = world.one("sft.toml")
    assert (result.ok, result.error, result.phase) == (False, None, Phase.FAILED)


def test_a_watch_that_takes_too_long_keeps_the_job_and_its_last_word(world: World) -> None:
    world.backend.world.trainer.lasts = 1e6
    result = world.one("sft.toml", poll_timeout=60.0)
    assert isinstance(result.error, GaveUpWaiting)
    assert (result.job_id, result.word) == (world.backend.jobs[0].id, "running")


def test_a_watch_that_is_refused_keeps_the_job(world: World) -> None:
    world.backend.fail_next("job", KeyRefused("HTTP 401"))
    result = world.one("sft.toml")
    assert isinstance(result.error, KeyRefused)
    assert (result.job_id, result.word) == (world.backend.jobs[0].id, "")


def test_the_backend_is_told_before_the_first_request_with_the_mask_of_the_key(world: World) -> None:
    world.one("rl.toml")
    assert world.progress.of(BackendChosen) == [BackendChosen(base="https://api.usesynth.ai", key_mask="sk-...000")]


def test_an_api_root_that_was_found_is_told_and_used(world: World) -> None:
    class Below(InMemoryBackend):
        def features(self) -> Features:
            self._base = "https://backend.example/api"
            return super().features()

    world.backends.backend = Below(world=world.backend.world)
    world.one("rl.toml", backend="https://backend.example")
    assert world.progress.of(ApiRootFound) == [ApiRootFound(base="https://backend.example/api")]
    assert world.progress.of(Creating)[0].url == "https://backend.example/api/rl/jobs"


def test_a_backend_that_cannot_train_at_present_gets_no_request_but_its_remedy_is_told(world: World) -> None:
    class Bare(InMemoryBackend):
        def features(self) -> Features:
            return Features(base=self.base, obstacle="there is no torch", remedy="Install it.")

    world.backends.backend = Bare(world=world.backend.world)
    for config in ("sft.toml", "rl.toml"):
        with pytest.raises(UsageError, match="there is no torch") as refused:
            world.one(config)
        assert refused.value.hint == "Install it."
    assert world.backend.jobs == []


def test_a_backend_that_is_slow_to_answer_is_asked_again(world: World) -> None:
    world.backend.fail_next("features", BackendUnreachable("refused", sent=False), times=2)
    assert world.one("rl.toml").ok
    assert [moment.what for moment in world.progress.of(Retrying)] == ["reach the backend"] * 2


def test_what_the_sft_wire_cannot_carry_is_named_before_the_upload(world: World) -> None:
    world.configs.files["sft.toml"] = SFT + "weight_decay = 0.1\n"
    world.one("sft.toml")
    assert [found.problem.key for found in world.progress.of(ProblemFound)] == ["hyperparameters.weight_decay"]


def test_warnings_and_notes_of_the_plan_are_told(world: World) -> None:
    _, job, rest = SFT.partition("[job]")
    world.configs.files["sft.toml"] = f'type = "sft"\n{job}{rest}bananas = 7\n'
    assert world.one("sft.toml").error is None
    assert [found.problem.key for found in world.progress.of(ProblemFound)] == ["hyperparameters.bananas"]
    assert any("[algorithm]" in note for note in world.notes)


def test_a_validation_set_goes_up_too(world: World) -> None:
    world.configs.files["sft.toml"] = SFT + '[data]\nvalidation_path = "valid.jsonl"\n'
    world.datasets.write("valid.jsonl", ROW)
    world.one("sft.toml")
    assert [world.backend.content(file) for file in world.backend.files] == [ROW * 3, ROW]


def test_only_the_first_examples_go_up_when_so_asked(world: World) -> None:
    world.one("sft.toml", examples=2)
    assert world.backend.content(world.backend.files[0]) == ROW * 2


# -- dry run


def test_a_dry_run_gives_the_body_and_asks_nobody(world: World) -> None:
    world.env.variables.clear()
    result = world.one("sft.toml", dry_run=True)
    assert result.ok
    assert result.payload is not None
    assert b'"training_file_id":null' in result.payload
    assert (world.backends.connected, world.backend.calls, world.journal.entries) == ([], [], {})


def test_a_dry_run_checks_every_row(world: World) -> None:
    world.datasets.write("train.jsonl", ROW + b"{}\n")
    assert isinstance(world.one("sft.toml", dry_run=True).error, InvalidDataset)


def test_a_dry_run_of_an_rl_config_takes_the_task_url_from_the_env_file(world: World) -> None:
    world.env.variables.clear()
    world.env.put(".env", {"TASK_APP_URL": "https://from-env.example"})
    world.configs.files["rl.toml"] = RL.replace('task_url = "https://app.example"', "")
    payload = world.one("rl.toml", dry_run=True).payload
    assert payload is not None
    assert b'"endpoint_base_url":"https://from-env.example"' in payload


def test_a_dry_run_for_the_embedded_backend_carries_the_whole_config(world: World) -> None:
    payload = world.one("sft.toml", dry_run=True, backend="local").payload
    assert payload is not None
    assert b'"metadata":{"effective_config"' in payload
    assert b'"config":{"algorithm"' in payload


# -- keys


def test_without_an_api_key_nothing_is_sent(world: World) -> None:
    del world.env.variables["SYNTH_API_KEY"]
    with pytest.raises(CredentialsError, match="SYNTH_API_KEY not found"):
        world.train("sft.toml")
    assert world.backends.connected == []


def test_the_embedded_backend_takes_no_key_and_any_model(world: World) -> None:
    class Keyless(InMemoryBackends):
        def connect(self, base: str, api_key: Secret | None) -> InMemoryBackend:
            super().connect(base, api_key)
            return self.backend

    world.backends = Keyless(world.backend)
    world.env.variables.clear()
    world.configs.files["sft.toml"] = SFT.replace("Qwen/Qwen3-4B", "tiny")
    assert world.one("sft.toml", backend="local").ok
    assert world.backends.connected == [("local", None)]


def test_the_embedded_backend_is_not_asked_for_a_folder_that_is_not_there(world: World) -> None:
    world.configs.files["sft.toml"] = SFT.replace("Qwen/Qwen3-4B", "./no-model")
    result = world.one("sft.toml", backend="local")

    assert isinstance(result.error, InvalidConfig)
    assert "there is no such folder" in str(result.error)
    assert world.backends.connected == []


def test_the_value_of_a_key_must_not_stand_in_a_config(world: World) -> None:
    world.configs.files["rl.toml"] = RL + f'[metadata]\nnote = "{API_KEY}"\n'
    result = world.one("rl.toml")
    assert isinstance(result.error, InvalidConfig)
    assert [problem.key for problem in result.error.problems] == ["metadata.note"]
    assert API_KEY not in str(result.error)
    assert world.backends.connected == []


def test_a_missing_environment_key_is_minted_where_the_backend_holds_none(world: World) -> None:
    del world.env.variables["ENVIRONMENT_API_KEY"]
    world.backends.backend = InMemoryBackend(world=InMemoryHosting(clock=world.clock, task_app=world.task_app))
    assert world.one("rl.toml").ok
    (minted,) = world.progress.of(KeyMinted)
    assert (minted.path, "ENVIRONMENT_API_KEY") in world.env.saved
    assert world.backends.backend.holds_environment_key()


def test_a_minted_key_serves_all_rl_configs_of_the_run(world: World) -> None:
    del world.env.variables["ENVIRONMENT_API_KEY"]
    world.backends.backend = InMemoryBackend(world=InMemoryHosting(clock=world.clock, task_app=world.task_app))
    assert all(result.ok for result in world.train("rl.toml", "rl.toml"))
    assert len(world.progress.of(KeyMinted)) == 1


def test_a_key_that_the_backend_lacks_is_uploaded_and_the_verification_asked_again(world: World) -> None:
    world.task_app.keys = {Secret("another-key-9876543210")}
    world.env.variables["ENVIRONMENT_API_KEY"] = "another-key-9876543210"
    assert world.one("rl.toml").ok
    assert len(world.backend.called("verify_task_app")) == 2


def test_backend_notes_are_told(world: World) -> None:
    world.env.put(".env", {"BACKEND_BASE_URL": "https://elsewhere.example"})
    world.one("rl.toml")
    assert any("BACKEND_BASE_URL" in note and "is not used" in note for note in world.notes)


# -- what stops a run


def test_a_config_with_problems_is_a_result_and_nothing_is_sent(world: World) -> None:
    world.configs.files["sft.toml"] = SFT.replace("n_epochs = 1", "n_epoch = 1")
    result = world.one("sft.toml")
    assert isinstance(result.error, InvalidConfig)
    assert not result.ok
    assert world.progress.of(ConfigFailed) == [], "of a single config its result says all"


def test_an_rl_config_without_a_task_url_anywhere_is_invalid(world: World) -> None:
    world.configs.files["rl.toml"] = RL.replace('task_url = "https://app.example"', "")
    assert isinstance(world.one("rl.toml").error, InvalidConfig)
    assert world.backends.connected == []


def test_a_task_url_from_the_environment_that_loses_is_named(world: World) -> None:
    world.env.variables["TASK_APP_URL"] = "https://other.example"
    assert world.one("rl.toml").ok
    assert any("https://app.example" in note and "https://other.example" in note for note in world.notes)


def test_a_bad_dataset_stops_before_the_first_request(world: World) -> None:
    world.datasets.write("train.jsonl", b"{}\n")
    assert isinstance(world.one("sft.toml").error, InvalidDataset)
    assert world.backend.calls == []


def test_a_task_app_that_is_down_stops_before_the_job(world: World) -> None:
    world.task_app.trouble = Trouble.REFUSED
    assert isinstance(world.one("rl.toml").error, TaskAppUnhealthy)
    assert world.backend.jobs == []


@pytest.mark.parametrize(
    ("config", "option", "name"),
    [
        ("rl.toml", {"dataset": "train.jsonl"}, "--dataset"),
        ("rl.toml", {"examples": 5}, "--examples"),
        ("sft.toml", {"task_url": "https://app.example"}, "--task-url"),
        ("sft.toml", {"mint": True}, "--mint"),
    ],
)
def test_an_option_for_configs_of_the_other_kind_is_refused(
    world: World, config: str, option: dict[str, object], name: str
) -> None:
    with pytest.raises(UsageError, match=name):
        world.train(config, **option)


def test_an_option_applies_to_the_configs_of_its_kind(world: World) -> None:
    assert all(result.ok for result in world.train("rl.toml", "sft.toml", examples=1))
    assert world.backend.content(world.backend.files[0]) == ROW


def test_without_a_config_and_with_somebody_there_a_question_is_asked() -> None:
    world = World(prompt=ScriptedPrompt(("Which config?", "2")))
    (result,) = world.train()
    assert (result.config, result.ok) == ("sft.toml", True)


@pytest.mark.parametrize(
    ("variables", "flag", "accepted"),
    [
        ({}, None, False),
        ({}, True, True),
        ({"SDK_EXPERIMENTAL": "1"}, None, True),
        ({"SDK_EXPERIMENTAL": "1"}, False, False),
    ],
)
def test_experimental_models_are_allowed_by_flag_or_variable(
    world: World, variables: dict[str, str], flag: bool | None, accepted: bool
) -> None:
    world.env.variables |= variables
    world.configs.files["rl.toml"] = RL.replace("Qwen/Qwen3-4B", "Qwen/Qwen3-4B-Thinking-2507")
    assert world.one("rl.toml", allow_experimental=flag).ok is accepted


@pytest.mark.parametrize("any_model", [False, True])
def test_a_model_of_no_catalogue_is_trained_elsewhere_when_that_is_said(world: World, any_model: bool) -> None:
    world.configs.files["sft.toml"] = SFT.replace("Qwen/Qwen3-4B", "org/of-my-own")
    assert world.one("sft.toml", backend="http://127.0.0.1:8000", any_model=any_model).ok is any_model


def test_a_named_env_file_can_allow_experimental_models(world: World) -> None:
    world.env.put("my.env", {"SDK_EXPERIMENTAL": "1"})
    world.configs.files["rl.toml"] = RL.replace("Qwen/Qwen3-4B", "Qwen/Qwen3-4B-Thinking-2507")
    assert world.one("rl.toml", env_files=(Path("my.env"),)).ok


# -- several configs


def test_several_configs_run_one_after_the_other(world: World) -> None:
    results = world.train("rl.toml", "sft.toml")
    assert [result.job_id for result in results] == [job.id for job in world.backend.jobs]
    assert [(begun.config, begun.ordinal, begun.of) for begun in world.progress.of(ConfigBegun)] == [
        ("rl.toml", 1, 2),
        ("sft.toml", 2, 2),
    ]


def test_a_broken_config_is_told_at_once_and_it_and_those_after_it_do_not_run(world: World) -> None:
    world.configs.files["broken.toml"] = "[job\n"
    results = world.train("rl.toml", "broken.toml", "sft.toml")
    assert [(result.ok, result.skipped) for result in results] == [(True, False), (False, False), (False, True)]
    assert [job.order.kind for job in world.backend.jobs] == [Kind.RL]
    told = [type(moment) for moment in world.progress.moments]
    assert told.index(ConfigFailed) < told.index(BackendChosen)
    assert world.progress.of(ConfigFailed)[0].error is results[1].error


def test_when_the_first_config_is_broken_no_key_is_even_looked_for(world: World) -> None:
    world.env.variables.clear()
    results = world.train("missing.toml", "sft.toml")
    assert isinstance(results[0].error, InvalidConfig)
    assert results[1].skipped


def test_a_job_that_fails_does_not_stop_the_next(world: World) -> None:
    world.backend.world.trainer.failure = "out of memory"
    assert [result.phase for result in world.train("rl.toml", "sft.toml")] == [Phase.FAILED, Phase.FAILED]


def test_what_concerns_one_config_alone_does_not_stop_the_next(world: World) -> None:
    world.task_app.trouble = Trouble.REFUSED
    first, second = world.train("rl.toml", "sft.toml")
    assert isinstance(first.error, TaskAppUnhealthy)
    assert second.ok
    world.backend.fail_next("create", BackendRefused("HTTP 402", status=402))
    first, second = world.train("sft.toml", "sft.toml")
    assert isinstance(first.error, BackendRefused)
    assert second.ok


def test_what_would_befall_the_next_config_too_ends_the_run(world: World) -> None:
    world.backend.fail_next("create", BackendUnreachable("refused", sent=False), times=9)
    first, second = world.train("rl.toml", "sft.toml")
    assert isinstance(first.error, BackendUnreachable)
    assert second.skipped
    assert len(world.progress.of(ConfigFailed)) == 1


def test_bad_rows_in_one_dataset_end_the_run(world: World) -> None:
    world.datasets.write("train.jsonl", b"{}\n")
    first, second = world.train("sft.toml", "rl.toml")
    assert isinstance(first.error, InvalidDataset)
    assert second.skipped


def test_one_key_of_the_users_becomes_one_for_each_config(world: World) -> None:
    world.train("rl.toml", "sft.toml", "rl.toml", key=IdempotencyKey("K"))
    assert [call.key for call in world.backend.called("create")] == ["K", "K-2", "K-3"]


def test_the_backend_is_asked_what_it_is_once_for_all_configs(world: World) -> None:
    world.train("rl.toml", "sft.toml")
    assert len(world.backend.called("features")) == 1


def test_an_option_that_makes_no_sense_ends_the_run_whatever_the_configs_are(world: World) -> None:
    with pytest.raises(UsageError, match="--task-url"):
        world.train("sft.toml", "rl.toml", task_url="nowhere")
    assert world.backends.connected == []


class Borrowing(InMemoryBackend):
    """A backend that has no keys of its own."""

    def seen_by(self, base: str, api_key: Secret | None) -> InMemoryBackend:
        return self

    def __init__(self, world: InMemoryHosting) -> None:
        super().__init__(world=world)
        self.borrowed: list[tuple[Secret, str, Path | None]] = []

    def lend_environment_key(self, keys: TaskAppKeys, *, name: str, file: Path | None) -> None:
        self.borrowed.append((keys.primary, name, file))


def test_a_backend_that_borrows_the_environment_key_is_told_where_it_stands(world: World) -> None:
    backend = Borrowing(world.backend.world)
    world.backends.backend = backend
    world.one("rl.toml")
    del world.env.variables["ENVIRONMENT_API_KEY"]
    path = world.env.put(".env", {"DEV_ENVIRONMENT_API_KEY": ENVIRONMENT_KEY})
    world.one("rl.toml")
    assert backend.borrowed == [
        (Secret(ENVIRONMENT_KEY), "ENVIRONMENT_API_KEY", None),
        (Secret(ENVIRONMENT_KEY), "DEV_ENVIRONMENT_API_KEY", path),
    ]


def test_a_dry_run_names_what_the_sft_wire_cannot_carry(world: World) -> None:
    world.configs.files["sft.toml"] = SFT + "weight_decay = 0.1\n"
    assert world.one("sft.toml", dry_run=True).ok
    assert [found.problem.key for found in world.progress.of(ProblemFound)] == ["hyperparameters.weight_decay"]


@pytest.mark.parametrize(
    ("config", "data", "shown"),
    [
        ("sft.toml", "train.jsonl", "train.jsonl:1"),
        ("cfg/sft.toml", "train.jsonl", "cfg/train.jsonl:1"),
        ("cfg/sft.toml", "../train.jsonl", "/repo/train.jsonl:1"),
    ],
)
def test_a_bad_row_is_named_as_somebody_would_type_it(world: World, config: str, data: str, shown: str) -> None:
    world.configs.files[config] = SFT.replace("train.jsonl", data)
    for path in ("train.jsonl", "cfg/train.jsonl"):
        world.datasets.write(path, b"{}\n")
    assert f"\n{shown}: messages: " in str(world.one(config).error)


@pytest.mark.parametrize(
    ("written", "option", "sent"),
    [
        ("tiny", None, "tiny"),
        ("org/name", None, "org/name"),
        ("./models/mine", None, "/repo/cfg/models/mine"),
        ("../mine", None, "/repo/mine"),
        ("tiny", "./mine", "/repo/mine"),
        ("/models/mine", None, "/models/mine"),
    ],
)
@pytest.mark.parametrize(("config", "kind"), [("cfg/sft.toml", "sft"), ("cfg/rl.toml", "rl")])
def test_a_model_folder_for_the_embedded_backend_is_looked_up_like_every_path(
    world: World, config: str, kind: str, written: str, option: str | None, sent: str
) -> None:
    world.datasets.write("cfg/train.jsonl", ROW)
    world.configs.files[config] = (SFT if kind == "sft" else RL).replace("Qwen/Qwen3-4B", written)
    if sent.startswith("/"):
        world.datasets.write(f"{sent}/config.json", b"{}")
    payload = world.one(config, dry_run=True, backend="local", model=option).payload
    assert payload is not None
    assert f'"{sent}"'.encode() in payload


def test_minting_beside_a_key_that_is_there_is_said_to_have_no_effect(world: World) -> None:
    assert world.one("rl.toml", mint=True).ok
    assert any("--mint has no effect: there is ENVIRONMENT_API_KEY in" in note for note in world.notes)
    assert world.progress.of(KeyMinted) == []
