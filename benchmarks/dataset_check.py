"""How long a dataset check takes beside a bare decode into the same types, and how much memory.

    python benchmarks/dataset_check.py [--mib 24] [--rounds 9] [--large-mib 400]

Four files: chats, short rows, tool calls, CJK text; and two more that real files look like: chats with an `id` and
metadata, chats with a bad row in a hundred. Rivals, each over `for line in file`: the bare msgspec decode into the
types that the check itself uses for such rows (design §6: at most 2 times that), and `json.loads`, with which a checker
in plain Python begins. All take turns in one process, each is timed by its own processor time, and the best round of
each counts: the rest is what else the machine was doing.

Memory is the growth of a child process's peak from a small file to a large one, and then for a single line of 64 MiB.
`--examples` is the time for the first five rows of the large file.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from synth_train.adapters.jsonl_datasets import JsonlDatasets
from synth_train.domain.model.dataset_fast import decode_common, decode_plain
from synth_train.domain.usecases.check_dataset import CheckDataset

MIB = 1 << 20
SENTENCE = (
    "the tide comes and goes because the moon pulls at the water and ships in harbour wait for wind or for cargo while"
    ' somebody on the quay counts barrels twice, writes "12" into a book\nand says that it will do'
)
WORDS = SENTENCE.split(" ")

Row = dict[str, object]


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


def say(role: str, content: str) -> Row:
    return {"role": role, "content": content}


def chat(chance: random.Random) -> Row:
    messages = [say("system", text(chance, 20))]
    for _ in range(chance.randrange(1, 4)):
        messages += [say("user", text(chance, chance.randrange(5, 60)))]
        messages += [say("assistant", text(chance, chance.randrange(20, 150)))]
    return {"messages": messages}


def short(chance: random.Random) -> Row:
    a, b = chance.randrange(100), chance.randrange(100)
    return {"messages": [say("user", f"{a} + {b}?"), say("assistant", str(a + b))]}


def tool_call(chance: random.Random) -> Row:
    call_id = f"call_{chance.randrange(10**9)}"
    arguments = json.dumps({"city": chance.choice(WORDS), "days": chance.randrange(9)})
    function = {"name": "weather", "arguments": arguments}
    parameters = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    return {
        "messages": [
            say("user", text(chance, 10)),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": json.dumps({"degrees": chance.randrange(30)})},
            say("assistant", text(chance, 20)),
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "Weather of a city", "parameters": parameters},
            }
        ],
    }


def cjk(chance: random.Random) -> Row:
    def some(least: int, most: int) -> str:
        return "".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(chance.randrange(least, most))) + "。"

    return {"messages": [say("user", some(10, 80)), say("assistant", some(40, 300))]}


def chat_with_extras(chance: random.Random) -> Row:
    return {"id": f"row-{chance.randrange(10**9)}", **chat(chance), "metadata": {"source": "forum", "score": 7}}


def chat_sometimes_bad(chance: random.Random) -> Row:
    return chat(chance) if chance.randrange(100) else {"messages": [say("user", text(chance, 100))]}


def write(path: Path, rows: Iterator[Row], size: int) -> None:
    """Rows until the file has `size` bytes; after the first few MiB the same ones come again."""
    block = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    with path.open("wb") as file:
        for _ in range(max(1, size // len(block))):
            file.write(block)


def rows_of(kind: Callable[[random.Random], Row], count: int) -> Iterator[Row]:
    chance = random.Random(1)
    return (kind(chance) for _ in range(count))


def decode(path: Path, decode_row: Callable[[bytes], object]) -> None:
    with path.open("rb") as file:
        for line in file:
            decode_row(line)


def check(path: Path, examples: int | None = None) -> None:
    CheckDataset(datasets=JsonlDatasets())(path, examples=examples, raising=False)


def best_of(rounds: int, contestants: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds of processor time of each, the best of several rounds in turn."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            begun = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - begun)
    return best


def own_peak() -> int:
    """Bytes of memory that this process had at most."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux ru_maxrss goes on from the process that started this one
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        return int(found[1]) * 1024 if found else 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_of_check(path: Path) -> int:
    """Bytes: the peak of a process that checks a file and does nothing else."""
    child = subprocess.run(
        [sys.executable, __file__, "--only-check", str(path)], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(child.stdout)


def speed(folder: Path, size: int, rounds: int) -> bool:
    kinds: dict[str, tuple[Callable[[random.Random], Row], Callable[[bytes], object], bool]] = {
        "chats": (chat, decode_plain, True),
        "short rows": (short, decode_plain, True),
        "tool calls": (tool_call, decode_common, True),
        "CJK": (cjk, decode_plain, True),
        "chats with extras": (chat_with_extras, decode_common, False),
        "1 % bad rows": (chat_sometimes_bad, decode_common, False),
    }
    kept = True
    print(
        f"{'file':<18} {'rows/s':>10} {'MiB/s':>7} {'bare decode':>12} {'json.loads':>11}   (check takes … times that)"
    )
    for name, (kind, decode_row, bound) in kinds.items():
        path = folder / f"{name}.jsonl"
        write(path, islice(rows_of(kind, 5000), 5000), size)
        best = best_of(
            rounds,
            {
                "check": lambda path=path: check(path),  # type: ignore[misc]
                "bare": lambda path=path, decode_row=decode_row: decode(path, decode_row),  # type: ignore[misc]
                "json": lambda path=path: decode(path, json.loads),  # type: ignore[misc]
            },
        )
        lines = path.read_bytes().count(b"\n")
        ratio = best["check"] / best["bare"]
        kept = kept and (ratio <= 2 or not bound)
        print(
            f"{name:<18} {lines / best['check']:>10,.0f} {path.stat().st_size / MIB / best['check']:>7.0f}"
            f" {ratio:>12.2f} {best['check'] / best['json']:>11.2f}{'' if not bound or ratio <= 2 else '  MISSED: 2'}"
        )
        path.unlink()
    return kept


def memory(folder: Path, large: int) -> bool:
    small, big, one = folder / "small.jsonl", folder / "big.jsonl", folder / "one.jsonl"
    write(small, rows_of(chat, 10), 1)
    write(big, rows_of(chat, 5000), large)
    one.write_bytes(
        b'{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"a"}]}' % (b"q" * 64 * MIB)
    )
    floor = peak_of_check(small)
    grown, for_line = peak_of_check(big) - floor, peak_of_check(one) - floor
    first_rows = best_of(3, {"five": lambda: check(big, 5), "all": lambda: check(big)})
    print(f"memory, {big.stat().st_size // MIB} MiB beside 10 rows: {grown / MIB:+.1f} MiB")
    print(f"memory, one row of 64 MiB: {for_line / MIB:+.0f} MiB, {for_line / (64 * MIB):.1f} times the row")
    print(f"--examples 5 of the large file: {first_rows['five'] * 1e3:.1f} ms; all of it: {first_rows['all']:.2f} s")
    return grown < 20 * MIB and for_line < 8 * 64 * MIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=24, help="size of each file that is timed")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--large-mib", type=int, default=400, help="size of the file for memory and --examples")
    parser.add_argument("--only-check", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only_check:
        check(args.only_check)
        print(own_peak())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fast = speed(Path(folder), args.mib * MIB, args.rounds)
        flat = memory(Path(folder), args.large_mib * MIB)
    return 0 if fast and flat else 1


if __name__ == "__main__":
    sys.exit(main())
