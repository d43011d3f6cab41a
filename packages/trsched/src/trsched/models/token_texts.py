"""A short name for what token ids mean, the same whatever kind of file says it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_SPACE = "\u2581".encode()  # how SentencePiece writes a space


def texts_fingerprint(texts: Iterable[bytes]) -> str:
    """Of the tokens' texts, in order of their ids, as the vocabulary writes them.

    Models whose ids mean the same can hand over to each other; how each would cut a text into
    tokens does not matter, as one vocabulary does that for the whole group. So merges and
    attributes are left out, in which a GGUF file differs from the checkpoint that it was made of.
    So does an added token with SentencePiece's space, which becomes a plain one there.
    """
    digest = hashlib.sha256()
    for text in texts:
        plain = text.replace(_SPACE, b" ")
        digest.update(len(plain).to_bytes(4, "little") + plain)
    return digest.hexdigest()[:16]


def padding_text(token_id: int) -> bytes:
    """The text of an id without a token, as llama.cpp's converter writes it."""
    return f"[PAD{token_id}]".encode()
