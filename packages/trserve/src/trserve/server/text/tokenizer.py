"""Text to tokens and tokens to bytes, by the vocabulary that a group's models share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trsched.models.vocabulary import Vocabulary
from trserve.server.text.chat_template import ChatTemplate, Message

_LONG_TEXT = 4096
_MESSAGE_COST = 64  # what a message takes by itself, as characters
_LONGEST_CONTROL_TOKEN = 64


class Tokenizer:
    """The vocabulary with its chat template.

    `pieces[token_id]` are a token's bytes. Long texts are tokenized on another thread, so that they
    hold up nobody's stream (`Vocabulary.encode` only reads).
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.size = vocabulary.size
        self.stop_ids = vocabulary.stop_ids
        self.pieces = [vocabulary.piece(token_id) for token_id in range(vocabulary.size)]
        for token_id in vocabulary.stop_ids:
            self.pieces[token_id] = b""
        vocabulary.encode("", special=False)  # what it loads when it is first used, it loads now
        self._longest = max(_LONGEST_CONTROL_TOKEN, *map(len, self.pieces))
        self._template = ChatTemplate.of(vocabulary)

    def least_tokens(self, texts: Sequence[str]) -> int:
        """A lower bound, without tokenizing; an empty message has tokens around it too."""
        return max(len(texts), sum(len(text) for text in texts) // self._longest)

    async def encode_text(self, text: str) -> list[int]:
        """A user's text; names of control tokens in it are just text."""
        if len(text) < _LONG_TEXT:
            return self.vocabulary.encode(text, special=False)
        return await asyncio.to_thread(self.vocabulary.encode, text, special=False)

    async def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """The templated conversation. Raises ApiError when the template refuses it."""
        size = sum(_MESSAGE_COST + len(message["content"]) for message in messages)
        if size < _LONG_TEXT:
            return self.encode_chat_now(messages)
        return await asyncio.to_thread(self.encode_chat_now, messages)

    def token_text(self, token_id: int) -> str:
        r"""A token by itself, for logprobs; bytes that are not text as `bytes:\xe2\x82`."""
        piece = self.pieces[token_id]
        try:
            return piece.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)

    def encode_chat_now(self, messages: Sequence[Message]) -> list[int]:
        """`encode_chat` without a thread, for callers that serve nobody meanwhile."""
        encode = self.vocabulary.encode
        segments = self._template.segments(messages, self._has_control_text)
        return [token for text, special in segments for token in encode(text, special=special)]

    def _has_control_text(self, text: str) -> bool:
        encode = self.vocabulary.encode
        return encode(text, special=True) != encode(text, special=False)
