"""RL on this machine: `tiny` really learns from a task app's rewards, with one thread and fixed seeds."""

from __future__ import annotations

import importlib
import json
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from support.rl_jobs import RlWorkshop
from support.task_apps import Ask, TaskAppServer, brackets, two_turns, user
from support.training_runs import Run
from synth_train.adapters.local.background import Stop
from synth_train.adapters.local.checkpoints import Checkpoints
from synth_train.adapters.local.rl.policy import Policy
from synth_train.adapters.local.rl.rollouts import Failure, Rollout, Wish, side_by_side
from synth_train.adapters.local.rl.sampler import Answer, Sampler, Sampling
from synth_train.adapters.local.rl.sampler import Ask as Request
from synth_train.adapters.local.rl.settings import settings_of
from synth_train.adapters.local.rl.training import Loop
from synth_train.domain.model.hosting import Note, Step, TrainingFailed

# peft asks transformers for what transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

SHORT: dict[str, Any] = {
    "rollout": {"policy_config": {"max_tokens": 6}},
    "training": {"iterations_per_epoch": 3, "batch_size": 2, "group_size": 3},
}
"""A job of a second or two, which learns next to nothing."""


@pytest.fixture
def workshop(tmp_path: Path) -> RlWorkshop:
    return RlWorkshop(tmp_path)


def config(**tables: dict[str, Any]) -> dict[str, Any]:
    """`SHORT` and more."""
    return {name: {**SHORT.get(name, {}), **tables.get(name, {})} for name in SHORT.keys() | tables.keys()}


def vowels(seed: int, ask: Ask) -> float:
    """The share of vowels: no two rollouts are quite the same."""
    text = ask([user(f"Say a, {seed}")])["content"]
    return sum(letter in "aeiou" for letter in text) / 10 + len(text) / 100


