"""Configs in the shapes that users of the public SDK have: none of them may be refused.

`benchmarks/shipped_tomls.py` does the same with the files of the SDK's wheel.
"""

from __future__ import annotations

import json

import pytest

from support.configs import planned
from synth_train.domain.model.catalog import Gate
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.specs import request_of

MATH_RL = """\
type = "rl"
[services]
task_url = "http://localhost:8101"
[model]
base = "Qwen/Qwen3-4B"
[policy]
model = "Qwen/Qwen3-4B"
inference_url = "https://inference.example"
max_tokens = 128
temperature = 0.0
[data]
split = "train"
seed_start = 0
[training]
max_turns = 1
ops = ["agent", "env"]
batch_size = 128
group_size = 1024
reward_positive = 1.0
learning_rate = 5e-6
[compute]
gpu_type = "A10G"
gpu_count = 4
[tags]
experiment = "math"
"""

GAME_RL = """\
[algorithm]
type = "online"
method = "policy_gradient"
variety = "gspo"
[services]
task_url = "https://YOUR-TASK-APP.modal.run"
judge_url = "https://judge.example/api"
[compute]
gpu_type = "H100"
gpu_count = 8
[topology]
type = "single_node_split"
gpus_for_vllm = 4
gpus_for_training = 3
gpus_for_ref = 1
tensor_parallel = 4
[vllm]
tensor_parallel_size = 4
max_model_len = 8192
[reference]
placement = "dedicated"
port = 8002
tp = 1
health_max_wait_s = 180
[model]
base = "Qwen/Qwen3-4B"
trainer_mode = "lora"
label = "stepwise"
[lora]
r = 16
alpha = 32
dropout = 0.05
target_modules = ["all-linear"]
[rollout]
env_name = "game"
policy_name = "react"
max_turns = 10
episodes_per_batch = 4
max_concurrent_rollouts = 8
batches_per_step = 2
ops = ["agent", "env"]
[rollout.env_config]
difficulty = "easy"
[rollout.env_config.step_rewards]
enabled = true
[rollout.policy_config]
temperature = 0.6
[evaluation]
instances = 16
every_n_iters = 10
seeds = [0, 1,
  2]
[training]
num_epochs = 1
iterations_per_epoch = 10
max_turns = 10
batch_size = 4
group_size = 4
learning_rate = 5e-5
log_interval = 1
weight_sync_interval = 1
async_semaphore_max = 4
event_rewards_kind = "unique"
step_rewards_enabled = true
step_rewards_mode = "decision_stepwise"
step_rewards_indicator_lambda = 1.0
step_rewards_beta = 0.0
step_rewards_weights = { wood = 1.0 }
[training.weight_sync]
enable = true
targets = ["policy"]
weight_sync_interval = 1
[rubric]
enabled = true
[rubric.weights]
env = 0.2
[judge]
type = "groq"
timeout_s = 45
[judge.options]
event = true
provider = "openai"
tracks = ["process"]
[judge.options.rubric_overrides.event]
criteria = [{ id = "a", weight = 1.0 }]
[judge.options.weights]
process = 0.4
"""

QLORA_SFT = """\
[job]
model = "Qwen/Qwen3-32B"
# data = "rows.jsonl"
[compute]
gpu_type = "H100"
gpu_count = 4
nodes = 1
[data]
topology = { container_count = 4 }
[training]
mode = "sft_offline"
use_qlora = true
[training.validation]
enabled = true
evaluation_strategy = "steps"
eval_steps = 20
[hyperparameters]
n_epochs = 1
per_device_batch = 1
gradient_accumulation_steps = 64
sequence_length = 4096
learning_rate = 5e-6
warmup_ratio = 0.03
world_size = 4
[hyperparameters.parallelism]
use_deepspeed = true
deepspeed_stage = 2
bf16 = true
eval_steps = 20
"""

VISION_SFT = """\
[algorithm]
type = "offline"
method = "sft"
variety = "lora"
[job]
model = "Qwen/Qwen3-VL-2B-Instruct"
description = "images"
modalities = ["text", "image"]
poll_seconds = 5
[training]
mode = "lora"
[hyperparameters]
n_epochs = 1
lora_rank = 16
lora_target_modules = ["all-linear"]
train_kind = "peft"
[model_config]
supports_vision = true
[tags]
task = "images"
[metadata.effective_config.compute]
gpu_type = "H200"
"""


@pytest.mark.parametrize(
    ("text", "kind", "unknown"),
    [
        (MATH_RL, Kind.RL, {"data", "training.ops", "training.reward_positive"}),
        (GAME_RL, Kind.RL, {"training.async_semaphore_max", "training.step_rewards_weights"}),
        (QLORA_SFT, Kind.SFT, {"hyperparameters.world_size", "hyperparameters.parallelism.eval_steps"}),
        (
            VISION_SFT,
            Kind.SFT,
            {
                "job.description",
                "job.modalities",
                "hyperparameters.lora_rank",
                "hyperparameters.lora_target_modules",
                "model_config",
            },
        ),
    ],
)
def test_a_config_of_a_usual_shape_is_accepted(text: str, kind: Kind, unknown: set[str]) -> None:
    dataset = "rows.jsonl" if kind is Kind.SFT else None
    plan = planned(text, dataset=dataset, task_url="https://t.example", gate=Gate(open=True))
    assert plan.kind is kind
    assert {problem.key for problem in plan.warnings} == unknown
    assert json.loads(request_of(plan, None, False).encode())


def test_all_of_an_rl_config_is_sent() -> None:
    plan = planned(GAME_RL)
    sent = json.loads(request_of(plan, None, False).encode())["data"]["config"]
    assert sent == json.loads(json.dumps(plan.table))
    assert sent["judge"]["options"]["rubric_overrides"] == {"event": {"criteria": [{"id": "a", "weight": 1.0}]}}
    assert sent["training"]["step_rewards_weights"] == {"wood": 1.0}
