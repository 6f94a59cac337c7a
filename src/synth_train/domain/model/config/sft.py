"""The TOML of an SFT job (wire-contract §6.4)."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from synth_train.domain.model.config.tables import (
    Count,
    Fraction,
    FreeTable,
    Local,
    NotNegative,
    Positive,
    Table,
    TrainingFile,
    Whole,
)


class Job(Table, frozen=True, kw_only=True):
    """What to train, on which rows."""

    model: Annotated[str | UnsetType, Meta(description="A model of the catalogue. `--model` comes before it.")] = UNSET
    data: Annotated[
        str | UnsetType,
        Meta(description="JSONL file of chats, looked up from this file's directory. `--dataset` comes before it."),
    ] = UNSET
    data_path: Annotated[str | UnsetType, Meta(description="The same, looked at when `data` is absent.")] = UNSET
    poll_seconds: Annotated[
        Count | UnsetType, Meta(description="Not used any more; `--poll-interval` says how often to ask.")
    ] = UNSET


class Data(Table, frozen=True, kw_only=True):
    """More about the rows."""

    topology: Annotated[FreeTable | UnsetType, Meta(description="Given to the backend, free.")] = UNSET
    validation_path: Annotated[
        str | UnsetType, Meta(description="JSONL file of held-out chats, looked up like `job.data`.")
    ] = UNSET


class Validation(Table, frozen=True, kw_only=True):
    """Loss on the held-out chats while training."""

    enabled: Annotated[bool | UnsetType, Meta(description="true when absent.")] = UNSET
    evaluation_strategy: Annotated[str | UnsetType, Meta(description="`steps` when absent.")] = UNSET
    eval_steps: Annotated[Whole | UnsetType, Meta(description="Steps between two evaluations. 0 when absent.")] = UNSET
    save_best_model_at_end: Annotated[bool | UnsetType, Meta(description="true when absent.")] = UNSET
    metric_for_best_model: Annotated[str | UnsetType, Meta(description="`val.loss` when absent.")] = UNSET
    greater_is_better: Annotated[bool | UnsetType, Meta(description="false when absent.")] = UNSET


class SftTraining(Table, frozen=True, kw_only=True):
    """Which weights are trained."""

    mode: Annotated[str | UnsetType, Meta(description="Such as `full_finetune`, `lora` or `sft_offline`.")] = UNSET
    use_qlora: Annotated[bool | UnsetType, Meta(description="Adapters on quantised weights.")] = UNSET
    validation: Validation | UnsetType = UNSET


class Parallelism(Table, frozen=True, kw_only=True):
    """How one model is spread over GPUs. Sent as a whole, unknown keys too."""

    use_deepspeed: bool | UnsetType = UNSET
    deepspeed_stage: Whole | UnsetType = UNSET
    fsdp: bool | UnsetType = UNSET
    bf16: bool | UnsetType = UNSET
    fp16: bool | UnsetType = UNSET
    activation_checkpointing: bool | UnsetType = UNSET
    tensor_parallel_size: Count | UnsetType = UNSET
    pipeline_parallel_size: Count | UnsetType = UNSET


class Hyperparameters(Table, frozen=True, kw_only=True):
    """How it is trained."""

    n_epochs: Annotated[Count | UnsetType, Meta(description="Passes over the rows. 1 when absent.")] = UNSET
    batch_size: Annotated[Count | UnsetType, Meta(description="Rows of one batch.")] = UNSET
    global_batch: Annotated[Count | UnsetType, Meta(description="Rows of one update, over all GPUs.")] = UNSET
    per_device_batch: Annotated[Count | UnsetType, Meta(description="Rows on one GPU at a time.")] = UNSET
    gradient_accumulation_steps: Annotated[Count | UnsetType, Meta(description="Batches of one update.")] = UNSET
    sequence_length: Annotated[Count | UnsetType, Meta(description="Longest chat, in tokens.")] = UNSET
    learning_rate: Positive | UnsetType = UNSET
    warmup_ratio: Annotated[Fraction | UnsetType, Meta(description="Share of the steps that warm up.")] = UNSET
    weight_decay: Annotated[
        NotNegative | UnsetType, Meta(description="For the embedded backend; hosted ones do not get it.")
    ] = UNSET
    train_kind: Annotated[str | UnsetType, Meta(description="Such as `fft` or `peft`.")] = UNSET
    parallelism: Parallelism | UnsetType = UNSET


class SftLocal(Local, frozen=True, kw_only=True):
    """For the embedded backend only; hosted backends never see it."""

    samples: Annotated[
        Whole | UnsetType, Meta(description="Rows that the model answers before and after, to be seen. 3 when absent.")
    ] = UNSET


class SftConfig(TrainingFile, frozen=True, kw_only=True):
    """An SFT training job."""

    job: Job = Job()
    data: Data = Data()
    training: SftTraining = SftTraining()
    hyperparameters: Hyperparameters = Hyperparameters()
    local: SftLocal | UnsetType = UNSET
