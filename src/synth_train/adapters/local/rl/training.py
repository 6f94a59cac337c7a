"""One RL job, from its request to its model (wire-contract §7.4)."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from synth_train.adapters.http.session import NoReply, Session
from synth_train.adapters.local.background import Say, Stop
from synth_train.adapters.local.checkpoints import Checkpoints
from synth_train.adapters.local.home import JobFolder
from synth_train.adapters.local.models import Shelf, choose_hardware, provenance, quiet, save
from synth_train.adapters.local.rl.chat import Chat
from synth_train.adapters.local.rl.gspo import Sequences, advantages
from synth_train.adapters.local.rl.policy import Policy, Update
from synth_train.adapters.local.rl.rollouts import Failure, Rollout, Stage, Wish, groups_of, reasons
from synth_train.adapters.local.rl.sampler import Sampler
from synth_train.adapters.local.rl.server import Ledger, PolicyServer
from synth_train.adapters.local.rl.settings import Settings, settings_of
from synth_train.adapters.local.rl.task_app import TaskApp
from synth_train.adapters.local.tensorboard import TensorBoard
from synth_train.adapters.local.trainers import Bench
from synth_train.domain.model.hosting import Job, Note, Step, Task, TrainingFailed

CHECKPOINT_AFTER = 60.0
"""Seconds of work after which a checkpoint is due, unless the config counts iterations."""

BINS = 10
"""Of the histogram of rewards."""

_SUMMED = frozenset({"rollout.failed"})
"""Metrics of which a report over several iterations holds the sum. Of the others it holds the mean."""


class Training:
    """One job. Made for it, and run once."""

    def __init__(self, task: Task, bench: Bench, shelf: Shelf, say: Say, stop: Stop) -> None:
        self._job, self._bench, self._shelf, self._say, self._stop = task.job, bench, shelf, say, stop
        self._folder = bench.folder(task.job)
        self._checkpoints = Checkpoints(self._folder.checkpoints)

    def run(self) -> None:
        """Train to the end.

        Raises:
            TrainingFailed: it cannot go on.
        """
        if self._job.claims > 1 and self._folder.model.is_dir():
            self._say(Note(type="resumed", message="The model was already there when the worker died."))
            return
        quiet()
        settings = settings_of(self._job.order)
        self._warn(settings.warnings)
        _check_reach(settings)
        app = TaskApp(
            settings.task_url,
            self._bench.keys(self._job),
            timeout=settings.rollout_timeout,
            stop=self._stop,
            at_once=settings.at_once,
        )
        app.check()
        try:
            self._train(settings, app)
        except torch.cuda.OutOfMemoryError:
            raise TrainingFailed(
                "the GPU has too little memory: lower local.max_batch (answers sampled at the same time), "
                "local.max_batch_tokens (tokens of one training pass) or rollout.policy_config.max_tokens, or train "
                "with LoRA"
            ) from None
        self._checkpoints.remove()

    def _train(self, settings: Settings, app: TaskApp) -> None:
        hardware = choose_hardware(settings.device, settings.dtype, settings.threads)
        self._warn(hardware.warnings)
        policy = Policy(settings, self._shelf, hardware)
        self._warn(policy.warnings)
        ledger = Ledger()
        with contextlib.ExitStack() as cleanup:
            sampler = Sampler(
                lambda asks: policy.answer(asks, self._stop), under_way=ledger.under_way, largest=settings.max_batch
            )
            cleanup.callback(sampler.stop)
            server = _serve(settings, policy, sampler, ledger)
            cleanup.callback(server.stop)
            if settings.policy_url is not None:
                self._warn(_leads_here(settings.policy_url))
            base = settings.policy_url or server.base
            stage = Stage(settings, app, ledger, policy_base=base, session=self._job.id, stop=self._stop)
            loop = Loop(
                settings=settings,
                job=self._job,
                policy=policy,
                sampler=sampler,
                play=stage.play,
                unheeded=ledger.unheeded,
                checkpoints=self._checkpoints,
                folder=self._folder,
                say=self._say,
                stop=self._stop,
            )
            last = loop.run()
        about = provenance(
            policy.loaded.source,
            hardware,
            settings.method,
            config=settings.config,
            seed=settings.seed,
            job=self._job.id,
            label=settings.label,
            metrics=dict(last),
        )
        save(policy.model, policy.loaded, self._folder.model, about, merge=settings.merge)

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            self._say(Note(type="warning", message=warning, level="warning"))


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The rollouts of an iteration."""

    groups: list[list[Rollout]]
    failed: int
    seconds: float
    sampling: float
    """Seconds of them in which the policy was sampled."""
    tokens: int
    """Sampled in them."""

    @property
    def rollouts(self) -> list[Rollout]:
        """Those that are trained on."""
        return [rollout for group in self.groups for rollout in group]

    @property
    def rewards(self) -> list[float]:
        """Of those."""
        return [rollout.reward for rollout in self.rollouts]

    def sequences(self) -> list[list[Sequences]]:
        """By rollout, its turns as they are trained on: each has the advantage of the whole rollout."""
        return [
            [_sequence(rollout, index, advantage) for index in range(len(rollout.turns))]
            for group in self.groups
            for rollout, advantage in zip(group, advantages([one.reward for one in group]), strict=True)
        ]

    def points(self) -> dict[str, float]:
        """As metrics."""
        rewards, count = self.rewards, len(self.rewards)
        mean = math.fsum(rewards) / count
        turns = [turn for rollout in self.rollouts for turn in rollout.turns]
        return {
            "train.reward_mean": mean,
            "train.reward_std": math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / count),
            "rollout.seconds": math.fsum(rollout.seconds for rollout in self.rollouts) / count,
            "rollout.turns": len(turns) / count,
            "rollout.tokens": sum(len(turn.answer.tokens) for turn in turns) / count,
            "rollout.failed": float(self.failed),
            "time.generation": self.sampling,
            "time.task_app": max(self.seconds - self.sampling, 0.0),
        }


