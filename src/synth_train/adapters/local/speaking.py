"""The speaker's other side: a process of its own that loads one model and answers for it until its stdin ends.

    python -m synth_train.adapters.local.speaking HOME MODEL

A line of stdin is a `Question`, a line of stdout a `Said`; the first one tells that the model is loaded, or why it
cannot be. What libraries print goes to stderr. A process that speaks through pipes needs no port that others on this
machine could ask at, and ends with the one who asks it, however that ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
from msgspec import Raw, Struct

from synth_train.adapters.local.home import LocalHome
from synth_train.domain.model.hosting import TrainingFailed

LONGEST_ANSWER = 120.0
"""Seconds after which an answer is cut off where it is."""


class Question(Struct, frozen=True, kw_only=True):
    """A request for a chat completion."""

    id: int
    body: Raw


class Said(Struct, frozen=True, kw_only=True):
    """An answer, or (without an `id`) how loading has ended."""

    id: int | None = None
    status: int = 200
    code: str = ""
    message: str = ""
    body: Raw = Raw(b"null")


class Voice(Protocol):
    """A model that is loaded."""

    def answer(self, question: Question) -> Said:
        """Answer, or say why not. For any thread."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Answer until stdin ends.

    Args:
        argv: the words after the program's name.
    """
    home, model = argv or sys.argv[1:]
    os.umask(0o077)
    mouth = _Mouth(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    loading = threading.Thread(target=_speak, args=(LocalHome(Path(home)), model, mouth), daemon=True)
    loading.start()
    # Questions come only after the model is loaded, and the end of stdin may come at any time.
    for line in sys.stdin.buffer:
        mouth.hear(msgspec.json.decode(line, type=Question))
    os._exit(0)  # whatever is being computed: nobody waits for it


class _Mouth:
    """Says lines, whole, and hands questions to the voice once there is one."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._lock = out, threading.Lock()
        self.voice: Voice | None = None

    def hear(self, question: Question) -> None:
        """Answer in a thread."""
        threading.Thread(target=self._answer, args=(question,), daemon=True).start()

    def say(self, said: Said) -> None:
        with self._lock:
            self._out.write(msgspec.json.encode(said) + b"\n")
            self._out.flush()

    def _answer(self, question: Question) -> None:
        assert self.voice is not None
        try:
            said = self.voice.answer(question)
        except Exception as error:  # noqa: BLE001 - the other side waits for an answer
            traceback.print_exc()
            said = Said(id=question.id, status=503, code="speaker_broke", message=_broke(error))
        self.say(said)


def _speak(home: LocalHome, model: str, mouth: _Mouth) -> None:
    try:
        mouth.voice = _loaded(home, model)
        mouth.say(Said())
        return
    except TrainingFailed as error:
        status, code = (404, "unknown_model") if isinstance(error, _Nowhere) else (422, "unusable_model")
        mouth.say(Said(status=status, code=code, message=str(error)))
    except Exception as error:  # noqa: BLE001 - the other side waits for the model
        traceback.print_exc()
        mouth.say(Said(status=503, code="speaker_broke", message=_broke(error)))
    os._exit(1)


class _Nowhere(TrainingFailed):
    """There is no such model."""


def _broke(error: Exception) -> str:
    return f"the model cannot answer ({type(error).__name__}); speaker.log in the folder of the backend tells more"


def _loaded(home: LocalHome, model: str) -> Voice:
    """Load a model; here torch and its family are imported."""
    import secrets

    from synth_train.adapters.local.models import Method, choose_hardware, load, shelf_of
    from synth_train.adapters.local.rl.chat import Chat, Refused
    from synth_train.adapters.local.rl.policy import ends_of, longest_text
    from synth_train.adapters.local.rl.sampler import Answer, Ask, Sampler, Sampling, sample, seed_of

    try:
        source = shelf_of(home).find(model)
    except TrainingFailed as error:
        raise _Nowhere(str(error)) from error
    hardware = choose_hardware()
    loaded = load(source, hardware, Method.LORA)  # frozen, in the type that is computed in
    loaded.model.train(False)
    ends = ends_of(loaded)
    chat = Chat(loaded.tokenizer, name=model, defaults=Sampling(), context=longest_text(loaded))

    def answers(asks: Sequence[Ask]) -> list[Answer]:
        until = time.monotonic() + LONGEST_ANSWER
        return sample(loaded.model, loaded.tokenizer, ends, hardware, asks, stopping=lambda: time.monotonic() > until)

    class LoadedVoice(Voice):
        """Samples for several at once."""

        def __init__(self) -> None:
            self._under_way, self._lock = 0, threading.Lock()
            self._sampler = Sampler(answers, under_way=lambda: self._under_way)

        def answer(self, question: Question) -> Said:
            with self._lock:
                self._under_way += 1
            try:
                wanted = chat.read(bytes(question.body))
                seed = msgspec.json.decode(question.body, type=dict[str, Any]).get("seed")
                sampled = self._sampler.ask(wanted.ask(seed_of(secrets.token_hex(8) if seed is None else seed)))
                reply = chat.reply(wanted, sampled, secrets.token_hex(12))
                return Said(id=question.id, body=Raw(msgspec.json.encode(reply)))
            except Refused as no:
                error = no.body["error"]
                return Said(id=question.id, status=no.status, code=error["code"], message=error["message"])
            finally:
                with self._lock:
                    self._under_way -= 1

    return LoadedVoice()


if __name__ == "__main__":
    sys.exit(main())
