"""Bytes of tokens to text, never splitting a character."""

from __future__ import annotations

import codecs

_decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """`push` the bytes of each token, then `finish`.

    All returned texts together are `b"".join(pieces).decode("utf-8", "replace")`: a character comes
    out with the token that completes it, and bytes that never become one turn into U+FFFD.
    """

    __slots__ = ("_decode",)

    def __init__(self) -> None:
        self._decode = _decoder("replace").decode

    def push(self, piece: bytes) -> str:
        """The text that `piece` completes."""
        return self._decode(piece)

    def finish(self) -> str:
        """What is left of an incomplete character."""
        return self._decode(b"", final=True)
