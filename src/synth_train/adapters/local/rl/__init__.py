"""Reinforcement learning on this machine: GSPO against a task app, behind `ports.hosting.Trainer` (design §5).

settings     the request, resolved, and what of it has no effect here
chat         chat completions in terms of tokens
sampler      many answers at once, each with chance of its own
server       the policy behind `/v1/chat/completions`, and what it has said in each rollout
task_app     asking the task app for rollouts
rollouts     those of an iteration, side by side
gspo         advantages and the objective
policy       the weights: sampled, trained, kept
training     one job, from its request to its model
trainer      the port
"""

from synth_train.adapters.local.rl.trainer import RlTrainer

__all__ = ["RlTrainer"]
