"""What RL and SFT configs have in common.

The classes say everything that is known of a table: its keys, their types, bounds and meanings. `check` words the
problems from them, `schema` makes the JSON Schema from them (wire-contract §6.3, §6.4, design §4). Nothing in them is
required: whether enough is there is `usecases.plan`'s question, since the command line may say it too.

Neither here nor in `rl` and `sft` are annotations postponed: msgspec would compile each of them again from its text,
which takes longer than everything else that a check does.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

Count = Annotated[int, Meta(ge=1)]
Whole = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
FreeTable = dict[str, Any]

ONE_OF = "one of"
"""Under this name a `Meta.extra` holds the only words that a text may be, in any case and with blanks around."""


class Table(Struct, frozen=True, kw_only=True):
    """A table whose keys are all known. Any other key in it is reported."""


class OpenTable(Table, frozen=True, kw_only=True):
    """A table that other programs read too: the keys named here are checked, others are nobody's mistake."""


class Algorithm(Table, frozen=True, kw_only=True):
    """How the model is trained. There are four triples."""

    type: Annotated[str | UnsetType, Meta(description="`online` (RL) or `offline` (SFT).")] = UNSET
    method: Annotated[
        str | UnsetType, Meta(description="`policy_gradient` (RL), `supervised_finetune` or `sft` (SFT).")
    ] = UNSET
    variety: Annotated[str | UnsetType, Meta(description="`gspo` (RL), `fft` or `lora` (SFT).")] = UNSET


class Topology(OpenTable, frozen=True, kw_only=True):
    """How the GPUs are shared out."""

    type: Annotated[str | UnsetType, Meta(description="Such as `single_node_split`.")] = UNSET
    gpus_for_vllm: Annotated[Whole | UnsetType, Meta(description="GPUs that sample.")] = UNSET
    gpus_for_training: Annotated[Whole | UnsetType, Meta(description="GPUs that train.")] = UNSET
    gpus_for_ref: Annotated[Whole | UnsetType, Meta(description="GPUs for the reference model.")] = UNSET
    tensor_parallel: Annotated[Count | UnsetType, Meta(description="GPUs that share one model.")] = UNSET
    reference_placement: Annotated[str | UnsetType, Meta(description="`none`, `shared` or `dedicated`.")] = UNSET


class Compute(Table, frozen=True, kw_only=True):
    """The machines to train on."""

    gpu_type: Annotated[str | UnsetType, Meta(description="Such as `H100`.")] = UNSET
    gpu_count: Annotated[Whole | UnsetType, Meta(description="GPUs in all.")] = UNSET
    nodes: Annotated[Count | UnsetType, Meta(description="Machines.")] = UNSET
    topology: Topology | UnsetType = UNSET


class Lora(OpenTable, frozen=True, kw_only=True):
    """Low-rank adapters."""

    r: Annotated[Count | UnsetType, Meta(description="Rank.")] = UNSET
    alpha: Annotated[Positive | UnsetType, Meta(description="Scale of the adapter's output, over `r`.")] = UNSET
    dropout: Annotated[Fraction | UnsetType, Meta(description="Share of the adapter's inputs left out.")] = UNSET
    target_modules: Annotated[
        list[str] | str | UnsetType, Meta(description="Layers that get an adapter; `all-linear` for all of them.")
    ] = UNSET


class Local(OpenTable, frozen=True, kw_only=True):
    """For the embedded backend only; hosted backends never see it."""

    seed: Annotated[Whole | UnsetType, Meta(description="Makes a run repeatable.")] = UNSET
    threads: Annotated[
        Count | UnsetType, Meta(description="CPU threads of the trainer. All cores but one when absent.")
    ] = UNSET
    device: Annotated[str | UnsetType, Meta(description="`cuda`, `mps` or `cpu`; found when absent.")] = UNSET
    dtype: Annotated[
        str | UnsetType, Meta(description="What products are computed in: `float32`, `bfloat16` or `float16`.")
    ] = UNSET
    checkpoint_steps: Annotated[
        Count | UnsetType, Meta(description="Steps between two checkpoints; about a minute of work when absent.")
    ] = UNSET
    merge: Annotated[bool | UnsetType, Meta(description="Save an adapter merged into its base. false when absent.")] = (
        UNSET
    )


class TrainingFile(Table, frozen=True, kw_only=True):
    """What stands at the top of both kinds of config."""

    type: Annotated[
        str | UnsetType,
        Meta(
            description="`rl` or `sft`. Decides the kind before all else.",
            extra={ONE_OF: ("rl", "sft")},
            extra_json_schema={"pattern": r"^\s*([rR][lL]|[sS][fF][tT])\s*$"},
        ),
    ] = UNSET
    job_type: Annotated[str | UnsetType, Meta(description="`rl`, as older configs have it.")] = UNSET
    algorithm: Algorithm = Algorithm()
    compute: Compute = Compute()
    lora: Lora | UnsetType = UNSET
    tags: Annotated[FreeTable | UnsetType, Meta(description="Labels of the run, free.")] = UNSET
    metadata: Annotated[FreeTable | UnsetType, Meta(description="Notes of your own, free.")] = UNSET
    local: Local | UnsetType = UNSET
    smoke: Annotated[FreeTable | UnsetType, Meta(description="For the client's smoke test; never sent.")] = UNSET
