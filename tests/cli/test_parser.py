"""The options: what they are called, what they take, what is said when they are wrong."""

from __future__ import annotations

import re

import pytest

from synth_train.domain.model.errors import UsageError
from synth_train.entrypoints.cli.parser import Answered, parse, wants_json

TRAIN = ["train", "--config", "sft.toml"]


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("--idem", "--idempotency"),
        ("--example", "--examples"),
        ("--poll-t", "--poll-timeout"),
        ("--no-pol", "--no-poll"),
        ("--dat", "--dataset"),
        ("--env", "--env-file"),
        ("--confi", "--config"),
        ("--dataest", "--dataset"),
        ("--idempotency-key=K", "--idempotency"),
        ("--poll-", "--poll-timeout or --poll-interval"),
    ],
)
def test_a_misspelt_option_is_named_with_the_right_one(typed: str, near: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse([*TRAIN, typed, "x"])

    assert str(refused.value) == f"there is no option {typed.partition('=')[0]}; did you mean {near}?"
    assert refused.value.hint == "`synth-ai train --help` lists what there is."


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "the command is missing; there are: train, config, data, jobs, serve, task-app, doctor and completion"),
        (["-v"], "there is no option -v"),
        (["config"], "the action is missing; there are: check, models and schema"),
        (["data", "check"], "the following arguments are required: FILE"),
        (["jobs", "watch"], "the following arguments are required: JOB"),
        ([*TRAIN, "extra"], "unexpected argument: extra"),
        ([*TRAIN, "--xyzzy"], "there is no option --xyzzy"),
        ([*TRAIN, "-x"], "there is no option -x"),
        ([*TRAIN, "--", "--new"], "there is no option --new"),
        (["--verison"], "there is no option --verison; did you mean --version?"),
        (["--version=1", "train"], "--version: ignored explicit argument '1'"),
        (["jobs", "watch", "--tpye", "sft"], "there is no option --tpye; did you mean --type?"),
        (["data", "check", "--exmaples=3"], "there is no option --exmaples; did you mean --examples?"),
        (["trian", "--config", "sft.toml"], "there is no command trian; did you mean train?"),
        (["jobs", "lst"], "there is no action lst; did you mean list?"),
        (["jobs", "sh"], "there is no action sh; did you mean show?"),
        (["config", "xyzzy"], "there is no action xyzzy; there are: check, models and schema"),
        (["sft.toml"], "there is no command sft.toml; did you mean synth-ai train --config sft.toml?"),
        (["train", "sft.toml"], "unexpected argument: sft.toml; did you mean --config sft.toml?"),
        (["train", "chats.jsonl"], "unexpected argument: chats.jsonl; did you mean --dataset chats.jsonl?"),
        (["jobs", "list", "sft.toml"], "unexpected argument: sft.toml"),
        (["train", "--type", "gspo"], "--type: must be auto, rl or sft, not 'gspo'"),
        (["config", "schema", "toml"], "kind: must be rl, sft or output, not 'toml'"),
        ([*TRAIN, "--config"], "--config: expected one argument"),
        ([*TRAIN, "--dataset="], "--dataset: must not be empty"),
        ([*TRAIN, "--env-file", ""], "--env-file: must not be empty"),
        ([*TRAIN, "--backend="], "--backend: must not be empty"),
        ([*TRAIN, "--examples", "0"], "--examples: must be a whole number above 0, not '0'"),
        ([*TRAIN, "--examples", "1.5"], "--examples: must be a whole number above 0, not '1.5'"),
        ([*TRAIN, "--idempotency="], "--idempotency: an idempotency key is 1 to 255 printable ASCII characters"),
        ([*TRAIN, "--idempotency", "a\nb"], "--idempotency: an idempotency key is 1 to 255 printable ASCII characters"),
        ([*TRAIN, "--idempotency", "clé"], "--idempotency: an idempotency key is 1 to 255 printable ASCII characters"),
        ([*TRAIN, "--strict", "--allow-unknown"], "--allow-unknown: not allowed with argument --strict"),
        (
            ["jobs", "logs", "j", "--since", "soon"],
            "--since: 'soon' is neither a time ago (90s, 10m, 2h, 1d) nor an ISO time",
        ),
        ([*TRAIN, "--dry-run=yes"], "--dry-run: ignored explicit argument 'yes'"),
    ],
)
def test_what_cannot_be_is_said_with_the_option_as_typed(args: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(args)

    assert str(refused.value) == message


@pytest.mark.parametrize("option", ["--poll-timeout", "--poll-interval"])
@pytest.mark.parametrize("value", ["abc", "nan", "-1", "inf", "0", "", "1e9"])
def test_a_duration_is_positive_and_finite(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=option):
        parse([*TRAIN, option, value])


def test_an_option_that_does_not_exist_comes_before_what_is_missing() -> None:
    with pytest.raises(UsageError, match="--outptu"):
        parse(["jobs", "watch", "--outptu", "json"])


def test_what_is_left_out_has_the_defaults_of_the_doc_page() -> None:
    args = parse(["train"])

    assert (args.poll, args.poll_timeout, args.poll_interval) == (True, 3600.0, 5.0)
    assert (args.config, args.env_file, args.set) == ([], [], [])
    assert (args.type, args.output, args.allow_experimental, args.idempotency) == ("auto", "human", None, None)
    switches = (args.dry_run, args.new, args.mint, args.strict, args.allow_unknown, args.insecure_http, args.verbose)
    assert not any((*switches, args.any_model))


def test_every_option_reaches_its_place() -> None:
    typed = (
        "train --config a --config=b --type rl --env-file e --env-file=f --task-url T --dataset D --backend B --model M"
        " --no-allow-experimental --idempotency K --dry-run --no-poll --poll-timeout 1 --poll-interval 0.5 --examples 3"
        " --set x=1 --set y=2 --strict --output json --new --mint --insecure-http -v"
        " --stream-format chart --any-model"
    )
    args = parse(typed.split())

    given = {name: value for name, value in vars(args).items() if name != "parser"}
    assert given == {
        "command": "train",
        "config": ["a", "b"],
        "stream_format": "chart",
        "type": "rl",
        "env_file": ["e", "f"],
        "task_url": "T",
        "dataset": "D",
        "backend": "B",
        "model": "M",
        "allow_experimental": False,
        "any_model": True,
        "idempotency": "K",
        "dry_run": True,
        "poll": False,
        "poll_timeout": 1.0,
        "poll_interval": 0.5,
        "examples": 3,
        "set": ["x=1", "y=2"],
        "strict": True,
        "allow_unknown": False,
        "output": "json",
        "new": True,
        "mint": True,
        "insecure_http": True,
        "verbose": True,
    }


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["train", "--output=json", "--idem"], True),
        (["train", "--output", "json"], True),
        (["train", "--output", "human"], False),
        (["json", "--output"], False),
    ],
)
def test_json_is_seen_on_a_command_line_that_is_wrong_elsewhere(argv: list[str], wanted: bool) -> None:
    assert wants_json(argv) is wanted


