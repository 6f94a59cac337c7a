"""What an RL job is to do here: its request, resolved. What has no effect on this machine is said, never dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, UnsetType

from synth_train.adapters.local.models import Method
from synth_train.adapters.local.rl.gspo import Clip
from synth_train.adapters.local.rl.sampler import Sampling
from synth_train.domain.model.addresses import address
from synth_train.domain.model.config.check import check
from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.config.rl import RlConfig, RlLocal, RlTraining
from synth_train.domain.model.config.tables import Lora
from synth_train.domain.model.hosting import Order, TrainingFailed
from synth_train.domain.model.jobs import Kind
from synth_train.domain.model.places import Severity, dotted

T = TypeVar("T")
Json = dict[str, Any]

LEARNING_RATES = {Method.FULL: 1e-6, Method.LORA: 1e-5, Method.QLORA: 1e-5}
"""Unless the request says one: usual for GSPO on a trained model."""

CLIP = Clip(low=0.02, high=0.02)
"""Unless the request says another. A ratio of whole sequences is a geometric mean, so it moves far less than those of
single tokens, for which 0.2 is usual."""

_NO_GPU = "this machine has no GPU"
_ONE_MACHINE = "all of it runs on one device of this machine"


class Settings(Struct, frozen=True, kw_only=True):
    """How a job trains."""

    model: str
    method: Method
    lora: Lora | UnsetType
    task_url: str
    """Without a slash at its end."""
    remote: bool
    """Whether the task app is on another machine."""
    policy_url: str | None
    """Where it reaches the policy, if that is not where the policy listens."""
    policy_host: str
    policy_port: int
    """0 for any that is free."""

    seed: int
    threads: int | None
    device: str | None
    dtype: str | None

    epochs: int
    iterations_per_epoch: int
    prompts: int
    """Of one iteration."""
    group: int
    """Rollouts of one prompt."""
    at_once: int
    """Rollouts at the same time."""
    rollout_timeout: float
    env: Json
    """`env` of a rollout request, without its seed."""
    policy_name: str | None
    policy_config: Json
    ops: tuple[object, ...]
    sampling: Sampling
    context: int | None
    """Longest text, in tokens; None for what the model can read."""
    max_batch: int

    learning_rate: float
    max_grad_norm: float
    minibatches: int
    accumulation: int
    """Passes of one minibatch, at least."""
    max_batch_tokens: int
    clip: Clip
    reference: bool
    """Whether there is a frozen model that the policy is held close to."""
    kl_weight: float
    sync_every: int
    """Iterations between two syncs of the sampler's weights."""
    report_every: int
    evaluation_seeds: tuple[int, ...]
    evaluate_every: int
    """Iterations; 0 for never."""
    checkpoint_every: int | None
    """Iterations; None for about a minute."""
    merge: bool
    label: str | None

    config: Json
    """The resolved config, as it was ordered."""
    warnings: tuple[str, ...]
    """What of the request has no effect here, one sentence each, with the key's name."""

    @property
    def iterations(self) -> int:
        """In all."""
        return self.epochs * self.iterations_per_epoch

    def seeds(self, iteration: int) -> list[int]:
        """The task app's seeds of an iteration, from 1 on: every epoch sees the same ones, and none of them is a seed
        of the evaluation."""
        held_out = frozenset(self.evaluation_seeds)
        first = (iteration - 1) % self.iterations_per_epoch * self.prompts
        counted = (seed for seed in range(first + self.prompts + len(held_out)) if seed not in held_out)
        return list(counted)[first : first + self.prompts]


def settings_of(order: Order) -> Settings:
    """Read a request.

    Raises:
        TrainingFailed: something in it cannot be meant. The text names every problem.
    """
    body: Json = msgspec.json.decode(order.body)
    inner = body.get("data")
    data: Json = inner if isinstance(inner, dict) else body
    raw: Json = dict(data.get("config") or {})
    if isinstance(data.get("trainer"), dict):  # the library client's shape (wire-contract §2.5)
        raw["training"] = {**data["trainer"], **raw.get("training", {})}
    checked = check(raw, Kind.RL, UnknownKeys.WARNINGS)
    errors = [f"{dotted(found.path)}: {found.what}" for found in checked.findings if found.severity is Severity.ERROR]
    if errors:
        raise TrainingFailed(f"the config cannot be read: {'; '.join(errors)}")
    config = msgspec.convert(checked.table, RlConfig)
    return _settings(order, config, checked.table)


