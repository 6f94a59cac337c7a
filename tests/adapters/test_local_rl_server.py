"""The policy behind chat completions: what task apps send, what they get, what is remembered of it."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

from trl.chat_template_utils import qwen3_5_nothink_chat_template

from support.task_apps import post, user
from synth_train.adapters.local.models import tiny_tokenizer
from synth_train.adapters.local.rl.chat import Chat
from synth_train.adapters.local.rl.sampler import Answer, Ask, Sampler, Sampling
from synth_train.adapters.local.rl.server import Ledger, PolicyServer, inference_url

Json = dict[str, Any]

TOKENIZER = tiny_tokenizer()
SUBMIT = {"type": "function", "function": {"name": "submit", "parameters": {"type": "object"}}}
DEFAULTS = Sampling(temperature=0.7, top_p=0.95, top_k=40, repetition_penalty=1.1, max_tokens=99, stop=("\n\n",))


@dataclass
class Policy:
    """Says `text` to everything, and remembers what it was asked."""

    text: str = "Hello."
    finish: str = "stop"
    asked: list[Ask] = field(default_factory=list)
    gate: Callable[[], object] = lambda: None

    def __call__(self, asks: Sequence[Ask]) -> list[Answer]:
        self.gate()
        self.asked += asks
        tokens = tuple(TOKENIZER(self.text)["input_ids"])
        return [
            Answer(tokens=tokens, log_probs=(-0.5,) * len(tokens), text=self.text, finish=self.finish) for _ in asks
        ]


@dataclass
class Stand:
    """A served policy, with the rollout `r1` under way."""

    policy: Policy
    ledger: Ledger
    server: PolicyServer

    @property
    def url(self) -> str:
        return inference_url(self.server.base, "r1")

    def ask(self, *messages: Json, **more: Any) -> Json:
        return post(self.url, {"messages": [*messages] or [user("Hi")], **more})

    def refusal(self, body: Json | bytes, url: str | None = None) -> tuple[int, str]:
        """Status and message of what is answered with an error."""
        with pytest.raises(HTTPError) as error:
            post(url or self.url, body)
        with error.value as reply:
            return reply.code, json.load(reply)["error"]["message"]


@pytest.fixture
def stand() -> Iterator[Stand]:
    policy, ledger = Policy(), Ledger()
    ledger.open("r1", 7)
    sampler = Sampler(policy, under_way=lambda: 1)
    server = PolicyServer(Chat(TOKENIZER, name="tiny", defaults=DEFAULTS, context=2000), sampler, ledger)
    yield Stand(policy, ledger, server)
    sampler.stop()
    server.stop()


def test_an_answer_is_a_chat_completion(stand: Stand) -> None:
    reply = stand.ask(user("Hi"), model="mine")
    prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert TOKENIZER.decode(list(stand.policy.asked[0].prompt)) == prompt
    assert reply["object"] == "chat.completion"
    assert reply["model"] == "mine"
    assert reply["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop", "logprobs": None}
    ]
    sizes = (len(stand.policy.asked[0].prompt), 6)
    assert reply["usage"] == {"prompt_tokens": sizes[0], "completion_tokens": 6, "total_tokens": sum(sizes)}


def test_each_turn_is_remembered_under_its_rollout_with_tokens_and_log_probabilities(stand: Stand) -> None:
    stand.ledger.open("r2", 8)
    stand.ask(user("one"))
    post(inference_url(stand.server.base, "r2"), {"messages": [user("other")]})
    stand.ask(user("one"), {"role": "assistant", "content": "Hello."}, user("two"), temperature=0.25)
    first, second = stand.ledger.close("r1")
    assert [turn.temperature for turn in (first, second)] == [0.7, 0.25]
    assert first.prompt == stand.policy.asked[0].prompt
    assert second.prompt == stand.policy.asked[2].prompt
    assert first.answer.log_probs == (-0.5,) * 6
    assert len(stand.ledger.close("r2")) == 1


def test_every_turn_has_chance_of_its_own_that_the_rollout_decides(stand: Stand) -> None:
    stand.ask()
    stand.ask()
    stand.ledger.open("again", 7)
    post(inference_url(stand.server.base, "again"), {"messages": [user("Hi")]})
    one, two, again = (ask.seed for ask in stand.policy.asked)
    assert one != two
    assert one == again


def test_how_to_sample_is_as_asked_and_else_as_configured(stand: Stand) -> None:
    stand.ask()
    stand.ask(temperature=0, top_p=0.5, top_k=5, repetition_penalty=1.5, max_tokens=3, stop="END")
    stand.ask(max_completion_tokens=4, max_tokens=3, stop=["a", "b"], top_k=-1)
    usual, own, newer = (ask.sampling for ask in stand.policy.asked)
    assert usual == DEFAULTS
    assert own == Sampling(temperature=0, top_p=0.5, top_k=5, repetition_penalty=1.5, max_tokens=3, stop=("END",))
    assert (newer.max_tokens, newer.stop, newer.top_k) == (4, ("a", "b"), 0)


def test_an_answer_gets_no_more_tokens_than_fit_behind_the_messages(stand: Stand) -> None:
    stand.ask(user("x" * 1950))
    ask = stand.policy.asked[0]
    assert len(ask.prompt) + ask.sampling.max_tokens == 2000
    status, message = stand.refusal({"messages": [user("x" * 2000)]})
    assert status == 400
    assert "2000 that fit" in message


def test_tools_are_shown_and_calls_read(stand: Stand) -> None:
    stand.policy.text = 'Well.\n<tool_call>\n{"name": "submit", "arguments": {"answer": "7"}}\n</tool_call>'
    choice = stand.ask(user("3 + 4?"), tools=[SUBMIT])["choices"][0]
    assert '"submit"' in TOKENIZER.decode(list(stand.policy.asked[0].prompt))
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Well."
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"] == {"name": "submit", "arguments": '{"answer": "7"}'}


def test_calls_are_read_in_the_format_of_the_models_family() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = qwen3_5_nothink_chat_template
    chat = Chat(tokenizer, name="coder", defaults=DEFAULTS, context=4000)
    wanted = chat.read(json.dumps({"messages": [user("3 + 4?")], "tools": [SUBMIT]}).encode())
    text = "<tool_call>\n<function=submit>\n<parameter=answer>\n7\n</parameter>\n</function>\n</tool_call><|im_end|>"
    tokens = tuple(tokenizer(text)["input_ids"])
    answer = Answer(tokens=tokens, log_probs=(0.0,) * len(tokens), text=text, finish="stop")
    (call,) = chat.reply(wanted, answer, "1")["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "submit", "arguments": '{"answer": "7"}'}


def test_tools_that_the_chat_template_has_no_place_for_are_asked_in_vain() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    chat = Chat(tokenizer, name="old", defaults=DEFAULTS, context=4000)
    wanted = chat.read(json.dumps({"messages": [user("3 + 4?")], "tools": [SUBMIT]}).encode())
    assert wanted.unheeded == ("tools (the model's chat template has no place for them)",)


def test_several_calls_have_ids_of_their_own_and_leave_no_content(stand: Stand) -> None:
    stand.policy.text = '<tool_call>{"name": "a", "arguments": {}}</tool_call>\n<tool_call>{"name": "b"}</tool_call>'
    message = stand.ask(tools=[SUBMIT])["choices"][0]["message"]
    assert message["content"] is None
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "a", "arguments": "{}"},
        {"name": "b", "arguments": "{}"},
    ]
    assert len({call["id"] for call in message["tool_calls"]}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "no call",
        "<tool_call>{not json}</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": 1}</tool_call>',
    ],
)
def test_what_is_no_call_stays_text(stand: Stand, text: str) -> None:
    stand.policy.text = text
    choice = stand.ask(tools=[SUBMIT])["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": text}
    assert choice["finish_reason"] == "stop"


def test_calls_are_not_looked_for_when_no_tools_were_offered(stand: Stand) -> None:
    stand.policy.text = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
    assert stand.ask()["choices"][0]["message"]["content"] == stand.policy.text
    assert stand.ask(tools=[SUBMIT], tool_choice="none")["choices"][0]["message"]["content"] == stand.policy.text
    assert "Tools:" not in TOKENIZER.decode(list(stand.policy.asked[1].prompt))


def test_an_answer_that_was_cut_says_so_though_it_has_a_call(stand: Stand) -> None:
    stand.policy.text, stand.policy.finish = '<tool_call>{"name": "a"}</tool_call> and', "length"
    assert stand.ask(tools=[SUBMIT])["choices"][0]["finish_reason"] == "length"


def test_the_history_may_hold_calls_results_parts_and_developers(stand: Stand) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "submit", "arguments": '{"answer": 7}'}}
    stand.ask(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "3 +"}, {"type": "text", "text": " 4?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "right"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "submit", "arguments": "{no json"}}]},
    )
    read = TOKENIZER.decode(list(stand.policy.asked[0].prompt))
    assert "<|im_start|>system\nBe brief.<|im_end|>" in read
    assert "3 + 4?" in read
    assert '<tool_call>\n{"name": "submit", "arguments": {"answer": 7}}\n</tool_call>' in read
    assert "<tool_response>\nright\n</tool_response>" in read
    assert '"arguments": {no json}' in read


def test_log_probabilities_come_along_when_asked_for(stand: Stand) -> None:
    content = stand.ask(logprobs=True)["choices"][0]["logprobs"]["content"]
    assert "".join(one["token"] for one in content) == "Hello."
    assert content[0] == {"token": "H", "logprob": -0.5, "bytes": [72], "top_logprobs": []}


def test_what_is_asked_in_vain_is_remembered_once(stand: Stand) -> None:
    for _ in range(2):
        stand.ask(response_format={"type": "json_object"}, presence_penalty=0.5, frequency_penalty=0)
    stand.ask(response_format={"type": "text"}, seed=3, user="me", tools=[SUBMIT], tool_choice="auto")
    stand.ask(tools=[SUBMIT], tool_choice={"type": "function", "function": {"name": "submit"}})
    assert [what.split()[0] for what in stand.ledger.unheeded()] == [
        "presence_penalty",
        "response_format",
        "tool_choice",
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"no json", "cannot be read"),
        ({"messages": []}, "cannot be read"),
        ({"messages": "Hi"}, "cannot be read"),
        ({"messages": [{"role": "user", "content": "Hi"}], "temperature": -1}, "temperature"),
        ({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": "many"}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "Hi"}], "n": 2}, "n must be 1"),
        ({"messages": [{"role": "user", "content": "Hi"}], "stream": True}, "not streamed"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "text only"),
        ({"messages": [{"content": "Hi"}]}, "chat template does not take"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words_and_not_remembered(
    stand: Stand, body: Json | bytes, says: str
) -> None:
    status, message = stand.refusal(body)
    assert status == 400
    assert says in message
    assert stand.ledger.close("r1") == []


@pytest.mark.parametrize("query", ["", "?cid=", "?cid=r2", "?other=r1"])
def test_only_rollouts_under_way_are_answered(stand: Stand, query: str) -> None:
    status, message = stand.refusal({"messages": [user("Hi")]}, f"{stand.server.base}/v1/chat/completions{query}")
    assert status == 404
    assert "inference_url" in message
    assert (stand.ledger.strays(), stand.ledger.strays()) == (1, 0)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions?trace=r1",
        "/v1/chat/completions?a=b&trace_correlation_id=r1",
        "/v1?cid=r1/chat/completions",
    ],
)
def test_a_rollout_is_known_by_every_name_of_its_id_and_wherever_the_path_was_put(stand: Stand, path: str) -> None:
    assert post(f"{stand.server.base}{path}", {"messages": [user("Hi")]})["choices"]
    assert len(stand.ledger.close("r1")) == 1


def test_there_is_nothing_else_to_post_to(stand: Stand) -> None:
    assert stand.refusal({}, f"{stand.server.base}/v1/completions?cid=r1")[0] == 404


def test_it_says_that_it_is_there(stand: Stand) -> None:
    with urllib.request.urlopen(f"{stand.server.base}/health") as reply:
        assert json.load(reply)["service"] == "policy"


@pytest.mark.parametrize(
    ("headers", "status"), [({}, 411), ({"Content-Length": "x"}, 411), ({"Content-Length": str(1 << 30)}, 413)]
)
def test_a_body_of_unknown_or_absurd_length_is_not_read(stand: Stand, headers: dict[str, str], status: int) -> None:
    connection = HTTPConnection("127.0.0.1", urlsplit(stand.server.base).port or 0, timeout=10)
    connection.putrequest("POST", "/v1/chat/completions?cid=r1")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    reply = connection.getresponse()
    assert (reply.status, reply.headers["Connection"]) == (status, "close")
    connection.close()


def test_requests_of_many_rollouts_are_answered_side_by_side() -> None:
    count = 32
    ledger = Ledger()
    policy = Policy()
    sampler = Sampler(policy, under_way=ledger.under_way, window=30.0)
    server = PolicyServer(Chat(TOKENIZER, name="tiny", defaults=DEFAULTS, context=2000), sampler, ledger)
    for index in range(count):
        ledger.open(f"r{index}", index)
    threads = [
        threading.Thread(
            target=post, args=(inference_url(server.base, f"r{index}"), {"messages": [user(f"I am {index}")]})
        )
        for index in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # which they only do when all of them were let in at the same time
    for index in range(count):
        (turn,) = ledger.close(f"r{index}")
        assert f"I am {index}<" in TOKENIZER.decode(list(turn.prompt))
    sampler.stop()
    server.stop()


def test_an_answer_that_comes_after_its_rollout_is_over_is_not_kept(stand: Stand) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def gate() -> None:
        asked.set()
        go_on.wait(10)

    stand.policy.gate = gate
    late = threading.Thread(target=stand.ask)
    late.start()
    asked.wait(10)
    assert stand.ledger.close("r1") == []
    go_on.set()
    late.join(10)
    stand.ledger.open("r1", 7)
    assert stand.ledger.close("r1") == []


def test_when_sampling_fails_who_waits_is_told_and_the_trainer_finds_out(stand: Stand) -> None:
    def gate() -> None:
        raise MemoryError("no room")

    policy = Policy(gate=gate)
    sampler = Sampler(policy, under_way=lambda: 1)
    server = PolicyServer(Chat(TOKENIZER, name="tiny", defaults=DEFAULTS, context=2000), sampler, stand.ledger)
    status, message = stand.refusal({"messages": [user("Hi")]}, inference_url(server.base, "r1"))
    assert (status, message) == (500, "sampling failed (MemoryError)")
    assert isinstance(sampler.failure, MemoryError)
    sampler.stop()
    server.stop()


def test_when_sampling_stops_who_waits_is_told(stand: Stand) -> None:
    sampler = Sampler(stand.policy, under_way=lambda: 1)
    server = PolicyServer(Chat(TOKENIZER, name="tiny", defaults=DEFAULTS, context=2000), sampler, stand.ledger)
    sampler.stop()
    status, message = stand.refusal({"messages": [user("Hi")]}, inference_url(server.base, "r1"))
    assert (status, message) == (503, "the training has been stopped")
    server.stop()
