"""`synth-ai train`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from synth_train.domain.model.config.findings import UnknownKeys
from synth_train.domain.model.jobs import IdempotencyKey, Kind
from synth_train.domain.usecases.batch import ConfigResult
from synth_train.domain.usecases.train import TrainRequest
from synth_train.entrypoints.cli.report import described
from synth_train.entrypoints.exit_codes import exit_code_of

if TYPE_CHECKING:
    from synth_train.entrypoints.cli.session import Session


def run(session: Session) -> int:
    """Submit what was asked for, follow it, and tell what became of each config."""
    results = session.app.train(request_of(session.args))
    code = exit_code_of(results)
    if session.as_json:
        session.document(code, results=[_described(result) for result in results])
    else:
        _print_payloads(session, results)
    several = len(results) > 1
    for result in results:
        if result.error is not None:
            session.report.error(result.error, config=result.config if several else "")
    if not session.as_json:
        _print_outcomes(session, results)
    return code


def request_of(args: Namespace) -> TrainRequest:
    """The options as the use case takes them."""
    return TrainRequest(
        configs=tuple(map(Path, args.config)),
        kind=kind_of(args),
        env_files=tuple(map(Path, args.env_file)),
        task_url=args.task_url,
        dataset=args.dataset,
        backend=args.backend,
        model=args.model,
        allow_experimental=args.allow_experimental,
        any_model=args.any_model,
        key=None if args.idempotency is None else IdempotencyKey(args.idempotency),
        dry_run=args.dry_run,
        poll=args.poll,
        poll_timeout=args.poll_timeout,
        poll_interval=args.poll_interval,
        examples=args.examples,
        overrides=tuple(args.set),
        unknown_keys=unknown_keys_of(args),
        fresh=args.new,
        mint=args.mint,
        insecure_http=args.insecure_http,
    )


def kind_of(args: Namespace) -> Kind | None:
    """`--type`; None for `auto`."""
    return None if args.type == "auto" else Kind(args.type)


def unknown_keys_of(args: Namespace) -> UnknownKeys:
    """`--strict` and `--allow-unknown`."""
    if args.strict:
        return UnknownKeys.ERRORS
    return UnknownKeys.WARNINGS if args.allow_unknown else UnknownKeys.BY_LIKENESS


def _print_payloads(session: Session, results: Sequence[ConfigResult]) -> None:
    payloads = [result.payload for result in results if result.payload is not None]
    for payload in payloads:
        if session.screen.pretty and len(results) == 1:
            for line in msgspec.json.format(payload, indent=2).decode().splitlines():
                session.screen.out(line)
        else:
            session.screen.data(payload + b"\n")


def _print_outcomes(session: Session, results: Sequence[ConfigResult]) -> None:
    if len(results) > 1:
        # A dry run's stdout holds bodies and nothing else.
        write = session.screen.err if session.args.dry_run else session.screen.out
        for result in results:
            outcome = _outcome(result)
            write(outcome if outcome.startswith(result.config) else f"{result.config}: {outcome}")
    else:
        for result in results:
            if result.job_id is not None and result.phase is None:
                # Below the error, if there is one, so that the last lines always have the job and its last word.
                session.screen.err(f"Job {result.job_id}: {result.word or 'created'}")
    _tell_how_to_watch(session, [result for result in results if result.ok and result.phase is None])


def _tell_how_to_watch(session: Session, unwatched: Sequence[ConfigResult]) -> None:
    jobs = [result.job_id for result in unwatched if result.job_id is not None]
    if jobs:
        kinds = {result.kind for result in unwatched}
        kind = kinds.pop() if len(kinds) == 1 else None
        them = "it" if len(jobs) == 1 else "them"
        session.screen.err(f"Watch {them} with: {session.progress.watching(*jobs, kind=kind)}")


def _outcome(result: ConfigResult) -> str:
    """What became of one config, in a few words."""
    if result.skipped:
        return "not begun"
    if result.payload is not None:
        return "would be sent"
    job = f"job {result.job_id} {result.word or 'created'}" if result.job_id is not None else ""
    if result.error is None:
        return job
    what = str(result.error).partition("\n")[0]
    return f"{job}; {what}" if job else what


def _described(result: ConfigResult) -> dict[str, object]:
    """A result as the value that stands in the JSON document."""
    return {
        "config": result.config,
        "kind": result.kind and result.kind.value,
        "ok": result.ok,
        "skipped": result.skipped,
        "job_id": result.job_id,
        "status": result.word or None,
        "phase": result.phase and result.phase.value,
        "reason": result.reason or None,
        "fine_tuned_model": result.fine_tuned_model,
        "payload": None if result.payload is None else msgspec.Raw(result.payload),
        "error": None if result.error is None else described(result.error),
    }