def _settings(order: Order, config: RlConfig, raw: Json) -> Settings:
    training = _or(config.training, RlTraining())
    local = _or(config.local, RlLocal())
    rollout = raw.get("rollout", {})
    lora = config.lora if isinstance(training.lora, UnsetType) else training.lora
    method = _method(config, lora)
    task_url = order.task_url or ""
    policy_url, port = _policy_address(local)
    prompts = _or(training.batch_size, 8) * rollout.get("batches_per_step", 1)
    group = _or(training.group_size, 8)
    iterations = _or(training.iterations_per_epoch, 10)
    turns = rollout.get("max_turns", _or(training.max_turns, 1))
    reference = raw.get("reference", {}).get("placement", "none") != "none"
    evaluation = raw.get("evaluation", {})
    given = evaluation.get("seeds")
    instances = evaluation.get("instances", len(given) if given is not None else 0)
    after = prompts * iterations
    seeds = given if given is not None else range(after, after + instances)
    return Settings(
        model=order.model,
        method=method,
        lora=lora,
        task_url=task_url,
        remote=not address(task_url).loopback,
        policy_url=policy_url,
        policy_host=_or(local.policy_host, "127.0.0.1"),
        policy_port=port,
        seed=_or(local.seed, 0),
        threads=_or(local.threads, None),
        device=_or(local.device, None),
        dtype=_or(local.dtype, None),
        epochs=_or(training.num_epochs, 1),
        iterations_per_epoch=iterations,
        prompts=prompts,
        group=group,
        at_once=rollout.get("max_concurrent_rollouts", 8),
        rollout_timeout=_or(local.rollout_timeout, 600.0),
        env={"config": rollout.get("env_config", {})} | _some(env_name=rollout.get("env_name")),
        policy_name=rollout.get("policy_name"),
        policy_config=rollout.get("policy_config", {}),
        ops=_ops(rollout.get("ops") or ["agent", "env"], turns),
        sampling=_sampling(raw),
        context=raw.get("vllm", {}).get("max_model_len"),
        max_batch=_or(local.max_batch, 64),
        learning_rate=_or(training.learning_rate, LEARNING_RATES[method]),
        max_grad_norm=_or(local.max_grad_norm, 1.0),
        minibatches=_or(local.minibatches, 4),
        accumulation=_or(training.gradient_accumulation_steps, 1),
        max_batch_tokens=_or(local.max_batch_tokens, 16384),
        clip=Clip(low=_or(local.clip_low, CLIP.low), high=_or(local.clip_high, CLIP.high)),
        reference=reference,
        kl_weight=_or(local.kl_weight, 0.01) if reference else 0.0,
        sync_every=_sync_every(training),
        report_every=_or(training.log_interval, 1),
        evaluation_seeds=tuple(seeds)[:instances],
        evaluate_every=evaluation.get("every_n_iters", 0),
        checkpoint_every=_or(local.checkpoint_steps, None),
        merge=_or(local.merge, False),
        label=_or(config.model.label, _or(config.policy.label, None)),
        config=raw,
        warnings=tuple(_without_effect(raw, method, prompts * group, turns)),
    )


def _or(value: T | UnsetType, default: Any) -> T:
    return cast(T, default) if isinstance(value, UnsetType) else value


def _some(**values: object) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _method(config: RlConfig, lora: Lora | UnsetType) -> Method:
    word: str | None = _or(config.model.trainer_mode, _or(config.policy.trainer_mode, None))
    if word is None:
        return Method.FULL if isinstance(lora, UnsetType) else Method.LORA
    try:
        return Method(word.strip().lower())
    except ValueError:
        raise TrainingFailed(f"model.trainer_mode is {word!r}: there are full, lora and qlora") from None


def _sync_every(training: RlTraining) -> int:
    table = training.weight_sync
    inner = None if isinstance(table, UnsetType) else _or(table.interval, _or(table.weight_sync_interval, None))
    return inner or _or(training.weight_sync_interval, 1)


def _ops(ops: list[object], turns: int) -> tuple[object, ...]:
    """`rollout.ops`, repeated until it has `turns` turns of the policy (wire-contract §7.3)."""

    def by_policy(op: object) -> bool:
        word = op.get("type", op.get("op")) if isinstance(op, dict) else op
        return str(word).lower() in ("agent", "policy", "model")

    if not any(map(by_policy, ops)):
        raise TrainingFailed("rollout.ops never lets the policy act: it has no agent in it")
    made: list[object] = []
    acted = 0
    while True:
        for op in ops:
            if by_policy(op):
                if acted == turns:
                    return tuple(made)
                acted += 1
            made.append(op)


def _sampling(raw: Json) -> Sampling:
    """`rollout.policy_config` before `[policy]` before what is usual (wire-contract §6.3)."""
    policy, own = raw.get("policy", {}), raw.get("rollout", {}).get("policy_config", {})
    table = {**policy, **own}
    stop = table.get("stop_sequences", table.get("stop", ()))
    wanted: Json = {
        "temperature": table.get("temperature", 0.7),
        "top_p": table.get("top_p", 0.95),
        "top_k": max(table.get("top_k", 0), 0),
        "repetition_penalty": table.get("repetition_penalty", 1.0),
        "max_tokens": table.get("max_tokens", 512),
        "stop": (stop,) if isinstance(stop, str) else tuple(stop),
    }
    try:
        return msgspec.convert(wanted, Sampling)
    except msgspec.ValidationError as error:
        raise TrainingFailed(f"rollout.policy_config: how to sample cannot be read: {error}") from None


