"""Supervised fine-tuning on this machine: TRL's trainer behind `ports.hosting.Trainer` (design §5).

settings     the request, resolved, and what of it has no effect here
chats        rows as chat templates want them
tokens       chats as the model reads them, and what of them it learns
loop         the steps: TRL's trainer, with our checkpoints and points
best         the weights of the best look at the held-out rows
saying       what the model answers, before and after
failures     what goes wrong, in words
training     one job, from its request to its model
trainer      the port
"""

from synth_train.adapters.local.sft.trainer import SftTrainer

__all__ = ["SftTrainer"]
