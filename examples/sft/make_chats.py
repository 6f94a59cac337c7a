"""Write the chats beside this file; the same rows come out every time.

    python examples/sft/make_chats.py

`chats.jsonl` has a few hundred short chats with one clear rule each. `few.jsonl` has a dozen facts, each asked for in
eight wordings: so little that a random model has it by heart in a minute. `few_held_out.jsonl` asks in a ninth.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

CAPITALS = {
    "Argentina": "Buenos Aires", "Australia": "Canberra", "Austria": "Vienna", "Belgium": "Brussels",
    "Brazil": "Brasília", "Canada": "Ottawa", "Chile": "Santiago", "China": "Beijing", "Croatia": "Zagreb",
    "Cuba": "Havana", "Denmark": "Copenhagen", "Egypt": "Cairo", "Estonia": "Tallinn", "Finland": "Helsinki",
    "France": "Paris", "Germany": "Berlin", "Ghana": "Accra", "Greece": "Athens", "Hungary": "Budapest",
    "Iceland": "Reykjavík", "India": "New Delhi", "Ireland": "Dublin", "Italy": "Rome", "Japan": "Tokyo",
    "Kenya": "Nairobi", "Latvia": "Riga", "Mexico": "Mexico City", "Morocco": "Rabat", "Nepal": "Kathmandu",
    "Norway": "Oslo", "Peru": "Lima", "Poland": "Warsaw", "Portugal": "Lisbon", "Senegal": "Dakar",
    "Spain": "Madrid", "Sweden": "Stockholm", "Thailand": "Bangkok", "Tunisia": "Tunis", "Uruguay": "Montevideo",
    "Vietnam": "Hanoi",
}  # fmt: skip
UNITS = (
    ("km", "m", 1000), ("m", "cm", 100), ("cm", "mm", 10), ("kg", "g", 1000), ("l", "ml", 1000),
    ("h", "min", 60), ("min", "s", 60), ("days", "h", 24), ("weeks", "days", 7), ("dozen", "pieces", 12),
)  # fmt: skip
PLURALS = {
    "apple": "apples", "box": "boxes", "bus": "buses", "cherry": "cherries", "child": "children", "city": "cities",
    "foot": "feet", "goose": "geese", "house": "houses", "knife": "knives", "leaf": "leaves", "mouse": "mice",
    "sheep": "sheep", "tooth": "teeth", "wolf": "wolves", "woman": "women",
}  # fmt: skip

FEW = (
    "Austria", "Cuba", "Egypt", "France", "Ghana", "Italy", "Japan", "Kenya", "Latvia", "Norway", "Peru", "Spain",
)  # fmt: skip
WORDINGS = (
    "Capital of {}?", "What is the capital of {}?", "{}: its capital?", "Which city is the capital of {}?",
    "The capital of {}, please.", "I forgot the capital of {}.", "Tell me {}'s capital.", "And of {}?",
)  # fmt: skip
HELD_OUT = "Name the capital of {}."

Chat = list[tuple[str, str]]
"""Questions with their answers."""


def capitals() -> Iterator[Chat]:
    for country, city in CAPITALS.items():
        yield [(f"Capital of {country}?", f"{city}.")]
        yield [(f"Which country has {city} as its capital?", f"{country}.")]


def plurals() -> Iterator[Chat]:
    for one, many in PLURALS.items():
        yield [(f"One {one}, two ...?", f"{many}.")]


def sums(chance: random.Random, count: int) -> Iterator[Chat]:
    for _ in range(count):
        a, b = chance.randrange(2, 50), chance.randrange(2, 50)
        question, answer = chance.choice(
            [(f"{a} + {b}?", a + b), (f"{a + b} - {b}?", a), (f"{a} * {b % 10}?", a * (b % 10))]
        )
        yield [(question, f"{answer}.")]


def conversions(chance: random.Random, count: int) -> Iterator[Chat]:
    for _ in range(count):
        big, small, factor = chance.choice(UNITS)
        amount = chance.randrange(2, 20)
        yield [(f"{amount} {big} in {small}?", f"{amount * factor} {small}.")]


def chains(chance: random.Random, count: int) -> Iterator[Chat]:
    """Chats of several turns, in which a later question needs the earlier answer."""
    for _ in range(count):
        a, b, c = (chance.randrange(2, 20) for _ in range(3))
        yield [
            (f"{a} + {b}?", f"{a + b}."),
            (f"And {c} more?", f"{a + b + c}."),
            ("Twice that?", f"{2 * (a + b + c)}."),
        ]


def few(*wordings: str) -> list[dict[str, object]]:
    """The same few capitals, asked for in each of the wordings."""
    asked = [row([(wording.format(name), f"{CAPITALS[name]}.")], brief=False) for wording in wordings for name in FEW]
    random.Random(7).shuffle(asked)
    return asked


def row(chat: Chat, *, brief: bool) -> dict[str, object]:
    messages = [{"role": "system", "content": "Answer briefly."}] if brief else []
    for question, answer in chat:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages}


def rows() -> Iterator[dict[str, object]]:
    """Every row, always the same ones in the same order."""
    chance = random.Random(7)
    chats = [*capitals(), *plurals(), *sums(chance, 110), *conversions(chance, 70), *chains(chance, 24)]
    different = list({chat[0][0] + str(len(chat)): chat for chat in chats}.values())
    chance.shuffle(different)
    for chat in different:
        yield row(chat, brief=chance.random() < 0.3)


def files() -> dict[str, list[dict[str, object]]]:
    """Every file by its name."""
    return {"chats.jsonl": list(rows()), "few.jsonl": few(*WORDINGS), "few_held_out.jsonl": few(HELD_OUT)}


if __name__ == "__main__":
    for name, written in files().items():
        lines = [json.dumps(one, ensure_ascii=False) for one in written]
        Path(__file__).with_name(name).write_bytes("\n".join([*lines, ""]).encode())