def shown(*args: str) -> str:
    with pytest.raises(Answered) as answered:
        parse(args)
    return answered.value.text


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["train"],
        ["config"],
        ["config", "check"],
        ["config", "models"],
        ["config", "schema"],
        ["data"],
        ["data", "check"],
        ["jobs"],
        ["jobs", "show"],
        ["jobs", "watch"],
        ["task-app"],
        ["task-app", "check"],
        ["doctor"],
        ["completion"],
        ["jobs", "list"],
        ["jobs", "logs"],
        ["jobs", "cancel"],
        ["jobs", "metrics"],
        ["jobs", "retry"],
        ["jobs", "download"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_help_that_fits_on_a_screen(
    monkeypatch: pytest.MonkeyPatch, command: list[str], option: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = shown(*command, option)

    assert text.startswith(f"usage: {' '.join(['synth-ai', *command])}")
    assert max(map(len, text.splitlines())) <= 100
    assert text.isascii()


def test_the_help_of_train_explains_every_option_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    options = shown("train", "--help").partition("examples:")[0].partition("what to train:")[2]

    explained = [line for line in options.splitlines() if line.startswith(" ")]
    # Two options are too long for their names and their explanations to stand on one line.
    names = [line for line in explained if line.startswith("  -")]
    assert len(explained) == len(names) + 2
    assert [name for name in names if len(re.split(r"\s{2,}", name.strip())) < 2] == [
        "  --allow-experimental, --no-allow-experimental",
        "  --stream-format {cli,chart}",
    ]


def test_the_help_of_train_ends_with_examples_and_exit_codes() -> None:
    text = shown("train", "--help")

    codes = text[text.index("exit codes:") :]
    assert text.index("examples:") < text.index("exit codes:")
    for code in (*range(10), 130, 141, 143):
        assert re.search(rf"^  {code} +\w", codes, re.MULTILINE)


@pytest.mark.parametrize("columns", ["abc", "0", ""])
def test_a_terminal_without_a_width_has_one_all_the_same(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert "exit codes:" in shown("train", "--help")


@pytest.mark.parametrize("command", [["--version"], ["train", "--version"]], ids=" ".join)
def test_the_version_is_that_of_the_distribution(command: list[str]) -> None:
    assert re.fullmatch(r"synth-ai \d+\S*\n", shown(*command))
