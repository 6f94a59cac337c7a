"""What an RL request means on this machine, and what of it is said to have no effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

from synth_train.adapters.local.models import Method
from synth_train.adapters.local.rl.gspo import Clip
from synth_train.adapters.local.rl.sampler import Sampling
from synth_train.adapters.local.rl.settings import CLIP, LEARNING_RATES, Settings, settings_of
from synth_train.domain.model.hosting import Order, TrainingFailed
from synth_train.domain.model.jobs import Kind

URL = "http://127.0.0.1:8001"


def order(body: dict[str, Any], url: str = URL) -> Order:
    return Order(kind=Kind.RL, model="tiny", training_type="rl_online", task_url=url, body=json.dumps(body).encode())


def read(url: str = URL, **tables: Any) -> Settings:
    """The settings of a config with these tables."""
    return settings_of(order({"job_type": "rl", "data": {"model": "tiny", "config": tables}}, url))


def refusal(**tables: Any) -> str:
    with pytest.raises(TrainingFailed) as failed:
        read(**tables)
    return str(failed.value)


def test_a_config_that_says_nothing_trains_all_the_same() -> None:
    settings = read()
    assert settings.method is Method.FULL
    assert settings.learning_rate == LEARNING_RATES[Method.FULL]
    assert (settings.iterations, settings.prompts, settings.group) == (10, 8, 8)
    assert settings.sampling == Sampling(temperature=0.7, top_p=0.95, max_tokens=512)
    assert settings.clip == CLIP
    assert settings.ops == ("agent", "env")
    assert settings.warnings == ()


def test_all_that_has_an_effect_is_read() -> None:
    settings = read(
        model={"base": "tiny", "trainer_mode": "LoRA", "label": "mine"},
        lora={"r": 4},
        vllm={"max_model_len": 512},
        reference={"placement": "shared"},
        rollout={
            "env_name": "sums",
            "policy_name": "p",
            "max_turns": 2,
            "episodes_per_batch": 12,
            "max_concurrent_rollouts": 3,
            "batches_per_step": 2,
            "ops": ["agent", "env"],
            "env_config": {"level": 1},
            "policy_config": {"temperature": 1, "max_tokens": 9, "stop": "END"},
        },
        training={
            "num_epochs": 2,
            "iterations_per_epoch": 5,
            "max_turns": 2,
            "batch_size": 3,
            "group_size": 4,
            "learning_rate": 1e-4,
            "gradient_accumulation_steps": 2,
            "log_interval": 3,
            "weight_sync_interval": 4,
        },
        evaluation={"instances": 2, "every_n_iters": 5, "seeds": [7, 8, 9]},
        policy={"top_p": 0.5, "top_k": 7, "repetition_penalty": 1.1, "temperature": 0.1},
        local={
            "seed": 5,
            "threads": 1,
            "device": "cpu",
            "dtype": "float32",
            "minibatches": 3,
            "clip_low": 0.1,
            "clip_high": 0.2,
            "kl_weight": 0.5,
            "max_grad_norm": 2,
            "rollout_timeout": 60,
            "max_batch": 10,
            "max_batch_tokens": 1000,
            "checkpoint_steps": 7,
            "merge": True,
            "policy_port": 9999,
            "policy_host": "0.0.0.0",
        },
    )
    assert settings.warnings == ()
    assert (settings.method, settings.label, settings.context) == (Method.LORA, "mine", 512)
    assert (settings.prompts, settings.group, settings.at_once, settings.iterations) == (6, 4, 3, 10)
    assert settings.env == {"env_name": "sums", "config": {"level": 1}}
    assert (settings.policy_name, settings.ops) == ("p", ("agent", "env", "agent", "env"))
    assert settings.sampling == Sampling(
        temperature=1, top_p=0.5, top_k=7, repetition_penalty=1.1, max_tokens=9, stop=("END",)
    )
    assert (settings.learning_rate, settings.accumulation, settings.report_every) == (1e-4, 2, 3)
    assert (settings.sync_every, settings.evaluation_seeds, settings.evaluate_every) == (4, (7, 8), 5)
    assert (settings.seed, settings.threads, settings.device, settings.dtype) == (5, 1, "cpu", "float32")
    assert (settings.minibatches, settings.clip, settings.max_grad_norm) == (3, Clip(low=0.1, high=0.2), 2)
    assert (settings.reference, settings.kl_weight) == (True, 0.5)
    assert (settings.rollout_timeout, settings.max_batch, settings.max_batch_tokens) == (60, 10, 1000)
    assert (settings.checkpoint_every, settings.merge) == (7, True)
    assert (settings.policy_host, settings.policy_port, settings.policy_url) == ("0.0.0.0", 9999, None)


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({"compute": {"gpu_type": "H100", "gpu_count": 2}}, "2 H100"),
        ({"compute": {"nodes": 2}}, "compute.nodes"),
        ({"topology": {"type": "split", "gpus_for_vllm": 1}}, "topology (type, gpus_for_vllm)"),
        ({"compute": {"topology": {"tensor_parallel": 2}}}, "compute.topology (tensor_parallel)"),
        ({"vllm": {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.9}}, "vllm (tensor_parallel_size, gpu_mem"),
        ({"reference": {"placement": "dedicated"}}, "reference.placement"),
        ({"reference": {"placement": "none", "port": 8002}}, "reference (port)"),
        ({"policy": {"inference_url": "http://x"}}, "policy.inference_url"),
        ({"services": {"judge_url": "http://x"}}, "services.judge_url"),
        ({"services": {"environment": "old"}}, "services.environment"),
        ({"training": {"weight_sync": {"enable": False}}}, "training.weight_sync.enable"),
        ({"training": {"weight_sync": {"mode": "nccl", "verify_every_k": 2}}}, "weight_sync (mode, verify_every_k)"),
        ({"rollout": {"episodes_per_batch": 7}}, "rollout.episodes_per_batch is 7"),
        ({"rollout": {"max_turns": 2}, "training": {"max_turns": 3}}, "training.max_turns is 3"),
        ({"training": {"max_accumulated_minibatch": 2}}, "training.max_accumulated_minibatch"),
        ({"evaluation": {"instances": 5, "every_n_iters": 1, "seeds": [1]}}, "evaluation.instances is 5"),
        ({"evaluation": {"seeds": [1]}}, "every_n_iters"),
        ({"training": {"step_rewards_enabled": True, "step_rewards_beta": 0.1}}, "training.step_rewards_enabled, tr"),
        ({"training": {"rewards": {"event_rewards_kind": "unique"}}}, "training.rewards.event_rewards_kind"),
        ({"judge": {"type": "gemini"}}, "judge"),
        ({"rubric": {"goal": "x"}}, "rubric"),
        ({"lora": {"r": 4}, "model": {"trainer_mode": "full"}}, "lora has no effect"),
        ({"training": {"entropy": 1}}, "training.entropy is not known here"),
    ],
)
def test_what_has_no_effect_here_is_named(tables: dict[str, Any], named: str) -> None:
    (warning,) = read(**tables).warnings
    assert named in warning


@pytest.mark.parametrize(
    "tables",
    [
        {"topology": {"reference_placement": "none"}},
        {"reference": {"placement": "none"}},
        {"training": {"weight_sync": {"enable": True, "mode": "direct", "targets": ["policy"], "interval": 2}}},
        {"rollout": {"episodes_per_batch": 64}},
        {"training": {"step_rewards_enabled": False, "step_rewards_mode": "off"}},
        {"judge": {"enabled": False}},
        {"services": {"task_url": URL}, "tags": {"a": "b"}, "metadata": {"c": "d"}},
        {"compute": {"gpu_count": 0, "nodes": 1}},
    ],
)
def test_what_asks_for_what_is_done_anyway_is_not_worth_a_warning(tables: dict[str, Any]) -> None:
    assert read(**tables).warnings == ()


@pytest.mark.parametrize(
    ("training", "interval"),
    [
        ({}, 1),
        ({"weight_sync_interval": 3}, 3),
        ({"weight_sync_interval": 3, "weight_sync": {"interval": 2}}, 2),
        ({"weight_sync": {"weight_sync_interval": 4}}, 4),
    ],
)
def test_the_sync_interval_stands_in_either_place(training: dict[str, Any], interval: int) -> None:
    assert read(training=training).sync_every == interval


@pytest.mark.parametrize(
    ("ops", "turns", "made"),
    [
        (["agent", "env"], 3, ("agent", "env") * 3),
        (["env", "agent", "env"], 2, ("env", "agent", "env", "env", "agent", "env", "env")),
        (["policy", "env", "policy", "env"], 2, ("policy", "env", "policy", "env")),
        (["agent", "env", "agent", "env"], 1, ("agent", "env")),
    ],
)
def test_ops_are_repeated_until_the_policy_had_its_turns(ops: list[str], turns: int, made: tuple[str, ...]) -> None:
    assert read(rollout={"ops": ops, "max_turns": turns}).ops == made


def test_an_lora_table_alone_is_enough_for_lora() -> None:
    settings = read(training={"lora": {"r": 3}})
    assert settings.method is Method.LORA
    assert read(lora={"r": 4}).learning_rate == LEARNING_RATES[Method.LORA]


def test_every_epoch_sees_the_same_seeds_and_never_those_of_the_evaluation() -> None:
    settings = read(
        training={"num_epochs": 2, "iterations_per_epoch": 2, "batch_size": 3},
        evaluation={"every_n_iters": 1, "seeds": [1, 4, 99]},
    )
    assert [settings.seeds(iteration) for iteration in range(1, 5)] == [[0, 2, 3], [5, 6, 7]] * 2


def test_without_seeds_the_evaluation_takes_those_that_training_does_not_reach() -> None:
    settings = read(
        training={"iterations_per_epoch": 5, "batch_size": 4}, evaluation={"instances": 3, "every_n_iters": 1}
    )
    assert settings.evaluation_seeds == (20, 21, 22)


def test_only_an_app_on_this_machine_is_near() -> None:
    assert not read("http://localhost:8001").remote
    assert read("https://task.example").remote


def test_a_policy_url_brings_its_port_unless_another_is_given() -> None:
    near = read(local={"policy_url": "http://10.0.0.5:9000/v1/"})
    assert (near.policy_url, near.policy_port) == ("http://10.0.0.5:9000", 9000)
    tunnel = read(local={"policy_url": "https://tunnel.example/abc", "policy_port": 7000})
    assert (tunnel.policy_url, tunnel.policy_port) == ("https://tunnel.example/abc", 7000)


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"model": {"trainer_mode": "half"}}, "model.trainer_mode is 'half': there are full, lora and qlora"),
        ({"training": {"group_size": 1}}, "training.group_size: must be at least 2, not 1"),
        ({"training": {"batch_size": "8"}, "rollout": {"max_turns": 0}}, "training.batch_size"),
        ({"rollout": {"ops": ["env"]}}, "never lets the policy act"),
        ({"rollout": {"policy_config": {"temperature": "hot"}}}, "rollout.policy_config"),
        ({"rollout": {"policy_config": {"max_tokens": 0}}}, "max_tokens"),
        ({"local": {"policy_url": "https://tunnel.example"}}, "local.policy_port"),
        ({"local": {"policy_url": "tunnel.example"}}, "local.policy_url does not begin with http"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_name(tables: dict[str, Any], says: str) -> None:
    assert says in refusal(**tables)


def test_all_problems_are_named_at_once() -> None:
    said = refusal(training={"group_size": 1, "batch_size": 0})
    assert "training.group_size" in said
    assert "training.batch_size" in said


def test_other_shapes_of_the_request_are_read_as_well() -> None:
    library = settings_of(order({"job_type": "rl", "data": {"trainer": {"batch_size": 2, "group_size": 3}}}))
    flat = settings_of(order({"model": "tiny", "config": {"training": {"batch_size": 5}}}))
    assert (library.prompts, library.group, flat.prompts) == (2, 3, 5)
