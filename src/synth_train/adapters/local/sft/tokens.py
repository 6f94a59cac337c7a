"""From chats to tokens and labels: what the model reads, and which of it it learns to say.

Labels are made here and not by TRL, from the same chat templates, because rows differ too much for the tables that
TRL keeps them in (each tool has other arguments), and because a message may have weight 0. TRL takes labels as they
are; that ours are those of its `assistant_only_loss` is tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow as pa  # type: ignore[import-untyped]
from datasets import Dataset  # type: ignore[import-untyped]
from jinja2 import TemplateError
from msgspec import Struct
from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import is_chat_template_stop_token_trained, supports_tool_calling

from synth_train.adapters.local.models import Loaded, training_template
from synth_train.adapters.local.sft.chats import Chat, Unfit, chat_of, rows_of
from synth_train.domain.model.hosting import TrainingFailed

IGNORED = -100
"""The label of a token that is read and not learnt."""

_ROWS_AT_ONCE = 500
"""Rows that are in memory while a file is read."""

_TOKENS = pa.list_(pa.int32())
_SCHEMA = pa.schema([("input_ids", _TOKENS), ("labels", _TOKENS)])


class Tokens(Struct, frozen=True, kw_only=True):
    """A chat as the model reads it."""

    ids: list[int]
    labels: list[int]
    """The same tokens, `IGNORED` where nothing is learnt."""


class Prepared(Struct, frozen=True, kw_only=True):
    """A file of rows, ready to be trained on."""

    dataset: Dataset
    rows: int
    """Rows of the file, fit or not."""
    tokens: int
    """Of all rows that are used, after cutting."""
    learnt: int
    """Those of them that are learnt."""
    cut: int
    """Rows that were longer than may be."""
    longest: int
    """Tokens of the longest row, before cutting."""
    longest_line: int
    unfit: dict[str, tuple[int, int]]
    """Why rows were left out: how many, and the line of the first."""
    examples: list[Chat]
    """The first chats that are used, of those that begin with a question."""

    @property
    def used(self) -> int:
        """Rows that are trained on."""
        return len(self.dataset)


class Marker(Protocol):
    """Somebody who tells what the assistant says from the rest of a chat."""

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> tuple[list[int], list[bool]]:
        """The tokens of a chat, and for each whether the assistant says it.

        Raises:
            Unfit: the template cannot write this chat.
        """
        ...


class ByTemplate(Marker):
    """Marker by the `{% generation %}` marks of the chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, template: str) -> None:
        self._tokenizer: Any = tokenizer  # what its methods give depends on their arguments
        self._template = template

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> tuple[list[int], list[bool]]:
        made = self._tokenizer.apply_chat_template(
            messages,
            tools=tools,
            chat_template=self._template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        return made["input_ids"], [bool(bit) for bit in made["assistant_masks"]]


class ByPrefix(Marker):
    """Marker for templates without marks: what the assistant says is what its message adds to the chat before it.

    That holds for templates that write a chat's beginning in one way, whatever follows; `proven` tells whether one
    does. A chat for which it does not is unfit.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer: Any = tokenizer  # what its methods give depends on their arguments

    @property
    def proven(self) -> bool:
        """Whether it works on a simple chat: each answer is marked, with the token that ends it."""
        said = ["One.", "Two."]
        chat = [{"role": "user", "content": "First?"}, {"role": "assistant", "content": said[0]},
                {"role": "user", "content": "Second?"}, {"role": "assistant", "content": said[1]}]  # fmt: skip
        try:
            ids, marks = self(chat, None)
        except (Unfit, TemplateError, ValueError, TypeError):
            return False
        ends = set(self._tokenizer.get_added_vocab().values())
        runs = list(_runs(marks))
        return len(runs) == len(said) and all(
            text in self._tokenizer.decode(ids[start:stop]) and ids[stop - 1] in ends
            for text, (start, stop) in zip(said, runs, strict=True)
        )

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> tuple[list[int], list[bool]]:
        text = self._text(messages, tools)
        spans = []
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                before = self._text(messages[:index], tools, prompt=True)
                through = self._text(messages[: index + 1], tools)
                if not (text.startswith(through) and through.startswith(before)):
                    raise Unfit("a chat whose beginning the model's chat template writes differently later on")
                spans.append((len(before), len(through.rstrip())))
        made = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        marks = [any(start < stop and start >= low and stop <= high for low, high in spans)
                 for start, stop in made["offset_mapping"]]  # fmt: skip
        return made["input_ids"], marks

    def _text(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, *, prompt: bool = False) -> str:
        return cast(
            str,
            self._tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=prompt),
        )


class Reader:
    """Turns chats into tokens, for one model."""

    def __init__(self, loaded: Loaded) -> None:
        """
        Raises:
            TrainingFailed: what the assistant says cannot be told from the rest in this model's chats.
        """
        self._name = loaded.source.name
        self._tokenizer: Any = loaded.tokenizer
        if not loaded.tokenizer.is_fast:
            raise TrainingFailed(
                f"the tokenizer of {self._name} does not tell where its tokens stand in the text (it is not a fast "
                "one), so what the assistant says cannot be told from the rest"
            )
        self._marker, self._stops = _marker_for(loaded)
        self._tools = supports_tool_calling(loaded.tokenizer)
        self._developer = "developer" in str(loaded.tokenizer.chat_template)
        self.context = int(getattr(loaded.model.config.get_text_config(), "max_position_embeddings", 0)) or None
        """The longest text that the model reads, in tokens; None when it does not say."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody who trains this model should know."""
        if self._stops:
            return ()
        what = "leaves the token that ends an answer out of what is learnt, so the model may not learn to stop"
        return (f"the chat template of {self._name} {what}",)

    def read(self, chat: Chat) -> Tokens:
        """A chat's tokens and labels.

        Raises:
            Unfit: it cannot be written by the model's chat template, or nothing of it is learnt.
        """
        if chat.calls_tools and not self._tools:
            raise Unfit("tool calls, which the model's chat template cannot write")
        if not any(chat.learnt):
            raise Unfit("every answer has weight 0" if chat.learnt else "no answer")
        with _refused():
            ids, said = self._marker(self._roles(chat.messages), chat.tools or None)
        if not all(chat.learnt):
            said = self._without_weightless(said, chat)
        if not any(said):
            raise Unfit("no answer")
        return Tokens(ids=ids, labels=[token if learnt else IGNORED for token, learnt in zip(ids, said, strict=True)])

    def prompt(self, chat: Chat) -> list[int]:
        """The tokens after which the last answer of a chat is due.

        Raises:
            Unfit: the model's chat template does not write the chat up to there.
        """
        with _refused():
            made = self._tokenizer.apply_chat_template(
                self._roles(chat.messages[: chat.last_answer]),
                tools=chat.tools or None,
                tokenize=True,
                return_dict=True,
                add_generation_prompt=True,
            )
        return cast("list[int]", made["input_ids"])

    def _roles(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._developer:
            return messages
        # Most templates leave a role that they do not know out, without a word.
        return [m | {"role": "system"} if m["role"] == "developer" else m for m in messages]

    def _without_weightless(self, said: list[bool], chat: Chat) -> list[bool]:
        runs = list(_runs(said))
        if len(runs) != len(chat.learnt):
            raise Unfit("weights, but the model's chat template runs several answers together")
        said = list(said)
        for (start, stop), learnt in zip(runs, chat.learnt, strict=True):
            said[start:stop] = [learnt] * (stop - start)
        return said


def _marker_for(loaded: Loaded) -> tuple[Marker, bool]:
    """The way to mark a model's chats, and whether it marks the end of an answer too."""
    try:
        template = training_template(loaded)
    except (TrainingFailed, TemplateError) as error:
        by_prefix = ByPrefix(loaded.tokenizer)
        if by_prefix.proven:
            return by_prefix, True
        if isinstance(error, TrainingFailed):
            raise
        what = f"the chat template of {loaded.source.name} refuses a plain chat"
        raise TrainingFailed(f"{what}, so nothing can be trained on it: {error}") from None
    return ByTemplate(loaded.tokenizer, template), is_chat_template_stop_token_trained(loaded.tokenizer, template)


def prepare(
    lines: Iterable[bytes], reader: Reader, longest: int, place: Path, *, examples: int, go_on: Callable[[], None]
) -> Prepared:
    """Read a file of rows. Memory does not grow with it: the tokens are in a file at `place`, and mapped from there.

    Args:
        longest: tokens that a row may have; of a longer one the beginning is used.
        examples: how many chats are to be given back as they are.
        go_on: asked between rows; raises what is to end the reading.
    """
    count = _Count(examples)
    place.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_stream(sink, _SCHEMA) as stream:
        for rows in _in_batches(_tokens(lines, reader, longest, count, go_on)):
            stream.write_batch(
                pa.record_batch(
                    [pa.array([r.ids for r in rows], _TOKENS), pa.array([r.labels for r in rows], _TOKENS)],
                    schema=_SCHEMA,
                )
            )
    return Prepared(
        dataset=Dataset.from_file(str(place)),
        rows=count.rows,
        tokens=count.tokens,
        learnt=count.learnt,
        cut=count.cut,
        longest=count.longest,
        longest_line=count.longest_line,
        unfit={reason: (number, count.first[reason]) for reason, number in count.unfit.most_common()},
        examples=count.examples,
    )


class _Count:
    """What is counted on the way through a file."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.rows = self.tokens = self.learnt = self.cut = self.longest = self.longest_line = 0
        self.unfit: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.examples: list[Chat] = []


def _tokens(
    lines: Iterable[bytes], reader: Reader, longest: int, count: _Count, go_on: Callable[[], None]
) -> Iterator[Tokens]:
    for line, row in rows_of(lines):
        go_on()
        count.rows += 1
        try:
            chat = chat_of(line, row)
            tokens = reader.read(chat)
            if len(tokens.ids) > count.longest:
                count.longest, count.longest_line = len(tokens.ids), line
            if len(tokens.ids) > longest:
                tokens = Tokens(ids=tokens.ids[:longest], labels=tokens.labels[:longest])
                if all(label == IGNORED for label in tokens.labels):
                    raise Unfit(f"no answer within the first {longest} tokens")
                count.cut += 1
        except Unfit as unfit:
            count.unfit[unfit.reason] += 1
            count.first.setdefault(unfit.reason, line)
            continue
        count.tokens += len(tokens.ids)
        count.learnt += sum(label != IGNORED for label in tokens.labels)
        if len(count.examples) < count.wanted and chat.last_answer > 0:
            count.examples.append(chat)
        yield tokens


def _in_batches(rows: Iterator[Tokens]) -> Iterator[list[Tokens]]:
    batch: list[Tokens] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _runs(marks: list[bool]) -> Iterator[tuple[int, int]]:
    """The stretches of marked tokens, as first and behind the last."""
    at = 0
    for marked, run in groupby(marks):
        length = len(list(run))
        if marked:
            yield at, at + length
        at += length


@contextmanager
def _refused() -> Iterator[None]:
    """What a chat template says of a chat that it does not write, as the reason for leaving the chat out."""
    try:
        yield
    except (TemplateError, ValueError, TypeError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise Unfit(f"a chat that the model's chat template refuses ({first})") from None
