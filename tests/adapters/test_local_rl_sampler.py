"""Sampling: what each request gets, alone and among others, and what is remembered of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("trl", reason="the extra [local] is not installed")

import torch
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedModel

from synth_train.adapters.local.models import Hardware, choose_hardware, tiny_model, tiny_tokenizer
from synth_train.adapters.local.rl.gspo import Sequences, batch_of, token_log_probs
from synth_train.adapters.local.rl.sampler import Answer, Ask, Sampler, SamplerStopped, Sampling, sample, seed_of

# peft asks transformers for what transformers has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

TOKENIZER = tiny_tokenizer()
END = 258
assert TOKENIZER.decode([END]) == "<|im_end|>"


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    return choose_hardware("cpu", "float32", 1)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """A model with preferences: `tiny`, with larger differences between the tokens that it may choose."""
    model = tiny_model()
    with torch.no_grad():
        model.get_parameter("model.norm.weight").mul_(8)
    return model


def ask(seed: int, prompt: Sequence[int] = (72, 105), **how: object) -> Ask:
    return Ask(prompt=tuple(prompt), sampling=Sampling(**{"max_tokens": 12, **how}), seed=seed)  # type: ignore[arg-type]


def answers(
    model: PreTrainedModel, hardware: Hardware, *asks: Ask, ends: frozenset[int] = frozenset({END})
) -> list[Answer]:
    return sample(model, TOKENIZER, ends, hardware, asks)


def distribution(model: PreTrainedModel, prompt: Sequence[int]) -> torch.Tensor:
    """Logits of the token after `prompt`."""
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=torch.tensor([[*prompt]])).logits
    return logits[0, -1]


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_sampler_and_trainer_see_the_same_log_probabilities(
    model: PreTrainedModel, hardware: Hardware, temperature: float
) -> None:
    asks = [ask(seed, prompt=range(10, 10 + 3 * seed), temperature=temperature) for seed in range(1, 9)]
    made = answers(model, hardware, *asks)
    batch = batch_of(
        [
            Sequences(
                prompt=asked.prompt, completion=one.tokens, old=one.log_probs, temperature=temperature, advantage=1.0
            )
            for asked, one in zip(asks, made, strict=True)
        ],
        pad=256,
        device=hardware.device,
    )
    with torch.no_grad():
        trained = token_log_probs(model, batch)
    assert ((trained - batch.old) * batch.mask).abs().max().item() < 1e-4


def test_what_is_sampled_depends_on_the_seed_and_not_on_the_company(model: PreTrainedModel, hardware: Hardware) -> None:
    alone = [answers(model, hardware, ask(seed))[0] for seed in range(4)]
    together = answers(model, hardware, *(ask(seed) for seed in range(4)), ask(9, prompt=range(40), max_tokens=30))
    assert [one.tokens for one in together[:4]] == [one.tokens for one in alone]
    assert len({one.tokens for one in alone}) == 4


def test_tokens_come_as_often_as_their_probability_says(model: PreTrainedModel, hardware: Hardware) -> None:
    prompt = (72, 105)
    count = 4000
    drawn = Counter(
        one.tokens[0] for one in answers(model, hardware, *(ask(s, prompt, max_tokens=1) for s in range(count)))
    )
    probabilities = distribution(model, prompt).softmax(-1)
    for token in probabilities.topk(5).indices.tolist():
        expected = probabilities[token].item()
        deviation = (expected * (1 - expected) / count) ** 0.5
        assert abs(drawn[token] / count - expected) < 4 * deviation


def test_temperature_zero_takes_the_likeliest_token_every_time(model: PreTrainedModel, hardware: Hardware) -> None:
    one, other = answers(model, hardware, ask(1, temperature=0), ask(2, temperature=0))
    assert one.tokens == other.tokens
    assert one.tokens[0] == int(distribution(model, (72, 105)).argmax())


def test_top_k_and_top_p_leave_only_the_likeliest(model: PreTrainedModel, hardware: Hardware) -> None:
    ordered = distribution(model, (72, 105)).softmax(-1).sort(descending=True)
    few = {*ordered.indices[:3].tolist()}
    share = ordered.values[:2].sum().item() - 1e-4
    drawn_k = {one.tokens[0] for one in answers(model, hardware, *(ask(s, top_k=3, max_tokens=1) for s in range(200)))}
    drawn_p = {
        one.tokens[0] for one in answers(model, hardware, *(ask(s, top_p=share, max_tokens=1) for s in range(200)))
    }
    assert drawn_k == few
    assert drawn_p == {*ordered.indices[:2].tolist()}


def test_each_request_samples_in_its_own_way(model: PreTrainedModel, hardware: Hardware) -> None:
    mixed = answers(model, hardware, ask(1), ask(1, temperature=0), ask(1, top_k=1), ask(1, max_tokens=3))
    assert mixed[1].tokens == mixed[2].tokens != mixed[0].tokens
    assert len(mixed[3].tokens) == 3


def test_a_repetition_penalty_keeps_tokens_from_coming_again(model: PreTrainedModel, hardware: Hardware) -> None:
    plain, penalised = answers(
        model,
        hardware,
        ask(1, temperature=0, max_tokens=24),
        ask(1, temperature=0, max_tokens=24, repetition_penalty=50.0),
        ends=frozenset(),
    )
    assert len(set(penalised.tokens)) == 24 > len(set(plain.tokens))


def test_an_answer_ends_with_its_last_token_which_is_trained_on_but_not_read(
    model: PreTrainedModel, hardware: Hardware
) -> None:
    free = answers(model, hardware, ask(1))[0]
    end = free.tokens[4]
    cut = answers(model, hardware, ask(1), ends=frozenset({end}))[0]
    first = free.tokens.index(end)
    assert (cut.finish, cut.tokens) == ("stop", free.tokens[: first + 1])
    assert len(cut.log_probs) == len(cut.tokens)


def test_a_stop_text_ends_an_answer_and_is_left_out_of_its_text(model: PreTrainedModel, hardware: Hardware) -> None:
    free = answers(model, hardware, ask(1, max_tokens=40), ends=frozenset())[0]
    assert free.finish == "length"
    letter = next(one for one in free.text[5:] if one.isascii())
    cut = answers(model, hardware, ask(1, max_tokens=40, stop=("never comes", letter)), ends=frozenset())[0]
    assert cut.finish == "stop"
    assert cut.text == free.text[: free.text.index(letter)]
    assert TOKENIZER.decode(list(cut.tokens)) == cut.text + letter


def test_an_adapter_is_sampled_with(hardware: Hardware) -> None:
    base = tiny_model()
    before = answers(base, hardware, ask(1, temperature=0))[0]
    adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear"))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.05)
    assert sample(adapted, TOKENIZER, frozenset(), hardware, [ask(1, temperature=0)])[0].tokens != before.tokens


def test_sampling_ends_at_once_when_it_is_to_stop(model: PreTrainedModel, hardware: Hardware) -> None:
    said = iter([False, False, True])
    made = sample(model, TOKENIZER, frozenset(), hardware, [ask(1, max_tokens=500)], stopping=lambda: next(said))
    assert len(made[0].tokens) == 3


def test_seeds_depend_on_every_part() -> None:
    seeds = {seed_of(*parts) for parts in [(1, 2, 3), (1, 3, 2), (1, 23), (12, 3), ("eval", 2, 3), (1, 2)]}
    assert len(seeds) == 6
    assert seed_of(1, "a") == seed_of(1, "a")


class Desk:
    """Answers nothing but notes which requests came together."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, asks: Sequence[Ask]) -> list[Answer]:
        self.batches.append(len(asks))
        return [Answer(tokens=(one.seed,), log_probs=(0.0,), text=str(one.seed), finish="stop") for one in asks]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def ask_at_once(sampler: Sampler, count: int) -> list[Answer]:
    found: dict[int, Answer] = {}

    def one(seed: int) -> None:
        found[seed] = sampler.ask(ask(seed))

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[seed] for seed in range(count)]