def _policy_address(local: RlLocal) -> tuple[str | None, int]:
    """Where the policy is reached, and the port to listen on."""
    port = _or(local.policy_port, 0)
    if isinstance(local.policy_url, UnsetType):
        return None, port
    try:
        url = address(local.policy_url.strip()).url
    except ValueError as reason:
        raise TrainingFailed(f"local.policy_url {reason}") from None
    port = port or urlsplit(url).port or 0
    if not port:
        raise TrainingFailed(
            "local.policy_url is set, but not local.policy_port: on which port of this machine what is sent to that "
            "URL arrives, only you know"
        )
    return url.removesuffix("/v1"), port


# What has no effect


def _without_effect(raw: Json, method: Method, rollouts: int, turns: int) -> Iterator[str]:
    if method is Method.FULL and ("lora" in raw or "lora" in raw.get("training", {})):
        yield "lora has no effect: model.trainer_mode is full"
    yield from _machine(raw)
    yield from _serving(raw)
    yield from _counts(raw, rollouts, turns)
    yield from _rewards(raw)
    for found in check(raw, Kind.RL, UnknownKeys.WARNINGS).findings:
        yield f"{dotted(found.path)} is not known here, and has no effect"


def _machine(raw: Json) -> Iterator[str]:
    compute = raw.get("compute", {})
    asked = " ".join(f"{compute[key]}" for key in ("gpu_count", "gpu_type") if compute.get(key))
    if asked:
        yield f"compute asks for {asked}: {_ONE_MACHINE}"
    if compute.get("nodes", 1) > 1:
        yield f"compute.nodes is {compute['nodes']}: {_ONE_MACHINE}"
    for path, table in (("topology", raw.get("topology")), ("compute.topology", compute.get("topology"))):
        keys = [key for key in table or {} if key != "reference_placement"]
        if keys:
            yield f"{path} ({', '.join(keys)}) has no effect: {_ONE_MACHINE}"


def _serving(raw: Json) -> Iterator[str]:
    others = [key for key in raw.get("vllm", {}) if key != "max_model_len"]
    if others:
        yield f"vllm ({', '.join(others)}) has no effect: the policy is sampled by transformers, not by vLLM"
    reference = raw.get("reference", {})
    placement = reference.get("placement", "none")
    if placement not in ("none", "shared"):
        yield f"reference.placement is {placement!r}: the reference shares the device of the policy"
    others = [key for key in reference if key != "placement"]
    if others:
        yield f"reference ({', '.join(others)}) has no effect: the reference is in the process that trains"
    if "inference_url" in raw.get("policy", {}):
        yield "policy.inference_url has no effect: the policy is served here, where its tokens are known"
    services = raw.get("services", {})
    for key in ("judge_url", "environment"):
        if services.get(key):
            yield f"services.{key} has no effect here"
    sync = raw.get("training", {}).get("weight_sync", {})
    if sync.get("enable") is False:
        yield "training.weight_sync.enable is false, but weights are synced: rollouts of the first ones teach little"
    odd = [
        key
        for key, usual in (("targets", ["policy"]), ("mode", "direct"), ("direct", True), ("verify_every_k", 0))
        if key in sync and sync[key] != usual
    ]
    if odd:
        yield f"training.weight_sync ({', '.join(odd)}) has no effect: weights are copied within one process"


def _counts(raw: Json, rollouts: int, turns: int) -> Iterator[str]:
    rollout, training = raw.get("rollout", {}), raw.get("training", {})
    episodes = rollout.get("episodes_per_batch")
    batches = rollout.get("batches_per_step", 1)
    if episodes is not None and episodes * batches != rollouts:
        yield (
            f"rollout.episodes_per_batch is {episodes}, but training.batch_size times training.group_size decides: an "
            f"iteration has {rollouts} rollouts"
        )
    if training.get("max_turns", turns) != turns:
        yield f"training.max_turns is {training['max_turns']}, but rollout.max_turns decides: {turns}"
    if "max_accumulated_minibatch" in training:
        yield (
            "training.max_accumulated_minibatch has no effect: local.max_batch_tokens bounds what one pass holds, "
            "training.gradient_accumulation_steps says how many passes there are"
        )
    evaluation = raw.get("evaluation", {})
    seeds = evaluation.get("seeds")
    if seeds is not None and evaluation.get("instances", len(seeds)) > len(seeds):
        yield f"evaluation.instances is {evaluation['instances']}, but evaluation.seeds has only {len(seeds)}"
    if evaluation and not evaluation.get("every_n_iters"):
        yield "evaluation has no every_n_iters above 0: nothing is evaluated"


def _rewards(raw: Json) -> Iterator[str]:
    training = raw.get("training", {})
    table = training.get("rewards", {})
    names = [f"training.{key}" for key in training if key.startswith(("step_rewards_", "event_rewards_"))]
    names += [f"training.rewards.{key}" for key in table]
    off = {**training, **table}
    if names and (off.get("step_rewards_enabled", True) or "event_rewards_kind" in off):
        yield f"{', '.join(names)}: no effect, the reward of a rollout is what the task app returns for all of it"
    judge = raw.get("judge")
    if judge and judge.get("enabled") is not False:
        yield "judge has no effect: nothing is judged here, the reward is the task app's own"
    if raw.get("rubric"):
        yield "rubric has no effect: nothing is judged here, the reward is the task app's own"
