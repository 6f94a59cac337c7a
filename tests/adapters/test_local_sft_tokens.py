"""What is learnt of a chat: the assistant's turns, whatever form the row has and whatever the chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import trl.chat_template_utils
from datasets import Dataset  # type: ignore[import-untyped]
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from support.sft_jobs import Row, chat, chats
from synth_train.adapters.local.models import Loaded, Method, Source, tiny_model, tiny_tokenizer
from synth_train.adapters.local.sft.chats import Unfit, chat_of
from synth_train.adapters.local.sft.tokens import IGNORED, Prepared, Reader, Tokens, prepare
from synth_train.domain.model.hosting import TrainingFailed

TEMPLATES = Path(trl.chat_template_utils.__file__).parent / "chat_templates"

PLAIN = """\
{%- if messages[0].role != 'system' %}{{- '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
"""Chats as most small models have them, without marks."""

FORGETFUL = """\
{%- for message in messages %}
{%- if message.role == 'user' or loop.last %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
"""Leaves earlier answers out, so that a chat begins in another way when it goes on."""


def reader(template: str | None = None) -> Reader:
    """For `tiny`, with a chat template of another model."""
    tokenizer = tiny_tokenizer()
    if template is not None:
        tokenizer.chat_template = template
    return Reader(
        Loaded(
            source=Source(name="some/model", folder=None), model=tiny_model(), tokenizer=tokenizer, method=Method.FULL
        )
    )


def read(row: Row, template: str | None = None) -> Tokens:
    return reader(template).read(chat_of(1, json.dumps(row).encode()))


def learnt(tokens: Tokens) -> list[str]:
    """The stretches that are learnt, as text."""
    tokenizer = tiny_tokenizer()
    stretches: list[list[int]] = [[]]
    for label in tokens.labels:
        if label == IGNORED:
            stretches.append([])
        else:
            stretches[-1].append(label)
    return [str(tokenizer.decode(stretch)) for stretch in stretches if stretch]


def whole(tokens: Tokens) -> str:
    return str(tiny_tokenizer().decode(tokens.ids))


def qwen3() -> str:
    return (TEMPLATES / "qwen3.jinja").read_text(encoding="utf-8")


TALK = chat("Hi.", "Hello!", "And now?", "Bye!")


@pytest.mark.parametrize("template", [None, PLAIN], ids=["marked", "plain"])
def test_the_answers_are_learnt_with_the_token_that_ends_them_and_nothing_else(template: str | None) -> None:
    tokens = read(TALK, template)
    assert learnt(tokens) == ["Hello!<|im_end|>", "Bye!<|im_end|>"]
    assert all(label in (IGNORED, token) for token, label in zip(tokens.ids, tokens.labels, strict=True))


def test_a_known_template_gets_its_marks() -> None:
    assert [text.replace("<think>\n\n</think>\n\n", "") for text in learnt(read(TALK, qwen3()))] == [
        "Hello!<|im_end|>\n",
        "Bye!<|im_end|>\n",
    ]


@pytest.mark.parametrize("template", [None, PLAIN, qwen3()], ids=["marked", "plain", "qwen3"])
def test_an_answer_of_weight_0_is_read_and_not_learnt(template: str | None) -> None:
    row = chat("Hi.", "Hello!", "And now?", "Bye!", weights={1: 0, 3: 1})
    tokens = read(row, template)
    assert "Hello!" in whole(tokens)
    (only,) = learnt(tokens)
    assert "Bye!<|im_end|>" in only
    assert tokens.ids == read(TALK, template).ids


def test_the_weight_of_somebody_else_changes_nothing() -> None:
    assert read(chat("Hi.", "Hello!", weights={0: 0})) == read(chat("Hi.", "Hello!"))


@pytest.mark.parametrize("template", [None, qwen3()], ids=["tiny", "qwen3"])
def test_the_labels_are_those_of_the_assistant_only_loss_of_trl(
    template: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    tokenizer = tiny_tokenizer()
    if template is not None:
        tokenizer.chat_template = template
    rows = [*chats(3), TALK]
    trainer: Any = SFTTrainer(
        model=tiny_model(),
        args=SFTConfig(
            output_dir=str(tmp_path),
            assistant_only_loss=True,
            use_cpu=True,
            bf16=False,
            report_to=[],
            activation_checkpointing=False,
        ),
        train_dataset=Dataset.from_list([dict(row) for row in rows]),
        processing_class=tokenizer,
    )
    theirs = [(row["input_ids"], row["labels"]) for row in trainer.train_dataset]
    assert [(tokens.ids, tokens.labels) for tokens in (read(row, template) for row in rows)] == theirs


CALL = {"type": "function", "id": "call_1", "function": {"name": "look", "arguments": '{"at":  "sky", "n": 2}'}}
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
CALLING: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Up?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
        {"role": "assistant", "content": "Blue."},
    ],
    "tools": [{"type": "function", "function": TOOL}],
}


@pytest.mark.parametrize("template", [None, qwen3()], ids=["tiny", "qwen3"])
def test_calls_of_tools_are_learnt_as_the_template_writes_them(template: str | None) -> None:
    tokens = read(CALLING, template)
    call, answer = learnt(tokens)
    assert '<tool_call>\n{"name": "look", "arguments": {"at": "sky", "n": 2}}\n</tool_call><|im_end|>' in call
    assert "Blue.<|im_end|>" in answer
    assert "<tool_response>\nblue\n</tool_response>" in whole(tokens)
    assert '"description": "Look."' in whole(tokens)


def test_all_forms_of_a_call_are_the_same_chat() -> None:
    flat = json.loads(json.dumps(CALLING))
    flat["messages"][1]["tool_calls"] = [{"name": "look", "arguments": '{"at": "sky", "n": 2}'}]
    flat["tools"] = [TOOL]
    old = json.loads(json.dumps(CALLING))
    old["messages"][1] = {"role": "assistant", "function_call": {"name": "look", "arguments": '{"at":"sky","n":2}'}}
    old["messages"][2] = {"role": "function", "name": "look", "content": "blue"}
    old["functions"] = old.pop("tools")
    assert read(flat) == read(old) == read(CALLING)


def test_text_parts_are_joined_and_an_object_is_its_json() -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "."}]
    row = {"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": {"mood": "göd"}}]}
    assert "user\nHi.<|im_end|>" in whole(read(row))
    assert learnt(read(row)) == ['{"mood": "göd"}<|im_end|>']


def test_a_developer_is_a_system_where_the_template_knows_none() -> None:
    row = {"messages": [{"role": "developer", "content": "Short."}, *TALK["messages"]]}
    assert whole(read(row, qwen3())).startswith("<|im_start|>system\nShort.<|im_end|>")


def test_reasoning_stands_where_the_template_has_a_place_for_it() -> None:
    row = {"messages": [TALK["messages"][0], {"role": "assistant", "reasoning": "Greet.", "content": "Hello!"}]}
    (said,) = learnt(read(row, qwen3()))
    assert said == "<think>\nGreet.\n</think>\n\nHello!<|im_end|>\n"


def test_a_template_that_cannot_be_marked_is_refused_by_the_name_of_its_model() -> None:
    with pytest.raises(TrainingFailed, match="chat template of some/model does not mark what the assistant says"):
        reader(FORGETFUL)


def test_a_template_that_writes_no_chat_at_all_is_refused_in_its_own_words() -> None:
    with pytest.raises(TrainingFailed, match=r"template of some/model refuses a plain chat, .*: Not here"):
        reader("{%- if add_generation_prompt %}{{ raise_exception('Not here') }}{%- endif %}" + qwen3())


def test_a_template_that_does_not_train_the_end_of_an_answer_is_warned_of() -> None:
    marked = PLAIN.replace(
        "'\\n' + message.content + '<|im_end|>\\n' }}",
        "'\\n' }}{%- if message.role == 'assistant' %}{%- generation %}{{- message.content }}{%- endgeneration %}"
        "{%- else %}{{- message.content }}{%- endif %}{{- '<|im_end|>\\n' }}",
    )
    assert learnt(read(TALK, marked)) == ["Hello!", "Bye!"]
    (warning,) = reader(marked).warnings
    assert "some/model" in warning
    assert "may not learn to stop" in warning
    assert reader(PLAIN).warnings == reader().warnings == ()


@pytest.mark.parametrize(
    ("row", "template", "reason"),
    [
        (b'{"messages": [', None, "no chat"),
        (b"[]", None, "no chat"),
        (b'{"messages": [{"role": "assistant"}, 1]}', None, "no chat"),
        (
            b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]}',
            None,
            "an image",
        ),
        (json.dumps(CALLING).encode(), PLAIN, "tool calls, which the model's chat template cannot write"),
        (json.dumps(chat("Hi.", "Hello!", weights={1: 0})).encode(), None, "every answer has weight 0"),
        (b'{"messages": [{"role": "user", "content": "Hi."}]}', None, "no answer"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_unfit(row: bytes, template: str | None, reason: str) -> None:
    with pytest.raises(Unfit) as unfit:
        reader(template).read(chat_of(1, row))
    assert reason in unfit.value.reason


def test_a_row_that_the_template_refuses_is_unfit_in_the_words_of_the_template() -> None:
    strict = (
        "{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{%- endif %}" + PLAIN
    )
    row = {"messages": [{"role": "system", "content": "Short."}, *TALK["messages"]]}
    with pytest.raises(Unfit, match=r"refuses \(System role not supported\)"):
        reader(strict).read(chat_of(1, json.dumps(row).encode()))


def test_a_chat_is_prompted_up_to_its_last_answer() -> None:
    prompt = reader().prompt(chat_of(1, json.dumps(TALK).encode()))
    assert str(tiny_tokenizer().decode(prompt)).endswith("user\nAnd now?<|im_end|>\n<|im_start|>assistant\n")


def test_a_template_that_takes_only_whole_chats_has_no_prompt() -> None:
    condition = "add_generation_prompt and messages[0].content == 'Hi.'"
    refusal = f"{{%- if {condition} %}}{{{{ raise_exception('No prompts') }}}}{{%- endif %}}"
    only_whole = refusal + str(tiny_tokenizer().chat_template)
    with pytest.raises(Unfit, match="No prompts"):
        reader(only_whole).prompt(chat_of(1, json.dumps(TALK).encode()))


def prepared(lines: list[bytes], tmp_path: Path, longest: int = 500) -> Prepared:
    return prepare(lines, reader(), longest, tmp_path / "rows" / "training.arrow", examples=2, go_on=lambda: None)


def test_rows_are_counted_cut_and_left_out_with_the_line_of_the_first(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbf" + json.dumps(chat("Hi.", "Hello!")).encode() + b"\n",
        b"  \n",
        json.dumps(chat("Hi.", "x" * 300)).encode() + b"\r\n",
        b"oops\n",
        json.dumps(chat("y" * 300, "Hello!")).encode() + b"\n",
        b"oops\n",
    ]
    made = prepared(lines, tmp_path, longest=100)
    assert (made.rows, made.used, made.cut) == (5, 2, 1)
    assert made.longest_line == 5
    assert [chat.line for chat in made.examples] == [1, 3]
    assert made.unfit["no answer within the first 100 tokens"] == (1, 5)
    assert made.unfit["no chat (`synth-ai data check` tells what is wrong)"] == (2, 4)
    rows = list(made.dataset)
    assert [len(row["input_ids"]) for row in rows] == [len(row["labels"]) for row in rows]
    assert len(rows[1]["input_ids"]) == 100
    assert made.tokens == sum(len(row["input_ids"]) for row in rows)
    assert made.learnt == sum(label != IGNORED for row in rows for label in row["labels"])


def test_a_file_without_a_fit_row_has_none(tmp_path: Path) -> None:
    assert prepared([b"oops\n"], tmp_path).used == 0


def test_more_rows_than_are_held_in_memory_keep_their_order(tmp_path: Path) -> None:
    made = prepared([json.dumps(chat("Hi.", str(index))).encode() for index in range(1203)], tmp_path)
    tokenizer = tiny_tokenizer()
    last = [tokenizer.decode([label for label in row["labels"] if label != IGNORED]) for row in made.dataset]
    assert last == [f"{index}<|im_end|>" for index in range(1203)]