def failing(*seeds: int) -> Any:
    return lambda request: (422, {"detail": "no such seed"}) if request["env"]["seed"] in seeds else None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def last_of(run: Run, count: int = 5) -> float:
    rewards = list(run.curve("train.reward_mean").values())[-count:]
    return sum(rewards) / len(rewards)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that has learnt something, for the tests that look at what one tells and leaves."""
    workshop = RlWorkshop(tmp_path_factory.mktemp("learnt"))
    with TaskAppServer(brackets) as app:
        task = workshop.task(app.url, {"evaluation": {"instances": 8, "every_n_iters": 8, "seeds": [*range(900, 908)]}})
        return workshop.train(task)


def test_answer_in_brackets_is_learned(learnt: Run) -> None:
    rewards = learnt.curve("train.reward_mean")
    assert rewards[1] < 0.6
    assert last_of(learnt) > 0.8


def test_a_game_of_two_turns_is_learned(workshop: RlWorkshop) -> None:
    more = {
        "rollout": {"max_turns": 2, "policy_config": {"max_tokens": 8}},
        "training": {"iterations_per_epoch": 18},
    }
    with TaskAppServer(two_turns) as app:
        run = workshop.train(workshop.task(app.url, more))
        assert app.requests[0]["ops"] == ["agent", "env", "agent", "env"]
    assert run.curve("train.reward_mean")[1] < 0.5
    assert last_of(run) > 0.8
    assert set(run.curve("rollout.turns").values()) == {2.0}


def test_each_iteration_tells_what_there_is_to_know_from_step_1_on(learnt: Run) -> None:
    assert [step.step for step in learnt.steps] == list(range(1, 21))
    assert {step.total for step in learnt.steps} == {20}
    for step in learnt.steps:
        assert step.points.keys() - {"eval.reward_mean"} == {
            "train.loss",
            "train.reward_mean",
            "train.reward_std",
            "train.kl",
            "train.clip_share",
            "train.grad_norm",
            "train.learning_rate",
            "train.tokens_per_second",
            "rollout.seconds",
            "rollout.turns",
            "rollout.tokens",
            "rollout.failed",
            "time.generation",
            "time.task_app",
            "time.update",
        }
        assert all(math.isfinite(value) for value in step.points.values())


def test_several_minibatches_make_clipping_and_divergence_visible(learnt: Run) -> None:
    first = learnt.steps[0].points
    assert 0 < first["train.clip_share"] < 1
    assert first["train.kl"] > 0
    assert first["train.grad_norm"] > 0


def test_rewards_are_told_as_a_histogram(learnt: Run) -> None:
    notes = learnt.notes("metrics")
    assert [note.data["step"] for note in notes] == list(range(1, 21))
    histogram: Any = notes[0].data["reward_histogram"]
    assert sum(histogram["counts"]) == 64
    assert len(histogram["edges"]) == len(histogram["counts"]) + 1
    assert (histogram["edges"][0], histogram["edges"][-1]) == (0.0, 1.0)


def test_held_out_seeds_are_evaluated_every_so_often_and_at_the_end(learnt: Run) -> None:
    evaluated = learnt.curve("eval.reward_mean")
    assert list(evaluated) == [8, 16, 20]
    assert evaluated[20] > 0.7
    assert [note.data["step"] for note in learnt.notes("eval.summary")] == [8, 16, 20]
    assert len(learnt.notes("eval.started")) == 3


def test_transformers_loads_the_model_and_it_answers_in_brackets(learnt: Run) -> None:
    model = AutoModelForCausalLM.from_pretrained(learnt.folder.model)
    tokenizer = AutoTokenizer.from_pretrained(learnt.folder.model)
    prompt: Any = tokenizer.apply_chat_template(
        [user("Hi")], add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    torch.manual_seed(0)
    said = model.generate(prompt.repeat(16, 1), do_sample=True, top_k=0, max_new_tokens=16)
    texts = tokenizer.batch_decode(said[:, prompt.shape[1] :])
    assert sum(any(letter in text for letter in "([{<") for text in texts) >= 12


def test_what_the_model_was_made_of_lies_beside_it(learnt: Run) -> None:
    about = json.loads((learnt.folder.model / "provenance.json").read_text())
    assert about["base"]["name"] == "tiny"
    assert about["seed"] == 1
    assert about["config"]["training"]["group_size"] == 8
    assert about["versions"]["torch"] == torch.__version__
    assert about["metrics"]["train.reward_mean"] == learnt.steps[-1].points["train.reward_mean"]


def test_tensorboard_finds_the_curves(learnt: Run) -> None:
    events: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")  # has no types
    read = events.EventAccumulator(str(learnt.folder.path / "tensorboard"), size_guidance={"histograms": 0})
    read.Reload()
    curve = {point.step: point.value for point in read.Scalars("train/reward_mean")}
    assert curve == pytest.approx(learnt.curve("train.reward_mean"))
    assert len(read.Histograms("train/reward")) == 20


def test_no_checkpoint_is_left_of_a_job_that_is_done(learnt: Run) -> None:
    assert not learnt.folder.checkpoints.exists()


def test_what_a_rollout_raises_by_mistake_comes_out_and_no_other_is_begun() -> None:
    begun: list[int] = []

    def task(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ZeroDivisionError
        return number

    def bound(number: int) -> Callable[[], int]:
        return lambda: task(number)

    with pytest.raises(ZeroDivisionError):
        side_by_side([bound(number) for number in range(5)], 1, Stop())
    assert begun == [0, 1]
    assert side_by_side([bound(number) for number in (3, 2)], 2, Stop()) == [3, 2]


def test_the_same_seed_gives_the_same_curve_with_one_rollout_in_flight(tmp_path: Path) -> None:
    one_by_one = config(rollout={"max_concurrent_rollouts": 1, **SHORT["rollout"]})

    def curve(name: str, seed: int) -> dict[str, dict[int, float]]:
        workshop = RlWorkshop(tmp_path / name)
        with TaskAppServer(vowels) as app:
            run = workshop.train(workshop.task(app.url, {**one_by_one, "local": {"seed": seed}}))
            assert app.most_at_once == 1
        names = ("train.reward_mean", "train.loss", "train.grad_norm", "train.kl", "rollout.tokens")
        return {name: run.curve(name) for name in names}

    first = curve("first", 3)
    assert curve("second", 3) == first
    assert curve("third", 4) != first


def test_no_more_rollouts_than_asked_for_are_in_flight(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as app:
        workshop.train(workshop.task(app.url, config(rollout={"max_concurrent_rollouts": 3, **SHORT["rollout"]})))
        assert 1 < app.most_at_once <= 3
        assert len(app.requests) == 3 * 2 * 3


def test_rollout_requests_are_as_the_contract_has_them(workshop: RlWorkshop) -> None:
    more = config(
        rollout={
            "env_name": "cards",
            "policy_name": "player",
            "env_config": {"decks": 2},
            "policy_config": {"max_tokens": 6, "own": "thing"},
        },
        evaluation={"every_n_iters": 3, "seeds": [1]},
    )
    with TaskAppServer(vowels) as app:
        workshop.train(workshop.task(app.url, more))
        requests = app.requests
    trained, (held_out,) = requests[:18], requests[18:]
    assert Counter(request["env"]["seed"] for request in trained) == dict.fromkeys((0, 2, 3, 4, 5, 6), 3)
    assert {request["mode"] for request in trained} == {"rl"}
    assert (held_out["mode"], held_out["env"]["seed"]) == ("eval", 1)
    assert len({request["run_id"] for request in requests}) == 19
    first = requests[0]
    assert held_out["env"] == {"env_name": "cards", "config": {"decks": 2}, "seed": 1}
    assert first["policy"]["policy_name"] == "player"
    sent = first["policy"]["config"]
    cid = sent["trace_correlation_id"]
    assert sent["inference_url"].endswith(f"/v1/chat/completions?cid={cid}")
    assert {"temperature": 1.0, "top_p": 1.0, "max_tokens": 6, "own": "thing", "model": "tiny"}.items() <= sent.items()
    assert first["ops"] == ["agent", "env"]
    assert first["record"]["trajectories"] is True
    assert first["training_session_id"] == "job_1"


def test_failed_rollouts_are_left_out_and_told(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels, trouble=failing(1, 2)) as app:
        run = workshop.train(workshop.task(app.url, SHORT))
    assert list(run.curve("rollout.failed").values()) == [3.0, 3.0, 0.0]
    assert len(run.steps) == 3
    message = run.notes("rollouts.failed")[0].message
    assert "422: no such seed (3 of 6)" in message


def test_a_rollout_that_is_tried_again_is_another_one(workshop: RlWorkshop) -> None:
    def first_try_fails(request: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        return (503, {"detail": "busy"}) if request["run_id"].endswith("-1") else None

    few = config(training={"iterations_per_epoch": 1, "batch_size": 1, "group_size": 2})
    with TaskAppServer(vowels, trouble=first_try_fails) as app:
        run = workshop.train(workshop.task(app.url, few))
        assert len({request["run_id"] for request in app.requests}) == 4
    assert run.curve("rollout.failed") == {1: 0.0}
    assert run.curve("rollout.turns") == {1: 1.0}


def test_an_evaluation_that_fails_costs_its_point_and_not_the_job(workshop: RlWorkshop) -> None:
    more = config(evaluation={"every_n_iters": 3, "seeds": [500]})
    with TaskAppServer(vowels, trouble=failing(500)) as app:
        run = workshop.train(workshop.task(app.url, more))
    assert run.curve("eval.reward_mean") == {}
    assert run.notes("rollouts.failed")[0].message.startswith("Evaluation: rollouts failed: ")


@pytest.mark.filterwarnings("ignore:.*overflow:RuntimeWarning")
def test_a_loss_that_is_no_number_any_more_ends_the_job_in_words(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as app, pytest.raises(TrainingFailed, match=r"no number any more: lower training\.lear"):
        workshop.train(workshop.task(app.url, config(training={**SHORT["training"], "learning_rate": 1e30})))


def test_what_breaks_in_sampling_breaks_the_job_and_not_only_its_rollouts(workshop: RlWorkshop) -> None:
    def broken(asks: Sequence[Request]) -> list[Answer]:
        raise torch.OutOfMemoryError

    def play(wishes: Sequence[Wish]) -> list[Rollout | Failure]:
        with pytest.raises(torch.OutOfMemoryError):
            sampler.ask(Request(prompt=(1,), sampling=Sampling(), seed=1))
        return [Failure(seed=wish.seed, reason="the policy answered 500") for wish in wishes]

    task = workshop.task("http://127.0.0.1:9", SHORT)
    sampler = Sampler(broken, under_way=lambda: 1)
    loop = Loop(
        settings=settings_of(task.job.order),
        job=task.job,
        policy=cast(Policy, None),  # there is no update
        sampler=sampler,
        play=play,
        unheeded=tuple,
        checkpoints=Checkpoints(workshop.folder(task.job).checkpoints),
        folder=workshop.folder(task.job),
        say=lambda happening: None,
        stop=Stop(),
    )
    with pytest.raises(torch.OutOfMemoryError):
        loop.run()
    sampler.stop()


def test_a_job_of_which_no_rollout_works_fails_and_says_why(workshop: RlWorkshop) -> None:
    with (
        TaskAppServer(vowels, trouble=failing(2, 3)) as app,
        pytest.raises(TrainingFailed, match=r"no rollout of iteration 2 can be trained on: .*no such seed \(6 of 6\)"),
    ):
        workshop.train(workshop.task(app.url, SHORT))


def test_an_app_that_drops_the_query_is_told_so(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels, forgets_cid=True) as app, pytest.raises(TrainingFailed, match="without the cid"):
        workshop.train(workshop.task(app.url, SHORT))


def test_an_app_that_never_asks_the_policy_is_told_so(workshop: RlWorkshop) -> None:
    with TaskAppServer(lambda seed, ask: 1.0) as app, pytest.raises(TrainingFailed, match="never got an answer"):
        workshop.train(workshop.task(app.url, SHORT))


def test_an_app_on_another_machine_is_refused_before_it_is_asked(workshop: RlWorkshop) -> None:
    with pytest.raises(TrainingFailed, match=r"https://task\.example is on another machine.*local\.policy_url"):
        workshop.train(workshop.task("https://task.example", SHORT))


def test_a_port_that_is_taken_is_named(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as app, pytest.raises(TrainingFailed, match=r"local\.policy_port"):
        workshop.train(workshop.task(app.url, config(local={"policy_port": int(app.url.rpartition(":")[2])})))


def test_qlora_is_refused_where_it_cannot_be_had(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as app, pytest.raises(TrainingFailed, match="QLoRA needs a CUDA device"):
        workshop.train(workshop.task(app.url, config(model={"trainer_mode": "qlora"})))
    assert app.requests == []


def test_a_policy_url_is_what_the_app_gets_and_one_that_leads_nowhere_is_a_warning(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as elsewhere, TaskAppServer(vowels) as app:
        task = workshop.task(
            app.url, config(local={"policy_url": f"{elsewhere.url}/tunnel", "policy_port": free_port()})
        )
        with pytest.raises(TrainingFailed, match="never got an answer"):
            workshop.train(task)
        sent = app.requests[0]["policy"]["config"]["inference_url"]
        assert sent.startswith(f"{elsewhere.url}/tunnel/v1/chat/completions?cid=")


def test_a_policy_url_that_leads_here_is_used_without_a_word(workshop: RlWorkshop) -> None:
    url = f"http://localhost:{free_port()}"
    with TaskAppServer(vowels) as app:
        run = workshop.train(workshop.task(app.url, config(local={"policy_url": url})))
        assert app.requests[0]["policy"]["config"]["inference_url"].startswith(f"{url}/v1/chat/completions?cid=")
    assert run.warnings == []
    assert len(run.steps) == 3


def test_a_context_longer_than_the_model_reads_is_a_warning(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as app:
        run = workshop.train(workshop.task(app.url, config(vllm={"max_model_len": 100_000})))
    assert run.warnings == ["vllm.max_model_len is 100000, but tiny reads 4096 tokens"]


def test_rewards_that_do_not_differ_are_said_to_teach_nothing_once(workshop: RlWorkshop) -> None:
    def dull(seed: int, ask: Ask) -> float:
        ask([user("Hi")])
        return -1.0

    with TaskAppServer(dull) as app:
        run = workshop.train(workshop.task(app.url, SHORT))
    assert [warning[:29] for warning in run.warnings] == ["iteration 1 taught nothing: o"]
    assert set(run.curve("train.loss").values()) == {0.0}
    assert len(run.steps) == 3


def test_what_has_no_effect_is_said_once(workshop: RlWorkshop) -> None:
    def picky(seed: int, ask: Ask) -> float:
        return len(ask([user("Hi")], response_format={"type": "json_object"})["content"]) / 10

    with TaskAppServer(picky) as app:
        run = workshop.train(workshop.task(app.url, config(judge={"type": "x"}, local={"device": "cuda"})))
    judge, device, asked = run.warnings
    assert judge.startswith("judge has no effect")
    assert "local.device is 'cuda'" in device
    assert "response_format" in asked


def test_reports_over_several_iterations_hold_means_and_sums(tmp_path: Path) -> None:
    def curves(name: str, every: int) -> Run:
        workshop = RlWorkshop(tmp_path / name)
        with TaskAppServer(vowels, trouble=failing(1, 2)) as app:
            return workshop.train(workshop.task(app.url, config(training={**SHORT["training"], "log_interval": every})))

    each, some = curves("each", 1), curves("some", 2)
    rewards, failed = each.curve("train.reward_mean"), each.curve("rollout.failed")
    assert [step.step for step in some.steps] == [2, 3]
    assert some.curve("train.reward_mean")[2] == pytest.approx((rewards[1] + rewards[2]) / 2, abs=1e-3)
    assert some.curve("rollout.failed")[2] == failed[1] + failed[2]


def test_new_weights_are_sampled_with_only_after_a_sync(tmp_path: Path) -> None:
    def rewards(name: str, learning_rate: float, interval: int) -> dict[int, float]:
        more = {"learning_rate": learning_rate, "weight_sync_interval": interval, "iterations_per_epoch": 4}
        workshop = RlWorkshop(tmp_path / name)
        with TaskAppServer(vowels) as app:
            run = workshop.train(workshop.task(app.url, config(training={**SHORT["training"], **more})))
        return run.curve("train.reward_mean")

    still, every, second = rewards("still", 1e-9, 1), rewards("every", 1e-2, 1), rewards("second", 1e-2, 2)
    assert every[2] != still[2]
    assert second[2] == pytest.approx(still[2])
    assert second[3] != still[3]


@pytest.mark.parametrize("local", [{"max_batch_tokens": 40}, {}])
def test_how_an_update_is_cut_into_passes_does_not_change_it(tmp_path: Path, local: dict[str, Any]) -> None:
    def norms(name: str, more: dict[str, Any]) -> dict[int, float]:
        workshop = RlWorkshop(tmp_path / name)
        with TaskAppServer(vowels) as app:
            return workshop.train(workshop.task(app.url, config(**more))).curve("train.grad_norm")

    passes = {"training": {**SHORT["training"], "gradient_accumulation_steps": 3}, "local": {**local, "minibatches": 2}}
    assert norms("cut", passes) == pytest.approx(norms("whole", {"local": {"minibatches": 2}}), rel=1e-3)


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_half_precision_and_a_reference_go_with_either_way_of_training(workshop: RlWorkshop, mode: str) -> None:
    more = config(
        model={"trainer_mode": mode},
        reference={"placement": "shared"},
        local={"dtype": "bfloat16", "kl_weight": 0.1},
        training={**SHORT["training"], "learning_rate": 1e-3},
    )
    with TaskAppServer(vowels) as app:
        run = workshop.train(workshop.task(app.url, more))
    kl = run.curve("train.kl")
    assert 0 <= kl[1] < kl[3] < 1
    assert AutoModelForCausalLM.from_pretrained(run.folder.model) is not None


def test_a_killed_job_goes_on_from_its_last_complete_checkpoint_to_the_same_curve(tmp_path: Path) -> None:
    more = config(
        training={**SHORT["training"], "iterations_per_epoch": 5, "weight_sync_interval": 2},
        local={"checkpoint_steps": 1},
        model={"trainer_mode": "lora"},
        lora={"r": 4, "dropout": 0.1},
        reference={"placement": "shared"},
    )
    with TaskAppServer(vowels) as app:
        whole = RlWorkshop(tmp_path / "whole")
        undisturbed = whole.train(whole.task(app.url, more))
        workshop = RlWorkshop(tmp_path / "killed")
        broken = workshop.train(workshop.task(app.url, more), until_step=4)
        broken.folder.checkpoints.joinpath("step-99.new").mkdir()
        before = len(app.requests)
        run = workshop.train(workshop.task(app.url, more, claims=2))
        again = app.requests[before:]
    assert run.notes("resumed")[0].message.startswith("Goes on after iteration ")
    resumed_at = run.steps[0].step
    assert resumed_at in (4, 5)  # the generator may be closed before the last checkpoint is whole
    for name in ("train.reward_mean", "train.loss", "train.grad_norm", "train.kl"):
        later = {step: value for step, value in undisturbed.curve(name).items() if step >= resumed_at}
        assert run.curve(name) == pytest.approx(later, abs=1e-4)
    assert not {one["run_id"] for one in again} & {one["run_id"] for one in app.requests[:before]}


def test_a_job_whose_worker_died_after_the_model_was_saved_is_done(workshop: RlWorkshop) -> None:
    with TaskAppServer(vowels) as app:
        workshop.train(workshop.task(app.url, SHORT))
        played = len(app.requests)
        run = workshop.train(workshop.task(app.url, SHORT, claims=2))
        assert len(app.requests) == played
    assert run.steps == []
    assert run.folder.model.is_dir()


def test_closing_stops_soon_even_while_the_app_thinks(workshop: RlWorkshop) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(seed: int, ask: Ask) -> float:
        asked.set()
        go_on.wait(60)
        return 0.0

    with TaskAppServer(slow) as app:
        happenings = workshop.begin(workshop.task(app.url, SHORT))
        for _ in happenings:
            if asked.is_set():
                break
        began = time.monotonic()
        happenings.close()
        assert time.monotonic() - began < 5
        go_on.set()
    assert not any(thread.name == "synth-train training" for thread in threading.enumerate())


def test_an_adapter_is_trained_on_a_base_and_saved_as_one(tmp_path: Path, learnt: Run) -> None:
    workshop = RlWorkshop(tmp_path)
    more = config(model={"trainer_mode": "lora"}, lora={"r": 4, "target_modules": ["q_proj", "v_proj"]})
    with TaskAppServer(vowels) as app:
        run = workshop.train(workshop.task(app.url, more, model=str(learnt.folder.model)))
    assert {one.name for one in run.folder.model.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    told = json.loads((run.folder.model / "adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == str(learnt.folder.model)
    assert sorted(told["target_modules"]) == ["q_proj", "v_proj"]
    assert any(isinstance(one, Step) for one in run.told)
    assert not any(isinstance(one, Note) and "random weights" in one.message for one in run.told)