@pytest.fixture
def samplers() -> Iterator[list[Sampler]]:
    begun: list[Sampler] = []
    yield begun
    for sampler in begun:
        sampler.stop()


def test_requests_of_all_rollouts_under_way_become_one_batch(desk: Desk, samplers: list[Sampler]) -> None:
    samplers.append(sampler := Sampler(desk, under_way=lambda: 8, window=30.0))
    made = ask_at_once(sampler, 8)
    assert desk.batches == [8]
    assert [one.text for one in made] == [str(seed) for seed in range(8)]


def test_a_batch_has_no_more_than_it_may(desk: Desk, samplers: list[Sampler]) -> None:
    samplers.append(sampler := Sampler(desk, under_way=lambda: 100, window=0.05, largest=3))
    ask_at_once(sampler, 7)
    assert sum(desk.batches) == 7
    assert max(desk.batches) == 3


def test_a_lonely_request_does_not_wait_for_rollouts_that_think(desk: Desk, samplers: list[Sampler]) -> None:
    samplers.append(sampler := Sampler(desk, under_way=lambda: 100, window=0.01))
    assert sampler.ask(ask(5)).text == "5"


def test_what_goes_wrong_in_sampling_comes_out_where_it_was_asked_for(samplers: list[Sampler]) -> None:
    def broken(asks: Sequence[Ask]) -> list[Answer]:
        raise RuntimeError("out of luck")

    samplers.append(sampler := Sampler(broken, under_way=lambda: 1))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of luck"):
            sampler.ask(ask(1))


def test_once_stopped_nobody_waits_for_an_answer(desk: Desk) -> None:
    sampler = Sampler(desk, under_way=lambda: 2, window=60.0)
    raised: list[BaseException] = []

    def one() -> None:
        try:
            sampler.ask(ask(1))
        except SamplerStopped as stopped:
            raised.append(stopped)

    waiting = threading.Thread(target=one)
    waiting.start()
    while not sampler.waiting:
        pass
    sampler.stop()
    waiting.join(5)
    assert len(raised) == 1
    with pytest.raises(SamplerStopped):
        sampler.ask(ask(2))
    assert desk.batches == []
