"""Env files are chosen, and keys are found, asked for and refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from synth_train.adapters.in_memory.env import InMemoryEnv
from synth_train.adapters.in_memory.progress import RecordedProgress
from synth_train.adapters.in_memory.prompt import ScriptedPrompt
from synth_train.adapters.stdin_prompt import NobodyToAsk
from synth_train.domain.model.errors import AnswerNeeded, CredentialsError, LocalStateError, UsageError
from synth_train.domain.model.moments import EnvFilesUsed, Noted, ProblemFound
from synth_train.domain.model.secret import Secret
from synth_train.domain.model.settings import EnvFile, Variables
from synth_train.domain.model.task_app import TaskAppKeys
from synth_train.domain.usecases.keys import ResolveKeys
from synth_train.ports.prompt import PromptPort

KEY = "fake-synth-key-0001-abcdefgh"
NEEDED = (("SYNTH_API_KEY",), ("TASK_APP_URL", "TASK_APP_BASE_URL"))


class Desk:
    """Somebody at work: an environment, a prompt, and what was told."""

    def __init__(self, process: dict[str, str] | None = None, *, prompt: PromptPort | None = None) -> None:
        self.env = InMemoryEnv(process)
        self.progress = RecordedProgress()
        self.keys = ResolveKeys(env=self.env, prompt=prompt or NobodyToAsk(), progress=self.progress)

    def variables(
        self,
        *given: str,
        needed: Sequence[Sequence[str]] = NEEDED,
        beside: Sequence[Path] = (),
        dry_run: bool = False,
    ) -> Variables:
        return self.keys.variables(given=tuple(map(Path, given)), needed=needed, beside=beside, dry_run=dry_run)

    @property
    def used(self) -> list[tuple[Path, ...]]:
        return [moment.paths for moment in self.progress.of(EnvFilesUsed)]

    @property
    def warnings(self) -> list[str]:
        return [moment.text for moment in self.progress.of(Noted) if moment.warning]


# Which files are read


def test_all_files_that_were_given_are_read_and_the_last_wins() -> None:
    desk = Desk()
    desk.env.put("a.env", {"SYNTH_API_KEY": "a", "NOTE": "a"})
    desk.env.put("b.env", {"SYNTH_API_KEY": "b"})
    desk.env.put(".env", {"SYNTH_API_KEY": "not this"})

    variables = desk.variables("a.env", "b.env")

    assert desk.keys.api_key(variables) == Secret("b")
    assert variables.lookup("NOTE") is not None
    assert variables.named
    assert desk.used == [(Path("/repo/a.env"), Path("/repo/b.env"))]


def test_a_file_that_was_given_must_exist() -> None:
    with pytest.raises(UsageError, match=r"/repo/missing\.env"):
        Desk().variables("missing.env")


def test_a_file_that_cannot_be_read_stops_the_run() -> None:
    desk = Desk()
    desk.env.trouble[Path("/repo/a.env")] = LocalStateError("/repo/a.env: is UTF-16 by the look of it, not UTF-8")

    with pytest.raises(LocalStateError, match="UTF-16"):
        desk.variables("a.env")


def test_without_any_file_nothing_is_read_and_nothing_is_told() -> None:
    desk = Desk()

    variables = desk.variables()

    assert variables.files == ()
    assert desk.progress.moments == []


def test_the_only_candidate_is_read_without_a_question() -> None:
    desk = Desk(prompt=ScriptedPrompt())
    desk.env.put("/home/me/.synth-ai/.env", {"SYNTH_API_KEY": KEY})

    variables = desk.variables()

    assert desk.keys.api_key(variables) == Secret(KEY)
    assert not variables.named


def test_one_of_several_candidates_is_picked_when_something_is_missing() -> None:
    prompt = ScriptedPrompt(("Which env file", "2"))
    desk = Desk({"SYNTH_API_KEY": KEY}, prompt=prompt)
    desk.env.put(".env", {"TASK_APP_URL": "http://one"})
    desk.env.put("app/.env", {"TASK_APP_URL": "http://two"})
    desk.env.put("/elsewhere/.env")

    variables = desk.variables(beside=(Path("/elsewhere"),))

    assert prompt.asked == ["Which env file? | /repo/.env | /repo/app/.env | /elsewhere/.env"]
    assert desk.used == [(Path("/repo/app/.env"),)]
    assert variables.named
    assert variables.passed_over == (Path("/repo/.env"), Path("/elsewhere/.env"))


def test_nothing_is_asked_when_the_process_has_all_that_is_needed() -> None:
    desk = Desk({"SYNTH_API_KEY": KEY, "TASK_APP_BASE_URL": "http://p"}, prompt=ScriptedPrompt())
    desk.env.put(".env", {"NOTE": "1"})
    desk.env.put("app/.env", {"NOTE": "2"})

    variables = desk.variables()

    assert desk.used == [(Path("/repo/.env"),)]
    assert not variables.named


def test_a_file_elsewhere_is_not_read_when_nothing_is_needed() -> None:
    desk = Desk()
    desk.env.put("app/.env", {"NOTE": "2"})

    assert desk.variables(needed=()).files == ()


def test_the_choice_can_be_aborted() -> None:
    desk = Desk(prompt=ScriptedPrompt(("Which env file", "0")))
    desk.env.put(".env")
    desk.env.put("app/.env")

    with pytest.raises(UsageError, match="No env file was chosen") as caught:
        desk.variables()

    assert caught.value.hint == "Name one with --env-file FILE."


def test_where_nobody_can_pick_the_file_of_the_working_directory_is_read() -> None:
    desk = Desk()
    desk.env.put(".env", {"SYNTH_API_KEY": KEY})
    desk.env.put("app/.env", {"SYNTH_API_KEY": "other"})

    variables = desk.variables()

    assert desk.used == [(Path("/repo/.env"),)]
    assert not variables.named
    assert variables.passed_over == (Path("/repo/app/.env"),)


def test_where_nobody_can_pick_other_files_are_not_read_but_named_in_the_error() -> None:
    desk = Desk()
    desk.env.put("one/.env", {"SYNTH_API_KEY": KEY})
    desk.env.put("two/.env", {"SYNTH_API_KEY": KEY})

    with pytest.raises(CredentialsError) as caught:
        desk.keys.api_key(desk.variables())

    assert str(caught.value) == (
        "SYNTH_API_KEY not found: looked in the process environment, and for a .env file in /repo and "
        "/home/me/.synth-ai; not read: /repo/one/.env and /repo/two/.env"
    )
    assert caught.value.hint == (
        "Set SYNTH_API_KEY in the environment, or name the file that holds it with --env-file FILE."
    )
    assert desk.progress.moments == []


def test_a_dry_run_reads_the_file_of_the_working_directory_and_asks_nothing() -> None:
    desk = Desk(prompt=ScriptedPrompt())
    desk.env.put("app/.env", {"TASK_APP_URL": "http://two"})
    assert desk.variables(dry_run=True).files == ()

    desk.env.put(".env", {"TASK_APP_URL": "http://one"})
    assert desk.variables(dry_run=True).lookup("TASK_APP_URL") is not None
    assert desk.used == [(Path("/repo/.env"),)]


def test_a_dry_run_reads_the_files_that_were_given() -> None:
    desk = Desk()
    desk.env.put("a.env", {"TASK_APP_URL": "http://a"})

    assert desk.variables("a.env", dry_run=True).named


def test_unreadable_lines_are_told_with_file_and_line() -> None:
    desk = Desk()
    desk.env.put("keys.env", {"TASK_APP_URL": "http://127.0.0.1:9901"}, unreadable_lines=(2, 3))

    desk.variables("keys.env")

    assert [str(moment.problem) for moment in desk.progress.of(ProblemFound)] == [
        f"/repo/keys.env:{line}: this line cannot be read and was passed over; a setting is NAME=value, with every "
        "quote closed"
        for line in (2, 3)
    ]


# The API key


def test_the_api_key_of_the_process_beats_the_files() -> None:
    desk = Desk({"SYNTH_API_KEY": "process"})
    desk.env.put(".env", {"SYNTH_API_KEY": "file"})

    assert desk.keys.api_key(desk.variables()) == Secret("process")


def test_a_missing_key_is_said_beside_the_lines_that_could_not_be_read() -> None:
    desk = Desk()
    desk.env.put("keys.env", unreadable_lines=(2, 3))
    desk.env.put("more.env", unreadable_lines=(1,))
    desk.env.put("good.env")

    with pytest.raises(CredentialsError) as caught:
        desk.keys.api_key(desk.variables("keys.env", "more.env", "good.env"))

    assert str(caught.value) == (
        "SYNTH_API_KEY not found: looked in the process environment, /repo/keys.env, /repo/more.env and "
        "/repo/good.env; lines 2 and 3 of /repo/keys.env could not be read; line 1 of /repo/more.env could not be read"
    )
    assert caught.value.hint == (
        "Set SYNTH_API_KEY in the environment, or put the line SYNTH_API_KEY=... into /repo/good.env, or into a file "
        "that you name with --env-file FILE."
    )


def test_where_no_file_is_the_error_lists_the_directories() -> None:
    desk = Desk()

    with pytest.raises(CredentialsError) as caught:
        desk.keys.api_key(desk.variables(beside=(Path("/repo/cfg"), Path("/repo"))))

    assert str(caught.value) == (
        "SYNTH_API_KEY not found: looked in the process environment, and for a .env file in /repo, /repo/cfg and "
        "/home/me/.synth-ai"
    )


def test_names_that_look_like_the_missing_key_are_told_with_their_places() -> None:
    desk = Desk({"SYNTH_APIKEY": KEY, "OPENAI_API_KEY": KEY, "SYNTH_KEY": " "})
    desk.env.put(".env", {"SYNTH_KEY": KEY, "ENVIRONMENT_API_KEY": KEY})

    with pytest.raises(CredentialsError) as caught:
        desk.keys.api_key(desk.variables())

    assert str(caught.value) == (
        "SYNTH_API_KEY not found: looked in the process environment and /repo/.env; SYNTH_APIKEY in the process "
        "environment looks like it; SYNTH_KEY in /repo/.env looks like it"
    )
    assert KEY not in str(caught.value) + caught.value.hint


PLACEHOLDERS = (
    "...", "…", "xxxx", "sk-xxxx", "sk-...", "****", "<your key>", "'<key>'", "changeme", "CHANGE_ME", "your-api-key",
    "YOUR_SYNTH_API_KEY", "paste your key here", "sk-your-key", "placeholder", "TODO",
)  # fmt: skip


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_what_a_template_holds_in_place_of_a_key_is_refused_with_its_place(text: str) -> None:
    file = EnvFile(path=Path("/repo/.env"), values={"SYNTH_API_KEY": text}, lines={"SYNTH_API_KEY": 3})
    with pytest.raises(CredentialsError) as caught:
        Desk().keys.api_key(Variables(files=(file,)))
    assert str(caught.value) == "SYNTH_API_KEY in /repo/.env:3 is no key but holds the place of one"
    assert caught.value.hint == "Write the key itself in its place."


@pytest.mark.parametrize(
    "text", [KEY, "sk-0123456789abcdef", "x1", "todo-7f3a", "my-secret-key", "your-api-key-9", "wrong", "sk-xxxx1"]
)
def test_what_may_be_a_key_is_taken(text: str) -> None:
    assert Desk({"SYNTH_API_KEY": text}).keys.api_key(Variables(process={"SYNTH_API_KEY": text})) == Secret(text)


def test_a_missing_key_is_asked_for_and_saved_to_the_default_file() -> None:
    prompt = ScriptedPrompt(("SYNTH_API_KEY", KEY), ("Save SYNTH_API_KEY to /repo/.env?", ""))
    desk = Desk(prompt=prompt)

    assert desk.keys.api_key(desk.variables()) == Secret(KEY)
    assert desk.env.saved == [(Path("/repo/.env"), "SYNTH_API_KEY")]
    assert desk.env.read(Path(".env")).values == {"SYNTH_API_KEY": KEY}
    assert desk.progress.of(Noted) == [Noted(text="SYNTH_API_KEY saved to /repo/.env")]
    assert prompt.left == []


def test_a_typed_key_goes_to_the_file_that_wins() -> None:
    desk = Desk(prompt=ScriptedPrompt(("SYNTH_API_KEY", KEY), ("Save", "y")))
    desk.env.put("a.env")
    desk.env.put("b.env")

    desk.keys.api_key(desk.variables("a.env", "b.env"))

    assert desk.env.saved == [(Path("/repo/b.env"), "SYNTH_API_KEY")]


def test_a_typed_key_is_not_saved_unasked() -> None:
    desk = Desk(prompt=ScriptedPrompt(("SYNTH_API_KEY", KEY), ("Save", "n")))

    assert desk.keys.api_key(desk.variables()) == Secret(KEY)
    assert desk.env.saved == []
    assert desk.progress.moments == []


def test_a_typed_key_that_cannot_be_saved_is_used_all_the_same() -> None:
    desk = Desk(prompt=ScriptedPrompt(("SYNTH_API_KEY", KEY), ("Save", "y")))
    desk.env.trouble[Path("/repo/.env")] = LocalStateError("/repo/.env: read-only")

    assert desk.keys.api_key(desk.variables()) == Secret(KEY)
    assert desk.warnings == ["SYNTH_API_KEY was not saved: /repo/.env: read-only"]


def test_a_person_who_goes_away_is_told_the_remedy() -> None:
    desk = Desk(prompt=ScriptedPrompt(("SYNTH_API_KEY", None)))

    with pytest.raises(AnswerNeeded) as caught:
        desk.keys.api_key(desk.variables())

    assert "Set SYNTH_API_KEY in the environment" in caught.value.hint


@pytest.mark.parametrize("around", [" {} ", "{}\r", "{}\n", "\t{}"])
def test_blanks_around_a_key_are_left_out_and_said(around: str) -> None:
    desk = Desk({"SYNTH_API_KEY": around.format(KEY)})

    assert desk.keys.api_key(desk.variables()) == Secret(KEY)
    assert desk.warnings == ["SYNTH_API_KEY in the process environment has blanks around it; they were left out"]


@pytest.mark.parametrize(
    ("bad", "named"),
    [("\n", "U+000A"), ("\r", "U+000D"), ("\x7f", "U+007F"), ("\u200b", "U+200B"), ("“", "U+201C"), ("к", "U+043A")],
)
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(bad: str, named: str) -> None:
    desk = Desk()
    desk.env.put(".env", {"SYNTH_API_KEY": f"fake-{bad}key"})

    with pytest.raises(CredentialsError) as caught:
        desk.keys.api_key(desk.variables())

    assert str(caught.value) == (f"SYNTH_API_KEY in /repo/.env: character 6 ({named}) cannot be sent in an HTTP header")
    assert "fake" not in str(caught.value) + caught.value.hint


def test_a_typed_key_that_cannot_be_sent_is_refused_and_not_saved() -> None:
    desk = Desk(prompt=ScriptedPrompt(("SYNTH_API_KEY", "fake-\u200bkey")))

    with pytest.raises(CredentialsError, match="SYNTH_API_KEY as typed: character 6"):
        desk.keys.api_key(desk.variables())

    assert desk.env.saved == []


def test_a_letter_of_latin_1_can_be_sent() -> None:
    desk = Desk({"SYNTH_API_KEY": "clé"})

    assert desk.keys.api_key(desk.variables()) == Secret("clé")


# The environment key


def test_the_environment_key_comes_with_its_aliases_each_once() -> None:
    desk = Desk({"ENVIRONMENT_API_KEY_ALIASES": " b, a ,,b, c"})
    desk.env.put(".env", {"dev_environment_api_key": "a"})

    assert desk.keys.environment_key(desk.variables()) == TaskAppKeys(Secret("a"), (Secret("b"), Secret("c")))


def test_there_may_be_no_environment_key() -> None:
    desk = Desk({"ENVIRONMENT_API_KEY_ALIASES": "b"})

    assert desk.keys.environment_key(desk.variables()) is None


def test_an_alias_that_cannot_be_sent_is_refused_by_name() -> None:
    desk = Desk({"ENVIRONMENT_API_KEY": "a", "ENVIRONMENT_API_KEY_ALIASES": "b,\u200bc"})

    with pytest.raises(CredentialsError, match="ENVIRONMENT_API_KEY_ALIASES in the process environment: character 1"):
        desk.keys.environment_key(desk.variables())


def test_without_a_progress_nothing_is_told_and_all_else_is_the_same() -> None:
    env = InMemoryEnv({"SYNTH_API_KEY": f" {KEY}"})
    keys = ResolveKeys(env=env, prompt=NobodyToAsk())

    assert keys.api_key(keys.variables()) == Secret(KEY)
