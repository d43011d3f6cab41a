"""What is tokenized where."""

from __future__ import annotations

import asyncio
import threading

from tests.support.trserve.scripted_group import ScriptVocabulary
from trserve.server.text.tokenizer import Tokenizer


class ThreadsOfEncode(ScriptVocabulary):
    """Notes which threads encode."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def encode(self, text: str, *, special: bool) -> list[int]:
        self.threads.add(threading.get_ident())
        return super().encode(text, special=special)


def test_many_empty_messages_are_tokenized_on_another_thread() -> None:
    vocabulary = ThreadsOfEncode()
    tokenizer = Tokenizer(vocabulary)
    for count, elsewhere in ((1, False), (100, True)):
        vocabulary.threads.clear()
        asyncio.run(tokenizer.encode_chat([{"role": "user", "content": ""}] * count))
        assert (threading.get_ident() not in vocabulary.threads) == elsewhere
