"""The bodies that go over the wire (wire-contract §2.5, §3.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from support.configs import RL, SFT, planned
from synth_train.domain.model.jobs import FileId
from synth_train.domain.model.places import Severity
from synth_train.domain.model.plan import Plan
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.specs import RlRequest, SftRequest, not_sent, request_of


def body(plan: Plan, *, base: str | None = "https://b.example", takes_config: bool = False) -> Any:
    return json.loads(request_of(plan, base, takes_config).encode())


def sft_request(plan: Plan) -> SftRequest:
    request = request_of(plan, None, False)
    assert isinstance(request, SftRequest)
    return request


# -- RL


def test_an_rl_job_is_posted_as_the_contract_has_it() -> None:
    assert body(planned(RL + '[compute]\ngpu_type = "H100"\ngpu_count = 2\nextra = 1\n')) == {
        "job_type": "rl",
        "compute": {"gpu_type": "H100", "gpu_count": 2, "extra": 1},
        "data": {
            "endpoint_base_url": "https://task.example",
            "config": {
                "algorithm": {"type": "online", "method": "policy_gradient", "variety": "gspo"},
                "services": {"task_url": "https://task.example"},
                "model": {"base": "Qwen/Qwen3-1.7B"},
                "compute": {"gpu_type": "H100", "gpu_count": 2, "extra": 1},
                "reference": {"placement": "none"},
            },
            "base_model": "Qwen/Qwen3-1.7B",
        },
        "tags": {"source": "train-cli"},
        "metadata": {"backend_base_url": "https://b.example"},
    }


def test_the_task_url_stands_in_both_places_and_loses_its_slashes_in_one() -> None:
    data = body(planned(RL + "[services.more]\nx = 1\n", task_url="http://t:1/a//"))["data"]
    assert data["endpoint_base_url"] == "http://t:1/a"
    assert data["config"]["services"] == {"task_url": "http://t:1/a//", "more": {"x": 1}}


def test_a_fine_tuned_model_goes_out_as_model_and_the_table_keeps_its_own() -> None:
    data = body(planned(RL, model="ft:Qwen/Qwen3-4B:job_1"))["data"]
    assert data["model"] == "ft:Qwen/Qwen3-4B:job_1"
    assert "base_model" not in data
    assert data["config"]["model"] == {"base": "Qwen/Qwen3-1.7B"}


def test_a_reference_keeps_what_it_has() -> None:
    config = body(planned(RL + '[reference]\nplacement = "shared"\nport = 8002\n'))["data"]["config"]
    assert config["reference"] == {"placement": "shared", "port": 8002}
    config = body(planned(RL + "[reference]\nport = 8002\n"))["data"]["config"]
    assert config["reference"] == {"placement": "none", "port": 8002}


def test_a_topology_inside_compute_gets_a_reference_placement_in_the_config() -> None:
    sent = body(planned(RL + "[compute.topology]\ngpus_for_vllm = 1\n"))
    assert sent["data"]["config"]["compute"] == {"topology": {"reference_placement": "none", "gpus_for_vllm": 1}}
    assert sent["compute"] == {"topology": {"gpus_for_vllm": 1}}


def test_without_compute_an_empty_table_is_sent_and_without_a_backend_no_metadata() -> None:
    sent = body(planned(RL), base=None)
    assert sent["compute"] == {}
    assert "compute" not in sent["data"]["config"]
    assert "metadata" not in sent


def test_unknown_sections_and_the_users_own_tags_are_sent() -> None:
    config = body(planned(RL + '[data]\nsplit = "train"\n[tags]\nx = 1\n'))["data"]["config"]
    assert config["data"] == {"split": "train"}
    assert config["tags"] == {"x": 1}


@pytest.mark.parametrize("takes_config", [False, True])
def test_smoke_is_never_sent_and_local_only_to_who_reads_it(takes_config: bool) -> None:
    extra = "[smoke]\nx = 1\n[local]\nseed = 1\n"
    rl = body(planned(RL + extra), takes_config=takes_config)["data"]["config"]
    assert "smoke" not in rl
    assert ("local" in rl) is takes_config
    sft = body(planned(SFT + extra), takes_config=takes_config)["metadata"]
    assert "smoke" not in str(sft)
    assert ("local" in str(sft)) is takes_config


def test_the_plan_is_left_as_it_was() -> None:
    plan = planned(RL + "[compute.topology]\ngpus_for_vllm = 1\n[local]\nseed = 1\n", task_url="http://t")
    before = json.dumps(plan.table)
    body(plan)
    assert json.dumps(plan.table) == before


def test_a_plan_without_a_settled_task_url_has_no_request() -> None:
    with pytest.raises(ValueError, match="not settled"):
        request_of(planned(RL.replace("https://task.example", "")), None, False)


# -- SFT

FULL = """\
type = "sft"

