"""The TOML of an RL job (wire-contract §6.3), the forms that 0.2.17 brought included."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from synth_train.domain.model.config.tables import (
    Count,
    Fraction,
    FreeTable,
    Local,
    Lora,
    NotNegative,
    OpenTable,
    Positive,
    Table,
    Topology,
    TrainingFile,
    Whole,
)

GroupSize = Annotated[int, Meta(ge=2)]


class Services(Table, frozen=True, kw_only=True):
    """Where the job finds the services it works with."""

    task_url: Annotated[str | UnsetType, Meta(description="Address of the task app. `--task-url` comes before it.")] = (
        UNSET
    )
    judge_url: Annotated[str | UnsetType, Meta(description="Address of the judge.")] = UNSET
    environment: Annotated[Any, Meta(description="Environment of older configs.")] = UNSET


class Model(Table, frozen=True, kw_only=True):
    """What to train. Exactly one of `base` and `source`."""

    base: Annotated[str | UnsetType, Meta(description="A model of the catalogue.")] = UNSET
    source: Annotated[str | UnsetType, Meta(description="A fine-tuned model to go on from, or a catalogue model.")] = (
        UNSET
    )
    trainer_mode: Annotated[str | UnsetType, Meta(description="`lora`, `full` or `qlora`.")] = UNSET
    label: Annotated[str | UnsetType, Meta(description="Name of the result.")] = UNSET


class Policy(Table, frozen=True, kw_only=True):
    """The model and how it samples; may stand in place of `[model]` (0.2.17)."""

    model_name: Annotated[str | UnsetType, Meta(description="A model of the catalogue.")] = UNSET
    source: Annotated[str | UnsetType, Meta(description="A fine-tuned model to go on from.")] = UNSET
    model: Annotated[str | UnsetType, Meta(description="As older configs have it; `[model]` decides.")] = UNSET
    trainer_mode: Annotated[str | UnsetType, Meta(description="`lora`, `full` or `qlora`.")] = UNSET
    label: Annotated[str | UnsetType, Meta(description="Name of the result.")] = UNSET
    max_tokens: Annotated[Count | UnsetType, Meta(description="Longest answer. 512 when absent.")] = UNSET
    temperature: Annotated[NotNegative | UnsetType, Meta(description="0.7 when absent.")] = UNSET
    top_p: Annotated[Fraction | UnsetType, Meta(description="0.95 when absent.")] = UNSET
    top_k: Annotated[int | UnsetType, Meta(description="Likeliest tokens to choose from; -1 for all.")] = UNSET
    repetition_penalty: Annotated[Positive | UnsetType, Meta(description="1.0 when absent.")] = UNSET
    stop_sequences: Annotated[list[str] | UnsetType, Meta(description="Texts that end an answer.")] = UNSET
    inference_url: Annotated[str | UnsetType, Meta(description="Where the model can be asked.")] = UNSET


class Vllm(OpenTable, frozen=True, kw_only=True):
    """Settings of the sampling server."""

    tensor_parallel_size: Annotated[Count | UnsetType, Meta(description="GPUs that share one model.")] = UNSET
    max_model_len: Annotated[Count | UnsetType, Meta(description="Longest context, in tokens.")] = UNSET


class Reference(OpenTable, frozen=True, kw_only=True):
    """The frozen model that the policy is held close to."""

    placement: Annotated[str | UnsetType, Meta(description="`none`, `shared` or `dedicated`. `none` when absent.")] = (
        UNSET
    )
    port: Annotated[Whole | UnsetType, Meta(description="Where it listens.")] = UNSET
    tp: Annotated[Count | UnsetType, Meta(description="GPUs that share it.")] = UNSET


class Rollout(Table, frozen=True, kw_only=True):
    """How the policy plays in the task app."""

    env_name: Annotated[str | UnsetType, Meta(description="Environment of the task app.")] = UNSET
    policy_name: Annotated[str | UnsetType, Meta(description="Policy of the task app.")] = UNSET
    max_turns: Annotated[Count | UnsetType, Meta(description="Turns of one rollout.")] = UNSET
    episodes_per_batch: Annotated[Count | UnsetType, Meta(description="Rollouts of one batch.")] = UNSET
    max_concurrent_rollouts: Annotated[Count | UnsetType, Meta(description="Rollouts at the same time.")] = UNSET
    batches_per_step: Annotated[Count | UnsetType, Meta(description="Batches of one update.")] = UNSET
    ops: Annotated[list[str] | UnsetType, Meta(description="Order of `agent` and `env` in one turn.")] = UNSET
    env_config: Annotated[FreeTable | UnsetType, Meta(description="Given to the environment, free.")] = UNSET
    policy_config: Annotated[FreeTable | UnsetType, Meta(description="Given to the policy, free.")] = UNSET


class WeightSync(Table, frozen=True, kw_only=True):
    """How new weights reach the sampling server."""

    enable: bool | UnsetType = UNSET
    targets: Annotated[list[str] | UnsetType, Meta(description="Such as `policy`.")] = UNSET
    mode: Annotated[str | UnsetType, Meta(description="Such as `direct`.")] = UNSET
    direct: bool | UnsetType = UNSET
    verify_every_k: Annotated[Whole | UnsetType, Meta(description="Syncs between two checks; 0 for never.")] = UNSET
    interval: Annotated[Count | UnsetType, Meta(description="Updates between two syncs.")] = UNSET
    weight_sync_interval: Annotated[Count | UnsetType, Meta(description="The same, as older configs have it.")] = UNSET


class Rewards(OpenTable, frozen=True, kw_only=True):
    """Rewards for single steps and events."""

    step_rewards_enabled: bool | UnsetType = UNSET
    step_rewards_mode: Annotated[str | UnsetType, Meta(description="Such as `decision_stepwise` or `off`.")] = UNSET
    step_rewards_strategy: str | UnsetType = UNSET
    step_rewards_indicator_lambda: Annotated[float | UnsetType, Meta(description="Weight of the indicator.")] = UNSET
    step_rewards_beta: Annotated[float | UnsetType, Meta(description="Weight of the step reward.")] = UNSET
    event_rewards_kind: Annotated[str | UnsetType, Meta(description="Such as `unique`.")] = UNSET


class RlTraining(Table, frozen=True, kw_only=True):
    """One iteration runs `batch_size` prompts by `group_size` rollouts, and one update over them."""

    num_epochs: Count | UnsetType = UNSET
    iterations_per_epoch: Annotated[Count | UnsetType, Meta(description="Updates of one epoch.")] = UNSET
    max_turns: Annotated[Count | UnsetType, Meta(description="Turns of one rollout.")] = UNSET
    batch_size: Annotated[Count | UnsetType, Meta(description="Prompts of one iteration.")] = UNSET
    group_size: Annotated[
        GroupSize | UnsetType,
        Meta(description="Rollouts of one prompt, compared with each other: one alone teaches nothing."),
    ] = UNSET
    learning_rate: Positive | UnsetType = UNSET
    gradient_accumulation_steps: Count | UnsetType = UNSET
    max_accumulated_minibatch: Count | UnsetType = UNSET
    log_interval: Annotated[Count | UnsetType, Meta(description="Updates between two reports.")] = UNSET
    weight_sync_interval: Annotated[Count | UnsetType, Meta(description="Updates between two syncs.")] = UNSET
    step_rewards_enabled: Annotated[bool | UnsetType, Meta(description="`[training.rewards]` has it too.")] = UNSET
    step_rewards_mode: Annotated[str | UnsetType, Meta(description="`[training.rewards]` has it too.")] = UNSET
    step_rewards_strategy: Annotated[str | UnsetType, Meta(description="`[training.rewards]` has it too.")] = UNSET
    step_rewards_indicator_lambda: Annotated[
        float | UnsetType, Meta(description="`[training.rewards]` has it too.")
    ] = UNSET
    step_rewards_beta: Annotated[float | UnsetType, Meta(description="`[training.rewards]` has it too.")] = UNSET
    event_rewards_kind: Annotated[str | UnsetType, Meta(description="`[training.rewards]` has it too.")] = UNSET
    weight_sync: WeightSync | UnsetType = UNSET
    lora: Lora | UnsetType = UNSET
    rewards: Rewards | UnsetType = UNSET


class Evaluation(Table, frozen=True, kw_only=True):
    """Rollouts on fixed seeds that nothing is learnt from."""

    instances: Annotated[Whole | UnsetType, Meta(description="Seeds of one evaluation.")] = UNSET
    every_n_iters: Annotated[Whole | UnsetType, Meta(description="Iterations between two evaluations.")] = UNSET
    seeds: list[int] | UnsetType = UNSET


class JudgeOptions(Table, frozen=True, kw_only=True):
    """What the judge looks at."""

    event: Annotated[bool | UnsetType, Meta(description="Whether it judges single events.")] = UNSET
    outcome: Annotated[bool | UnsetType, Meta(description="Whether it judges the outcome.")] = UNSET
    provider: Annotated[str | UnsetType, Meta(description="`openai`, `groq` or `gemini`.")] = UNSET
    model: Annotated[str | UnsetType, Meta(description="The provider's name of the model.")] = UNSET
    rubric_id: str | UnsetType = UNSET
    rubric_overrides: Annotated[FreeTable | UnsetType, Meta(description="Free.")] = UNSET
    tracks: list[str] | UnsetType = UNSET
    weights: Annotated[dict[str, float] | UnsetType, Meta(description="By track.")] = UNSET
    max_concurrency: Annotated[Count | UnsetType, Meta(description="Judgements at the same time.")] = UNSET


class RewardBlend(OpenTable, frozen=True, kw_only=True):
    """How much each reward counts."""

    env: float | UnsetType = UNSET
    event: float | UnsetType = UNSET
    outcome: float | UnsetType = UNSET


class Judge(Table, frozen=True, kw_only=True):
    """A model that grades rollouts."""

    type: str | UnsetType = UNSET
    timeout_s: Annotated[Count | UnsetType, Meta(description="Seconds for one judgement.")] = UNSET
    enabled: bool | UnsetType = UNSET
    reward_blend: RewardBlend | UnsetType = UNSET
    options: JudgeOptions | UnsetType = UNSET
    rubric: Annotated[FreeTable | UnsetType, Meta(description="Free.")] = UNSET


Port = Annotated[int, Meta(ge=1, le=65535)]


class RlLocal(Local, frozen=True, kw_only=True):
    """For the embedded backend only; hosted backends never see it."""

    policy_url: Annotated[
        str | UnsetType, Meta(description="Where a task app on another machine reaches the policy: a tunnel to it.")
    ] = UNSET
    policy_port: Annotated[
        Port | UnsetType, Meta(description="Where the policy listens; any free port when absent.")
    ] = UNSET
    policy_host: Annotated[
        str | UnsetType, Meta(description="On which address it listens. `127.0.0.1`, this machine alone, when absent.")
    ] = UNSET
    minibatches: Annotated[
        Count | UnsetType, Meta(description="Optimiser steps over the rollouts of one iteration. 4 when absent.")
    ] = UNSET
    clip_low: Annotated[Fraction | UnsetType, Meta(description="How far a ratio may fall below 1.")] = UNSET
    clip_high: Annotated[Positive | UnsetType, Meta(description="How far a ratio may rise above 1.")] = UNSET
    kl_weight: Annotated[
        NotNegative | UnsetType, Meta(description="Weight of the divergence from the reference. 0.01 when absent.")
    ] = UNSET
    max_grad_norm: Annotated[Positive | UnsetType, Meta(description="Longest gradient. 1.0 when absent.")] = UNSET
    rollout_timeout: Annotated[Positive | UnsetType, Meta(description="Seconds for one rollout. 600 when absent.")] = (
        UNSET
    )
    max_batch: Annotated[
        Count | UnsetType, Meta(description="Answers that are sampled at the same time. 64 when absent.")
    ] = UNSET
    max_batch_tokens: Annotated[
        Count | UnsetType, Meta(description="Tokens, with padding, of one training pass. 16384 when absent.")
    ] = UNSET


class RlConfig(TrainingFile, frozen=True, kw_only=True):
    """An RL training job."""

    services: Services = Services()
    model: Model = Model()
    policy: Policy = Policy()
    topology: Topology | UnsetType = UNSET
    vllm: Vllm | UnsetType = UNSET
    reference: Reference | UnsetType = UNSET
    rollout: Rollout | UnsetType = UNSET
    training: RlTraining | UnsetType = UNSET
    evaluation: Evaluation | UnsetType = UNSET
    judge: Judge | UnsetType = UNSET
    local: RlLocal | UnsetType = UNSET
    rubric: Annotated[FreeTable | UnsetType, Meta(description="How rollouts are graded, free.")] = UNSET
