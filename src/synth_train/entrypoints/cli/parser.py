"""Every option, with its check. Nothing but argparse is loaded here, so that `--help` answers at once (design §6)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, NoReturn

from synth_train.entrypoints.exit_codes import MEANINGS

PROG = "synth-ai"

DESCRIPTION = "Run RL and SFT training jobs from TOML files."

SEVERAL_JOBS = {"watch": "are followed at once", "metrics": "are compared"}
"""What is done with several jobs, by the actions that take them."""

JOB_COLUMNS = ("id", "kind", "status", "model", "created", "name", "base_model", "fine_tuned_model")
"""Of a list of jobs."""

COMMANDS = {
    "train": "submit the jobs that TOML files describe, and follow them to their end",
    "config": "check a TOML, print the schema of one, or list the models that there are",
    "data": "check a chat dataset",
    "jobs": "look at jobs; follow, cancel or download one",
    "serve": "serve this machine's backend over HTTP, with a page for browsers",
    "task-app": "check a task app against the contract",
    "doctor": "look whether keys, backend, task app and machine are fit for jobs",
    "completion": "print the completion script of a shell",
}

JOB_ACTIONS = {
    "show": ("print the state of a job", "Print the state of a job. Exit status 0, whatever the state."),
    "watch": (
        "follow jobs to their ends",
        "Follow jobs that exist to their ends. Stopping the watch stops no job.\n"
        "The exit status of several is the worst of theirs.",
    ),
    "logs": ("print what has happened to a job", "Print the events of a job, the oldest first, a line for each."),
    "metrics": (
        "print the metrics of jobs",
        "Print the metrics of a job: a line for each, every point, or a picture. Several jobs are compared.",
    ),
    "open": (
        "open the page of a job in a browser",
        "Print the address of the page of a job and, on a terminal, open it in a browser.",
    ),
    "cancel": ("end a job", "Ask a job to end, and wait a little until it has."),
    "retry": (
        "run a job again that has ended",
        "Run a job again that has ended: a new job, with the same request and files. A job has one retry.",
    ),
    "download": (
        "fetch the model that a job has made",
        "Fetch the model that a job has made, all of it or nothing.\n"
        "What was cut off goes on where it stopped. Every file is held against its size and SHA-256.",
    ),
}
"""What can be done with one job: a line of help, and a sentence or two."""

EXAMPLES = """\
examples:
  synth-ai train --config grpo.toml --env-file .env
  synth-ai train --config sft.toml --dataset chats.jsonl --examples 50 --dry-run
  synth-ai train --config sft.toml --set hyperparameters.n_epochs=2 --no-poll
  synth-ai train --config a.toml --config b.toml --output json > result.json
