"""Find the variables of a run, and the keys among them: process environment, env files, then the person (design §3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from synth_train.domain.model.errors import CredentialsError, LocalStateError, UsageError
from synth_train.domain.model.moments import EnvFilesUsed, Noted, ProblemFound
from synth_train.domain.model.places import Place, Problem, Severity
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import (
    API_KEY,
    ENVIRONMENT_KEY_ALIASES,
    EnvFile,
    Found,
    Variables,
    is_placeholder,
)
from synth_train.ports.env_source import EnvSourcePort
from synth_train.ports.progress import ProgressPort
from synth_train.ports.prompt import PromptPort

if TYPE_CHECKING:
    from synth_train.domain.model.task_app import TaskAppKeys

_SENDABLE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
"""What may stand in the value of an HTTP header."""


class ResolveKeys(Struct, frozen=True, kw_only=True):
    """Built once with its ports; asked for the variables first, then for the keys that the job needs."""

    env: EnvSourcePort
    prompt: PromptPort
    progress: ProgressPort = field(default_factory=ProgressPort)

    def variables(
        self,
        *,
        given: Sequence[Path] = (),
        needed: Sequence[Sequence[str]] = (),
        beside: Sequence[Path] = (),
        dry_run: bool = False,
    ) -> Variables:
        """Choose env files and read them. Lines that cannot be read are told as warnings.

        Files that were given are taken, all of them. Without any: when the process environment has all that is
        needed, and in a dry run, `./.env` if it exists; otherwise the only candidate, or the one picked of several,
        or, where nobody can pick, `./.env`.

        Args:
            given: files the user named; a later one beats an earlier one.
            needed: the names of each value that the run cannot do without; one name of each group is enough.
            beside: the directories of the configs.

        Raises:
            UsageError: a file that was given does not exist, or the choice was aborted.
            LocalStateError: a file cannot be read, or is not UTF-8.
        """
        process = self.env.process()
        missing = [names for names in needed if Variables(process=process).lookup(*names) is None]
        candidates: tuple[Path, ...] = ()
        named = bool(given)
        if given:
            chosen = tuple(given)
        elif missing and not dry_run:
            candidates = self.env.candidates(beside)
            named = len(candidates) > 1 and self.prompt.somebody
            chosen = self._pick(candidates) if named else self._by_itself(candidates)
        else:
            chosen = self._by_itself(())
        files = tuple(self.env.read(path) for path in chosen)
        if files:
            self.progress.tell(EnvFilesUsed(paths=tuple(file.path for file in files)))
        for file in files:
            for line in file.unreadable_lines:
                self.progress.tell(ProblemFound(problem=_unreadable(file, line)))
        read = {file.path for file in files}
        return Variables(
            process=process,
            files=files,
            named=named,
            searched=() if given else self.env.places(beside),
            passed_over=tuple(path for path in candidates if path not in read),
        )

    def api_key(self, variables: Variables) -> Secret:
        """The key of the backend: from the variables, else asked for.

        Raises:
            CredentialsError: it is nowhere and nobody can be asked, or it cannot be sent in a header.
            AnswerNeeded: the person went away instead of answering.
        """
        found = variables.lookup(API_KEY)
        return self.fit(found) if found else self.ask(API_KEY, variables)

    def fit(self, found: Found) -> Secret:
        """A key that was found, as it can be sent.

        Raises:
            CredentialsError: it cannot be sent in a header, or is no key but what a template holds in its place.
        """
        return self._fit(found.value, found.place)

    def environment_key(self, variables: Variables) -> TaskAppKeys | None:
        """The key of the task app and its aliases; None when there is none, which may be minted then.

        Raises:
            CredentialsError: one of them cannot be sent in a header.
        """
        found = variables.environment_key()
        return self.with_aliases(self.fit(found), variables) if found else None

    def with_aliases(self, primary: Secret, variables: Variables) -> TaskAppKeys:
        """`primary` and the further keys of `ENVIRONMENT_API_KEY_ALIASES`, each once.

        Raises:
            CredentialsError: an alias cannot be sent in a header.
        """
        # Loaded here, because a dry run has no key and should take no time.
        from synth_train.domain.model.task_app import TaskAppKeys

        found = variables.lookup(ENVIRONMENT_KEY_ALIASES)
        where = found.place if found else ""
        aliases = [self._fit(item, where) for item in variables.listed(ENVIRONMENT_KEY_ALIASES)]
        return TaskAppKeys(primary, tuple(alias for alias in dict.fromkeys(aliases) if alias != primary))

    def ask(self, name: str, variables: Variables) -> Secret:
        """Let a person type the key `name`, and offer to save it.

        Raises:
            CredentialsError: nobody can be asked, or what was typed cannot be sent in a header.
            AnswerNeeded: the person went away instead of answering.
        """
        if not self.prompt.somebody:
            raise CredentialsError(f"{name} not found: {_looked_in(name, variables)}", hint=_remedy(name, variables))
        secret = self.prompt.ask_secret(f"{name} (not shown while you type)", remedy=_remedy(name, variables))
        secret = self._fit(secret.reveal(), f"{name} as typed")
        path = self.save_to(variables)
        if self.prompt.confirm(f"Save {name} to {path}?", default=True, remedy=_remedy(name, variables)):
            try:
                self.env.save(path, name, secret.reveal())
            except LocalStateError as error:
                # It was typed once and can be typed again: no reason to stop the job.
                self.progress.tell(Noted(text=f"{name} was not saved: {error}", warning=True))
            else:
                self.progress.tell(Noted(text=f"{name} saved to {path}"))
        return secret

    def save_to(self, variables: Variables) -> Path:
        """Where a new value goes: the env file in use, of several the one that wins, else `./.env`."""
        return variables.files[-1].path if variables.files else self.env.default_file()

    def _by_itself(self, candidates: tuple[Path, ...]) -> tuple[Path, ...]:
        if len(candidates) == 1:
            return candidates
        default = self.env.default_file()
        return (default,) if self.env.exists(default) else ()

    def _pick(self, candidates: tuple[Path, ...]) -> tuple[Path, ...]:
        index = self.prompt.choose("Which env file?", [str(path) for path in candidates], remedy=_NAME_ONE)
        if index is None:
            raise UsageError("No env file was chosen, so nothing was done", hint=_NAME_ONE)
        return (candidates[index],)

    def _fit(self, text: str, where: str) -> Secret:
        trimmed = text.strip()
        if trimmed != text:
            self.progress.tell(Noted(text=f"{where} has blanks around it; they were left out", warning=True))
        if is_placeholder(trimmed):
            raise CredentialsError(
                f"{where} is no key but holds the place of one", hint="Write the key itself in its place."
            )
        at = len(_SENDABLE.match(trimmed)[0])  # type: ignore[index]  # it matches the empty text too
        if at < len(trimmed):
            raise CredentialsError(
                f"{where}: character {at + 1} (U+{ord(trimmed[at]):04X}) cannot be sent in an HTTP header",
                hint="Copy the key again, without line ends and invisible characters.",
            )
        return Secret(trimmed)


_NAME_ONE = "Name one with --env-file FILE."


def _unreadable(file: EnvFile, line: int) -> Problem:
    what = "this line cannot be read and was passed over; a setting is NAME=value, with every quote closed"
    return Problem(Place(str(file.path), line), "", what, Severity.WARNING)


def _looked_in(name: str, variables: Variables) -> str:
    """All that was tried, and each thing seen that may be the reason."""
    if variables.files:
        text = f"looked in {_and(['the process environment', *(str(file.path) for file in variables.files)])}"
    else:
        places = _and([str(path) for path in variables.searched])
        text = f"looked in the process environment, and for a .env file in {places}"
    for file in variables.files:
        if file.unreadable_lines:
            lines = _and([str(line) for line in file.unreadable_lines])
            noun = "line" if len(file.unreadable_lines) == 1 else "lines"
            text += f"; {noun} {lines} of {file.path} could not be read"
    for found in variables.like(name):
        text += f"; {found.place} looks like it"
    if variables.passed_over:
        text += f"; not read: {_and([str(path) for path in variables.passed_over])}"
    return text


def _remedy(name: str, variables: Variables) -> str:
    if variables.passed_over:
        return f"Set {name} in the environment, or name the file that holds it with --env-file FILE."
    file = variables.files[-1].path if variables.files else "./.env"
    return (
        f"Set {name} in the environment, or put the line {name}=... into {file}, or into a file that you name with"
        " --env-file FILE."
    )


def _and(words: Sequence[str]) -> str:
    *head, last = words
    return f"{', '.join(head)} and {last}" if head else last