@dataclass(kw_only=True)
class Loop:
    """The iterations: rollouts, update, sync, evaluation, report, checkpoint."""

    settings: Settings
    job: Job
    policy: Policy
    sampler: Sampler
    play: Callable[[Sequence[Wish]], list[Rollout | Failure]]
    unheeded: Callable[[], Sequence[str]]
    """What the task app asks of the policy in vain."""
    checkpoints: Checkpoints
    folder: JobFolder
    say: Say
    stop: Stop
    _warned: set[str] = field(default_factory=set)

    def run(self) -> Mapping[str, float]:
        """Run those that are left. Gives the metrics of the last one.

        Raises:
            TrainingFailed: it cannot go on.
        """
        done = self._resume()
        points: dict[str, float] = {}
        unreported: list[dict[str, float]] = []
        saved_at = time.monotonic()
        with TensorBoard(self.folder, after=done) as charts:
            for iteration in range(done + 1, self.settings.iterations + 1):
                collected, points = self._iterate(iteration)
                unreported.append(points)
                for what in self.unheeded():
                    self._warn_once(f"the task app asks the policy for {what}: it has no effect")
                last = iteration == self.settings.iterations
                if last or iteration % self.settings.report_every == 0:
                    self._report(iteration, collected, _over(unreported), charts)
                    unreported = []
                if not last and self._checkpoint_is_due(iteration, saved_at):
                    with self.checkpoints.writing(iteration) as folder:
                        self.policy.save(folder)
                    saved_at = time.monotonic()
        return points

    def _iterate(self, iteration: int) -> tuple[Collected, dict[str, float]]:
        began = time.monotonic()
        collected = self._collect(iteration)
        trained = time.monotonic()
        update = self.policy.learn(collected.sequences(), iteration, self.stop)
        _check(update, iteration)
        if not update.steps:
            self._warn_once(
                f"iteration {iteration} taught nothing: of every prompt, all rollouts had the same reward. This goes "
                "unsaid from now on",
                key="same",
            )
        ended = time.monotonic()
        if iteration % self.settings.sync_every == 0:
            self.policy.sync()
        points = {
            **update.points(),
            **collected.points(),
            "train.learning_rate": self.settings.learning_rate,
            "train.tokens_per_second": collected.tokens / (ended - began),
            "time.update": ended - trained,
        }
        return collected, points | self._evaluate(iteration)

    def _resume(self) -> int:
        """How many iterations an earlier worker has done, with the policy as it was after them."""
        newest = self.checkpoints.newest
        if self.job.claims < 2 or newest is None:
            return 0
        self.policy.restore(newest.path)
        self._tell("resumed", f"Goes on after iteration {newest.step}, from its checkpoint.")
        return newest.step

    def _collect(self, iteration: int) -> Collected:
        settings = self.settings
        wishes = [
            Wish(
                name=f"{self.job.id}.{self.job.claims}.{iteration}.{prompt}.{index}",
                mode="rl",
                seed=seed,
                chance=(settings.seed, iteration, prompt, index),
            )
            for prompt, seed in enumerate(settings.seeds(iteration))
            for index in range(settings.group)
        ]
        began, busy, tokens = time.monotonic(), self.sampler.busy, self.sampler.tokens
        played = self._play(wishes)
        groups = groups_of(played, settings.group)
        failed = sum(isinstance(one, Failure) for one in played)
        if not groups:
            raise TrainingFailed(f"no rollout of iteration {iteration} can be trained on: {reasons(played)}")
        if failed:
            self._tell("rollouts.failed", f"Iteration {iteration}: rollouts failed: {reasons(played)}", "warning")
        return Collected(
            groups=groups,
            failed=failed,
            seconds=time.monotonic() - began,
            sampling=self.sampler.busy - busy,
            tokens=self.sampler.tokens - tokens,
        )

    def _evaluate(self, iteration: int) -> dict[str, float]:
        """Rollouts on the held-out seeds, when they are due: every so many iterations, and after the last."""
        settings = self.settings
        every, seeds = settings.evaluate_every, settings.evaluation_seeds
        if not every or not seeds or (iteration % every and iteration != settings.iterations):
            return {}
        self._tell("eval.started", f"Evaluation on {len(seeds)} seeds, after iteration {iteration}.")
        played = self._play(
            [
                Wish(
                    name=f"{self.job.id}.{self.job.claims}.{iteration}.eval.{index}",
                    mode="eval",
                    seed=seed,
                    chance=(settings.seed, "eval", index),
                )
                for index, seed in enumerate(seeds)
            ]
        )
        rewards = [one.reward for one in played if isinstance(one, Rollout)]
        if len(rewards) < len(played):
            self._tell("rollouts.failed", f"Evaluation: rollouts failed: {reasons(played)}", "warning")
        if not rewards:
            return {}
        mean = math.fsum(rewards) / len(rewards)
        self._tell(
            "eval.summary",
            f"Mean reward of {len(rewards)} held-out seeds after iteration {iteration}: {mean:.3f}.",
            data={"step": iteration, "reward_mean": mean, "seeds": len(rewards), "failed": len(played) - len(rewards)},
        )
        return {"eval.reward_mean": mean}

    def _play(self, wishes: Sequence[Wish]) -> list[Rollout | Failure]:
        played = self.play(wishes)
        if self.sampler.failure is not None:  # of which the task app only heard that there was one
            raise self.sampler.failure
        return played

    def _report(self, iteration: int, collected: Collected, points: Mapping[str, float], charts: TensorBoard) -> None:
        rewards = torch.tensor(collected.rewards, dtype=torch.float64)
        counts, edges = torch.histogram(rewards, bins=BINS)
        self._tell(
            "metrics",
            f"Rewards of iteration {iteration}: {rewards.min():.3f} to {rewards.max():.3f}.",
            data={"step": iteration, "reward_histogram": {"edges": edges.tolist(), "counts": counts.tolist()}},
        )
        total = self.settings.iterations
        message = f"Iteration {iteration} of {total}: mean reward {points['train.reward_mean']:.3f}."
        self.say(Step(step=iteration, total=total, points=points, message=message))
        charts.add(iteration, points)
        charts.add_histogram(iteration, "train.reward", counts.tolist(), edges.tolist())

    def _checkpoint_is_due(self, iteration: int, saved_at: float) -> bool:
        every = self.settings.checkpoint_every
        return time.monotonic() - saved_at >= CHECKPOINT_AFTER if every is None else iteration % every == 0

    def _warn_once(self, message: str, *, key: str | None = None) -> None:
        """Warn, unless there was a warning with this key, or in these words, before."""
        if (key or message) not in self._warned:
            self._warned.add(key or message)
            self._tell("warning", message, "warning")

    def _tell(self, type: str, message: str, level: str = "info", data: Mapping[str, object] | None = None) -> None:
        self.say(Note(type=type, message=message, level=level, data=data or {}))


