"""The vocabulary that all models of a group share: text to tokens and back, and a fingerprint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trsched.models.token_texts import texts_fingerprint


class Vocabulary(Protocol):
    """Tokens of a model.

    fingerprint: of what each id means, equal for all models that can hand over to each other.
    stop_ids: tokens that end a turn or a text.
    hidden_size: 0 if unknown.
    """

    name: str
    size: int
    fingerprint: str
    context_length: int
    stop_ids: frozenset[int]
    chat_template: str | None
    bos_token: str
    eos_token: str
    hidden_size: int

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids.

        special: texts of control tokens become those tokens (templates, not users' text).
        """

    def piece(self, token_id: int) -> bytes:
        """The token's bytes; empty for control tokens."""


class ByteVocabulary:
    """Ids 0 to 255 are bytes, 256 ends the text; higher ids are empty. For the `profile` engine."""

    chat_template: str | None = None
    bos_token = ""
    eos_token = ""
    stop_ids = frozenset({256})
    hidden_size = 0

    def __init__(self, size: int = 257, context_length: int = 1 << 20) -> None:
        self.name = "bytes"
        self.size = size
        self.fingerprint = f"bytes-{size}"
        self.context_length = context_length

    def encode(self, text: str, *, special: bool) -> list[int]:
        """UTF-8 bytes."""
        del special
        return list(text.encode())

    def piece(self, token_id: int) -> bytes:
        """The byte itself."""
        return bytes([token_id]) if token_id < 256 else b""


class GgufVocabulary:
    """The vocabulary of a GGUF file, tokenized by llama.cpp itself (weights are not loaded).

    extra_rows: rows of the LM head beyond the vocabulary (Co-LLM's deferral row): the file's last
    tokens, which are no tokens here. Raises EngineError when the file cannot be read.
    """

    def __init__(self, path: Path, *, extra_rows: int = 0) -> None:
        from trsched.models import llamacpp_library as library

        self.name = path.name
        self._model = library.load_model(path, vocab_only=True)
        facts = library.vocabulary_facts(self._model)
        self.size = len(facts.texts) - extra_rows
        self.extra_rows = extra_rows
        self.context_length = facts.context_length
        self.stop_ids = frozenset(token for token in facts.stop_ids if token < self.size)
        self.chat_template = facts.chat_template
        self.bos_token = facts.token_text(facts.bos_id)
        self.eos_token = facts.token_text(facts.eos_id)
        self._pieces = facts.pieces
        self._inside_extra = _inside(facts.texts[self.size :])
        self.hidden_size = facts.hidden_size
        self.kv_bytes_per_token = facts.kv_bytes_per_token
        self.fingerprint = texts_fingerprint(facts.texts[: facts.tokens_of(self.size)])

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Token ids, with no beginning-of-text token added."""
        ids = self._model.tokenize(text.encode(), special=special)
        if max(ids, default=0) < self.size:
            return ids
        # The text of an extra row is just text here; llama.cpp does not find it in two halves.
        halves = self._inside_extra.split(text)
        return [
            token
            for half in halves
            for token in self._model.tokenize(half.encode(), special=special)
        ]

    def piece(self, token_id: int) -> bytes:
        """The token's bytes; empty for control tokens."""
        return self._pieces[token_id]


def _inside(texts: Sequence[bytes]) -> re.Pattern[str]:
    """Matches between the first and second character of each text."""
    words = [text.decode("utf-8", "replace") for text in texts]
    return re.compile("|".join(f"(?<={re.escape(w[:1])})(?={re.escape(w[1:])})" for w in words))