"""

WIDEST = 100
"""Columns of a help text that one can still read."""

LONGEST_TIME = 1e9
"""Seconds; more than anybody waits, and less than any clock can count."""


class Answered(Exception):
    """There is nothing to do but to show `text`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of one command: `command` (with `action`, where a command has several) and what belongs to it.

    Raises:
        UsageError: an option that does not exist (with the near name), a value that cannot be, something missing.
        Answered: `--help` or `--version` was asked for.
    """
    # Every parser takes its time to build, so those of the other commands are left out.
    parser = build_parser(argv[0] if argv and argv[0] in COMMANDS else None)
    _refuse_unknown_options(argv, parser)
    args, rest = parser.parse_known_args(argv)
    for stray in rest:
        if stray != "--":
            _refuse(stray, args.parser)
    below = _below(args.parser)
    if below is not None:
        _misused(f"the {str(below.metavar).lower()} is missing; there are: {_listed(list(below.choices))}", args.parser)
    return args


def wants_json(argv: Sequence[str]) -> bool:
    """Whether `--output json` was asked for, also on a command line that is wrong elsewhere."""
    return "--output=json" in argv or ("--output", "json") in pairwise(argv)


# -- the commands


def build_parser(only: str | None = None) -> _Parser:
    """The parser of all commands, or of `only` one, for `parse` and for whatever else has to know what there is."""
    parser = _Parser(
        prog=PROG,
        usage=f"{PROG} COMMAND [options]",
        description=DESCRIPTION,
        epilog=f"`{PROG} COMMAND --help` tells the options of a command.\n\n{_exit_codes()}",
    )
    _info(parser)
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(title="commands", prog=PROG, dest="command", metavar="COMMAND")
    fill = {
        "train": _train,
        "config": _config,
        "data": _data,
        "jobs": _jobs,
        "serve": _serve,
        "task-app": _task_app,
        "doctor": _doctor,
        "completion": _completion,
    }
    for name, summary in COMMANDS.items():
        if only in (None, name):
            fill[name](commands.add_parser(name, help=summary))
    return parser


def _train(parser: _Parser) -> None:
    _describe(
        parser,
        usage=f"{PROG} train [--config FILE]... [options]",
        description=f"{_sentence(COMMANDS['train'])} Several take turns.",
        epilog=f"{EXAMPLES}\n{_exit_codes()}",
    )
    what = parser.add_argument_group("what to train")
    what.add_argument(
        "--config", action="append", default=[], type=_text, metavar="FILE", help="TOML of a job; may be repeated"
    )
    _content(what)
    what.add_argument("--examples", type=_count, metavar="N", help="SFT: use the first N rows only")

    where = parser.add_argument_group("where it runs, and with which keys")
    _backend(where)
    where.add_argument("--mint", action="store_true", help="RL: replace the backend's environment key by a new one")

    job = parser.add_argument_group("the job")
    job.add_argument("--dry-run", action="store_true", help="print what would be sent; send nothing")
    job.add_argument(
        "--idempotency", type=_key, metavar="KEY", help="one job for this key, however often it is asked for"
    )
    job.add_argument("--new", action="store_true", help="do not go on with a run that stopped half-way")

    watching = parser.add_argument_group("watching")
    watching.add_argument("--poll", action=argparse.BooleanOptionalAction, help="follow the job (default: yes)")
    parser.set_defaults(poll=True)
    _polling(watching)
    _stream_format(watching)
    _general(parser)


def _config(parser: _Parser) -> None:
    _describe(parser, usage=f"{PROG} config ACTION ...", description=_sentence(COMMANDS["config"]))
    _info(parser)
    actions = parser.add_subparsers(title="actions", prog=f"{PROG} config", dest="action", metavar="ACTION")

    check = actions.add_parser("check", help="validate TOML files; needs no key and no network")
    _describe(
        check,
        usage=f"{PROG} config check FILE... [options]",
        description="Validate training TOMLs: every problem of a file at once, with line and key.",
    )
    check.add_argument("files", nargs="+", type=_text, metavar="FILE", help="TOML of a job")
    options = check.add_argument_group("options")
    _content(options)
    _general(check)

    models = actions.add_parser("models", help="list the models that hosted backends train")
    _describe(
        models,
        usage=f"{PROG} config models [{{rl,sft}}] [options]",
        description="List the models of the catalogue, which kinds of job train them, and which are experimental.",
    )
    models.add_argument("kind", nargs="?", choices=("rl", "sft"), help="only those that such jobs can train")
    _general(models)

    schema = actions.add_parser("schema", help="print the JSON Schema of a TOML, or of what --output json writes")
    _describe(
        schema,
        usage=f"{PROG} config schema {{rl,sft,output}}",
        description="Print the JSON Schema of a training TOML, or of what --output json writes.",
    )
    schema.add_argument("kind", choices=("rl", "sft", "output"), help="TOML of such a job, or the JSON of all commands")
    _general(schema, output=False)
    schema.set_defaults(output="human")


def _data(parser: _Parser) -> None:
    _describe(parser, usage=f"{PROG} data ACTION ...", description=_sentence(COMMANDS["data"]))
    _info(parser)
    actions = parser.add_subparsers(title="actions", prog=f"{PROG} data", dest="action", metavar="ACTION")
    check = actions.add_parser("check", help="validate every row of a JSONL file")
    _describe(
        check,
        usage=f"{PROG} data check FILE... [options]",
        description="Validate chat datasets: every bad row with line, path and reason.",
    )
    check.add_argument("files", nargs="+", type=_text, metavar="FILE", help="chats as JSONL, one row a line")
    check.add_argument_group("options").add_argument(
        "--examples", type=_count, metavar="N", help="stop after the first N rows"
    )
    _general(check)


def _jobs(parser: _Parser) -> None:
    _describe(parser, usage=f"{PROG} jobs ACTION ...", description=_sentence(COMMANDS["jobs"]))
    _info(parser)
    actions = parser.add_subparsers(title="actions", prog=f"{PROG} jobs", dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print the newest jobs")
    _describe(listing, usage=f"{PROG} jobs list [options]", description="Print the newest jobs, a line for each.")
    options = listing.add_argument_group("options")
    options.add_argument("--type", choices=("auto", "rl", "sft"), default="auto", help="jobs of this kind only")
    options.add_argument("--status", type=_text, metavar="WORD", help="jobs of this status only, such as running")
    options.add_argument("--limit", type=_count, default=20, metavar="N", help="at most so many (default: 20)")
    options.add_argument(
        "--columns",
        type=_job_columns,
        default=JOB_COLUMNS[:5],
        metavar="LIST",
        help=f"columns, with commas between: {_listed(JOB_COLUMNS)} (default: the first five)",
    )
    _backend(options)
    _general(listing)

    for name, (help_, description) in JOB_ACTIONS.items():
        action = actions.add_parser(name, help=help_)
        _describe(action, usage=f"{PROG} jobs {name} JOB [options]", description=description)
        named = "id of the job, the beginning of it, or @last"
        if name in SEVERAL_JOBS:
            action.usage = f"{PROG} jobs {name} JOB... [options]"
            action.add_argument(
                "job_ids", nargs="+", type=_text, metavar="JOB", help=f"{named}; several {SEVERAL_JOBS[name]}"
            )
        else:
            action.add_argument("job_id", type=_text, metavar="JOB", help=named)
        options = action.add_argument_group("options")
        options.add_argument("--type", choices=("auto", "rl", "sft"), default="auto", help="kind of job")
        if name == "logs":
            _log_filters(options)
        if name == "metrics":
            options.add_argument(
                "--name", action="append", default=[], type=_text, metavar="GLOB", help="these only; may be repeated"
            )
            form = options.add_mutually_exclusive_group()
            form.add_argument("--csv", action="store_true", help="every point: job, name, step, value, time")
            form.add_argument(
                "--plot", type=_text, metavar="FILE", help="draw the curves into a .png, .svg or .pdf; needs [plot]"
            )
            options.add_argument("--log", action="store_true", help="with --plot: logarithmic scales")
        if name == "download":
            options.add_argument(
                "--out", type=_text, metavar="FOLDER", help="where to; must be new or empty (default: ./JOB)"
            )
            options.add_argument("--force", action="store_true", help="let files in the folder be replaced")
        _backend(options)
        if name in ("watch", "logs"):
            _polling(options)
        if name == "watch":
            _stream_format(options)
        _general(action)


def _task_app(parser: _Parser) -> None:
    _describe(parser, usage=f"{PROG} task-app ACTION ...", description=_sentence(COMMANDS["task-app"]))
    _info(parser)
    actions = parser.add_subparsers(title="actions", prog=f"{PROG} task-app", dest="action", metavar="ACTION")
    check = actions.add_parser("check", help="use it as a trainer would, and name each rule that it breaks")
    _describe(
        check,
        usage=f"{PROG} task-app check URL [options]",
        description="Check a task app: its routes, its keys, its seeds, and rollouts with a scripted policy.\n"
        "The policy is on this machine's loopback, so rollouts need an app on this machine, too.",
    )
    check.add_argument("url", type=_text, metavar="URL", help="address of the task app")
    options = check.add_argument_group("options")
    _env_files(options)
    options.add_argument("--config", type=_text, metavar="FILE", help="TOML whose [rollout] the rollouts use")
    options.add_argument(
        "--timeout", type=_seconds, default=120.0, metavar="SECONDS", help="for one rollout (default: 120)"
    )
    _general(check)


def _serve(parser: _Parser) -> None:
    _describe(
        parser,
        usage=f"{PROG} serve [options]",
        description="Serve the backend of this machine over HTTP, until SIGTERM or Ctrl-C.\n"
        "A key is made when it first starts, unless one is given.",
    )
    where = parser.add_argument_group("where")
    where.add_argument("--host", type=_text, default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    where.add_argument("--port", type=_port, default=8000, help="port to listen on; 0: any (default: 8000)")
    where.add_argument("--expose", action="store_true", help="let other machines in; needs a key of your own")
    who = parser.add_argument_group("who may come in, and with how much")
    who.add_argument("--token-file", type=_text, metavar="FILE", help="keys, a line each (default: SYNTH_SERVE_TOKEN)")
    who.add_argument("--max-upload", type=_size, metavar="SIZE", help="largest file, such as 500M (default: 8G)")
    _general(parser, output=False)
    parser.set_defaults(output="human")


def _doctor(parser: _Parser) -> None:
    _describe(
        parser,
        usage=f"{PROG} doctor [options]",
        description="Look whether everything is there that jobs need. Nothing is changed, and no job created.",
    )
    options = parser.add_argument_group("options")
    _backend(options)
    options.add_argument("--task-url", type=_text, metavar="URL", help="address of the task app")
    options.add_argument("--devices", action="store_true", help="look for GPUs, too; loads torch")
    _general(parser)


def _completion(parser: _Parser) -> None:
    _describe(
        parser,
        usage=f"{PROG} completion {{bash,zsh,fish}}",
        description="Print a script that teaches a shell to complete commands, options and files.",
        epilog=f"""\