def _sequence(rollout: Rollout, index: int, advantage: float) -> Sequences:
    turn = rollout.turns[index]
    return Sequences(
        prompt=turn.prompt,
        completion=turn.answer.tokens,
        old=turn.answer.log_probs,
        temperature=turn.temperature,
        advantage=advantage,
    )


def _over(points: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The points of several iterations as one."""
    values: dict[str, list[float]] = {}
    for one in points:
        for name, value in one.items():
            values.setdefault(name, []).append(value)
    return {
        name: math.fsum(all_of_it) / (1 if name in _SUMMED else len(all_of_it)) for name, all_of_it in values.items()
    }


def _check(update: Update, iteration: int) -> None:
    if not math.isfinite(update.loss) or not math.isfinite(update.grad_norm):
        raise TrainingFailed(
            f"the loss of iteration {iteration} is no number any more: lower training.learning_rate, or compute in "
            "float32 (local.dtype)"
        )


def _check_reach(settings: Settings) -> None:
    if settings.remote and settings.policy_url is None:
        raise TrainingFailed(
            f"the task app {settings.task_url} is on another machine, where the policy, which is served on the "
            "loopback address of this one, cannot be asked: set local.policy_url to an address under which the task "
            "app reaches this machine (a tunnel), and local.policy_port to the port that it leads to"
        )


def _serve(settings: Settings, policy: Policy, sampler: Sampler, ledger: Ledger) -> PolicyServer:
    chat = Chat(policy.loaded.tokenizer, name=settings.model, defaults=settings.sampling, context=policy.context)
    try:
        return PolicyServer(chat, sampler, ledger, host=settings.policy_host, port=settings.policy_port)
    except OSError as error:
        where = f"{settings.policy_host}:{settings.policy_port}"
        raise TrainingFailed(
            f"the policy cannot be served on {where} (local.policy_host, local.policy_port): {error.strerror}"
        ) from None


def _leads_here(url: str) -> tuple[str, ...]:
    """A warning if what answers at `url` is not the policy. It may be reached by the task app all the same."""
    try:
        reply = Session().get(url, {"Accept": "application/json"}, within=10.0, redirects=0)
    except NoReply as error:
        found = str(error)
    else:
        if reply.status == 200 and b'"policy"' in reply.content:
            return ()
        found = f"something else answers there ({reply.status})"
    return (f"local.policy_url {url} does not lead to the policy, as seen from this machine: {found}",)
