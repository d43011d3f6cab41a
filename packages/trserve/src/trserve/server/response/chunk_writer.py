"""A streamed response's events. What is the same in all chunks is encoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from pydantic import BaseModel

from trsched.request import TokenEvent
from trserve.openai.schemas.usage import Usage
from trserve.openai.sse import json_text
from trserve.server.response.prepared_request import PreparedRequest
from trserve.server.response.running_choice import RunningChoice

_encode = msgspec.json.Encoder().encode
_NO_LOGPROBS = b',"logprobs":null,"finish_reason":null'

LogprobsOf = Callable[[Sequence[TokenEvent], Sequence[int]], BaseModel]


@dataclass(frozen=True, slots=True)
class ChunkFormat:
    """Where a chunk's choice keeps its text.

    object: the chunk's `object` field.
    opening: fields of a choice's first chunk, which has no text; None where there is none.
    before_text: what stands before the JSON string.
    after_text: what stands behind it.
    closing: fields of a choice's last chunk, which has no text.
    """

    object: str
    opening: bytes | None
    before_text: bytes
    after_text: bytes
    closing: bytes


CHAT_CHUNK = ChunkFormat(
    object="chat.completion.chunk",
    opening=b'"delta":{"role":"assistant","content":""}',
    before_text=b'"delta":{"content":',
    after_text=b"}",
    closing=b'"delta":{}',
)
COMPLETION_CHUNK = ChunkFormat(
    object="text_completion",
    opening=None,
    before_text=b'"text":',
    after_text=b"",
    closing=b'"text":""',
)


class ChunkWriter:
    """Writes the events of one response."""

    def __init__(
        self,
        prepared: PreparedRequest,
        form: ChunkFormat,
        fingerprint: str,
        logprobs: LogprobsOf | None,
    ) -> None:
        """logprobs: makes a chunk's; None where the client did not ask for them."""
        self._form = form
        self._logprobs = logprobs
        self._model_per_token = prepared.model_per_token
        self._detailed = prepared.model_per_token or logprobs is not None
        envelope = _encode(
            {
                "id": prepared.id,
                "object": form.object,
                "created": prepared.created,
                "model": prepared.model,
                "system_fingerprint": fingerprint,
            }
        )
        self._head = b"data: " + envelope[:-1] + b',"choices":['
        self._tail = (b'],"usage":null' if prepared.include_usage else b"]") + b"}\n\n"
        self._choice_heads = [
            self._head + b'{"index":%d,' % index for index in range(len(prepared.requests))
        ]
        self._text_heads = [head + form.before_text for head in self._choice_heads]
        self._text_tail = form.after_text + _NO_LOGPROBS + b"}" + self._tail
        self._opened = [form.opening is None] * len(prepared.requests)

    def write(self, choice: RunningChoice) -> bytes:
        """The events for what is new in a choice; empty when there is nothing to say yet."""
        index = choice.index
        text, tokens, offsets = choice.take()
        if self._detailed and tokens:
            chunk = self._text_heads[index] + json_text(text) + self._details(tokens, offsets)
        elif text:
            chunk = self._text_heads[index] + json_text(text) + self._text_tail
        else:
            chunk = b""
        if choice.openai_finish_reason:
            chunk += self._closing(choice)
        if chunk and not self._opened[index]:
            self._opened[index] = True
            opening = self._form.opening or b""
            chunk = self._choice_heads[index] + opening + _NO_LOGPROBS + b"}" + self._tail + chunk
        return chunk

    def usage(self, usage: Usage) -> bytes:
        """The one chunk that has no choices."""
        return self._head + b'],"usage":' + usage.model_dump_json().encode() + b"}\n\n"

    def _details(self, tokens: Sequence[TokenEvent], offsets: Sequence[int]) -> bytes:
        logprobs, extension = b"null", b""
        if self._logprobs is not None:
            logprobs = self._logprobs(tokens, offsets).model_dump_json().encode()
        if self._model_per_token:
            models = [token.model for token in tokens]
            ids = [token.token_id for token in tokens]
            extension = b',"tokenrouter":' + _encode({"models": models, "token_ids": ids})
        return b"".join(
            (
                self._form.after_text,
                b',"logprobs":',
                logprobs,
                b',"finish_reason":null',
                extension,
                b"}",
                self._tail,
            )
        )

    def _closing(self, choice: RunningChoice) -> bytes:
        extension = b',"tokenrouter":{"degraded":true}' if choice.degraded else b""
        reason = _encode(choice.openai_finish_reason)
        return b"".join(
            (
                self._choice_heads[choice.index],
                self._form.closing,
                b',"logprobs":null,"finish_reason":',
                reason,
                extension,
                b"}",
                self._tail,
            )
        )