examples:
  {PROG} completion bash > ~/.local/share/bash-completion/completions/{PROG}
  {PROG} completion zsh > ~/.zfunc/_{PROG}
  {PROG} completion fish > ~/.config/fish/completions/{PROG}.fish
""",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    _general(parser, output=False)
    parser.set_defaults(output="human")


# -- options that several commands share


def _content(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--type", choices=("auto", "rl", "sft"), default="auto", help="kind of job (default: auto)")
    group.add_argument("--model", type=_text, metavar="ID", help="train this model, not the config's")
    group.add_argument(
        "--allow-experimental",
        action=argparse.BooleanOptionalAction,
        help="accept experimental models (unset: SDK_EXPERIMENTAL decides)",
    )
    group.add_argument(
        "--any-model", action="store_true", help="accept models that are in no catalogue, as `serve` and local train"
    )
    group.add_argument("--task-url", type=_text, metavar="URL", help="RL: address of the task app, not the config's")
    group.add_argument("--dataset", type=_text, metavar="FILE", help="SFT: chats as JSONL, not the config's")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        type=_text,
        metavar="A.B=VALUE",
        help="change a key of the TOML; VALUE is TOML; may be repeated",
    )
    either = group.add_mutually_exclusive_group()
    either.add_argument("--strict", action="store_true", help="an unknown TOML key is always an error")
    either.add_argument("--allow-unknown", action="store_true", help="an unknown TOML key is never an error")


def _backend(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--backend", type=_text, metavar="URL", help="base URL of the backend, or local")
    _env_files(group)
    group.add_argument(
        "--insecure-http", action="store_true", help="allow plain http to a host other than this machine"
    )


def _env_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--env-file", action="append", default=[], type=_text, metavar="FILE", help="keys; may be repeated, later wins"
    )


def _polling(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--poll-timeout",
        type=_seconds,
        default=3600.0,
        metavar="SECONDS",
        help="stop waiting after so long (default: 3600)",
    )
    group.add_argument(
        "--poll-interval",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="time between two looks at the job (default: 5)",
    )


def _log_filters(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    group.add_argument(
        "--level", choices=("info", "warning", "error"), default="info", help="from this level on (default: info)"
    )
    group.add_argument("--since", type=_since, metavar="TIME", help="not before: 10m, 2h or 1d ago, or an ISO time")
    group.add_argument("--search", type=_text, metavar="TEXT", help="only what has this text in it")


def _stream_format(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--stream-format",
        choices=("cli", "chart"),
        default="cli",
        help="show events and metrics as lines, or as a live chart (default: cli)",
    )


def _general(parser: _Parser, *, output: bool = True) -> None:
    group = parser.add_argument_group("general")
    if output:
        group.add_argument(
            "--output",
            choices=("human", "json"),
            default="human",
            help="a transcript, or one JSON document at the end (default: human)",
        )
    group.add_argument("-v", "--verbose", action="store_true", help="show where an error comes from")
    _info(group)


def _info(group: argparse._ActionsContainer) -> None:
    group.add_argument("--version", action=_Version, help="print the version")
    group.add_argument("-h", "--help", action=_ShowHelp, help="print this help")


def _describe(parser: _Parser, *, usage: str, description: str, epilog: str | None = None) -> None:
    parser.usage, parser.description, parser.epilog = usage, description, epilog
    parser.set_defaults(parser=parser)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _exit_codes() -> str:
    return "exit codes:\n" + "".join(f"  {code:<4} {meaning}\n" for code, meaning in MEANINGS.items())


# -- values


def _text(value: str) -> str:
    if not value:
        raise argparse.ArgumentTypeError("must not be empty")
    return value


def _count(value: str) -> int:
    try:
        count = int(value)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {value!r}")
    return count


def _job_columns(value: str) -> tuple[str, ...]:
    columns = tuple(column.strip() for column in value.split(","))
    for column in columns:
        if column not in JOB_COLUMNS:
            meant = _meant(column, JOB_COLUMNS) if column else ""
            raise argparse.ArgumentTypeError(
                f"there is no column {column or repr(column)}{meant or f'; there are: {_listed(JOB_COLUMNS)}'}"
            )
    return columns


def _port(value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) < 65_536):
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535, not {value!r}")
    return int(value)


def _size(value: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(value[-1:].upper(), 1)
    digits = value[:-1] if unit > 1 else value
    if not (digits.isascii() and digits.isdigit() and int(digits)):
        raise argparse.ArgumentTypeError(f"must be a number of bytes, or of K, M or G, above 0, not {value!r}")
    return int(digits) * unit


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not (isfinite(seconds) and 0 < seconds < LONGEST_TIME):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, above 0 and below a billion, not {value!r}")
    return seconds


def _since(value: str) -> str:
    from synth_train.domain.model.event_filter import since

    try:
        since(value, 0.0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{value!r} {error}") from None
    return value


def _key(value: str) -> str:
    from synth_train.domain.model.jobs import idempotency_key

    try:
        return idempotency_key(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# -- argparse, bent


class _Help(argparse.RawDescriptionHelpFormatter):
    """Names on the left, one line for each; as wide as the terminal, but not wider than one can read.

    argparse would load shutil, and with it every compressor, to learn the width.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=min(_columns(), WIDEST))