[job]
model = "qwen/qwen3-4b"
data = "rows.jsonl"

[compute]
gpu_type = "H100"
gpu_count = 1
nodes = 1
region = "eu"

[data]
topology = { container_count = 4 }
validation_path = "held_out.jsonl"

[training]
mode = "lora"
use_qlora = true

[training.validation]

[hyperparameters]
batch_size = 1
weight_decay = 0.1
world_size = 4
train_kind = "peft"

[hyperparameters.parallelism]
bf16 = true
new_thing = 1
"""


def test_an_sft_job_is_posted_as_the_contract_has_it() -> None:
    assert body(planned(FULL)) == {
        "model": "Qwen/Qwen3-4B",
        "training_type": "sft_offline",
        "training_file_id": None,
        "hyperparameters": {
            "n_epochs": 1,
            "batch_size": 1,
            "train_kind": "peft",
            "parallelism": {"bf16": True, "new_thing": 1},
            "evaluation_strategy": "steps",
            "eval_steps": 0,
            "save_best_model_at_end": True,
            "metric_for_best_model": "val.loss",
            "greater_is_better": False,
        },
        "metadata": {
            "effective_config": {
                "compute": {"gpu_type": "H100", "gpu_count": 1, "nodes": 1},
                "data": {"topology": {"container_count": 4}, "validation_files": [None]},
                "training": {"mode": "lora", "use_qlora": True, "validation": {"enabled": True}},
            }
        },
    }


def test_the_smallest_sft_job_says_no_more_than_it_must() -> None:
    text = 'type = "sft"\n[job]\nmodel = "Qwen/Qwen3-4B"\ndata = "rows.jsonl"\n'
    assert body(planned(text)) == {
        "model": "Qwen/Qwen3-4B",
        "training_type": "sft_offline",
        "training_file_id": None,
        "hyperparameters": {"n_epochs": 1},
        "metadata": {"effective_config": {"compute": {}, "data": {"topology": {}}, "training": {}}},
    }


def test_validation_settings_that_are_given_stay() -> None:
    text = SFT + "[training.validation]\nenabled = false\neval_steps = 20\ngreater_is_better = true\n"
    sent = body(planned(text))
    assert sent["hyperparameters"]["eval_steps"] == 20
    assert sent["hyperparameters"]["greater_is_better"] is True
    assert sent["metadata"]["effective_config"]["training"] == {"validation": {"enabled": False}}


def test_the_ids_of_uploaded_files_are_filled_in() -> None:
    request = replace(sft_request(planned(FULL)), training_file=FileId("file_1"), validation_file=FileId("file_2"))
    sent = json.loads(request.encode())
    assert sent["training_file_id"] == "file_1"
    assert sent["metadata"]["effective_config"]["data"]["validation_files"] == ["file_2"]


def test_a_backend_that_reads_the_config_gets_all_of_it() -> None:
    config = body(planned(FULL + "[lora]\nr = 8\n"), takes_config=True)["metadata"]["config"]
    assert config["lora"] == {"r": 8}
    assert config["hyperparameters"]["weight_decay"] == 0.1
    assert config["hyperparameters"]["world_size"] == 4


def test_a_request_is_encoded_to_the_same_bytes_every_time() -> None:
    assert request_of(planned(FULL), None, False).encode() == request_of(planned(FULL), None, False).encode()


def test_a_secret_cannot_be_encoded() -> None:
    request = request_of(planned(RL), None, False)
    assert isinstance(request, RlRequest)
    with pytest.raises(TypeError):
        replace(request, compute={"key": Secret("sk-0123456789abcdef")}).encode()


# -- what is lost on the way

LOST = "[tags]\nx = 1\n" + SFT + "weight_decay = 0.1\n[compute.topology]\n[lora]\nr = 8\n[metadata]\nx = 1\n"


def test_known_keys_that_an_sft_request_has_no_place_for_are_named() -> None:
    problems = not_sent(planned(LOST.replace('rows.jsonl"', 'rows.jsonl"\npoll_seconds = 5')), takes_config=False)
    assert [str(problem).partition(": hosted")[0] for problem in problems] == [
        "train.toml:1: tags",
        "train.toml:11: job.poll_seconds",
        "train.toml:16: hyperparameters.weight_decay",
        "train.toml:18: lora",
    ]
    assert {problem.severity for problem in problems} == {Severity.WARNING}


def test_nothing_is_lost_on_a_backend_that_reads_the_config() -> None:
    assert not_sent(planned(LOST), takes_config=True) == ()


def test_an_rl_request_has_a_place_for_everything() -> None:
    assert not_sent(planned(RL + "[lora]\nr = 8\n[tags]\nx = 1\n"), takes_config=False) == ()