def _columns() -> int:
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(1).columns or WIDEST
    except OSError:
        return WIDEST


class _Parser(argparse.ArgumentParser):
    """Takes no abbreviations, and hands an error on as a UsageError."""

    def __init__(
        self,
        *,
        prog: str | None = None,
        usage: str | None = None,
        description: str | None = None,
        epilog: str | None = None,
    ) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=_Help,
            allow_abbrev=False,
            add_help=False,
        )

    def error(self, message: str) -> NoReturn:
        _misused(message.removeprefix("argument "), self)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            _refuse_choice(str(value), action, self)


class _Answer(argparse.Action):
    """An option that is answered at once."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)


class _ShowHelp(_Answer):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise Answered(parser.format_help())


class _Version(_Answer):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        # Looked up now: reading the metadata takes longer than all else here.
        from synth_train import __version__

        raise Answered(f"{PROG} {__version__}\n")


def _refuse_unknown_options(argv: Sequence[str], parser: _Parser) -> None:
    """Name an option that does not exist before argparse finds that something else is missing.

    Whatever begins with two dashes is an option to argparse too, also behind an option that wants a value.
    """
    for word in argv:
        below = _below(parser)
        if below is not None and not word.startswith("-"):
            if word not in below.choices:
                return
            parser = below.choices[word]
        elif word == "--":
            return
        elif word.startswith("--") and (option := word.partition("=")[0]) not in _options_of(parser):
            _misused(f"there is no option {option}{_meant(option, _options_of(parser))}", parser)


def _refuse(word: str, parser: _Parser) -> NoReturn:
    """Say what is wrong with an argument that belongs to no option."""
    if word.startswith("-") and word != "-":
        _misused(f"there is no option {word.partition('=')[0]}", parser)
    for ending, option in (".toml", "--config"), (".jsonl", "--dataset"):
        if word.endswith(ending) and option in _options_of(parser):
            _misused(f"unexpected argument: {word}; did you mean {option} {word}?", parser)
    _misused(f"unexpected argument: {word}", parser)


def _refuse_choice(word: str, action: argparse.Action, parser: _Parser) -> NoReturn:
    """Say that a word is none of those that there are, and which of them may be meant."""
    known = list(map(str, action.choices or ()))
    if action.metavar in ("COMMAND", "ACTION"):
        meant = _meant(word, known)
        if word.endswith(".toml"):
            meant = f"; did you mean {PROG} train --config {word}?"
        what = str(action.metavar).lower()
        _misused(f"there is no {what} {word}{meant or f'; there are: {_listed(known)}'}", parser)
    _misused(f"{'/'.join(action.option_strings) or action.dest}: must be {_listed(known, 'or')}, not {word!r}", parser)


def _below(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[_Parser] | None:
    """What the commands or actions below a parser are kept in; None for one that has none."""
    return next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)


def _options_of(parser: argparse.ArgumentParser) -> list[str]:
    return [name for action in parser._actions for name in action.option_strings]


def _meant(word: str, known: Sequence[str]) -> str:
    """The question after what may be meant by a misspelt word, or by the beginning of one; empty if nothing may."""
    from difflib import get_close_matches

    near = [name for name in known if name.startswith(word)] or get_close_matches(word, known, n=1)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _misused(message: str, parser: argparse.ArgumentParser) -> NoReturn:
    from synth_train.domain.model.errors import UsageError

    raise UsageError(message, hint=f"`{parser.prog} --help` lists what there is.")
