"""What a measurement reads from a chunk, or from a whole response, of OpenAI's two endpoints."""

from __future__ import annotations

import re
from typing import Any

import msgspec

DONE = b"[DONE]"


class ChunkText(msgspec.Struct):
    """`delta` or `message`. Thinking (two spellings are in use) and calls of tools are tokens."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None


class ChunkChoice(msgspec.Struct):
    """Of a chat's chunk, a chat's response, or a completion."""

    index: int | None = 0
    delta: ChunkText | None = None
    message: ChunkText | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def has_content(self) -> bool:
        """Whether it brings anything that the model wrote."""
        said = self.delta or self.message
        if said is None:
            return bool(self.text)
        return bool(said.content or said.reasoning_content or said.reasoning or said.tool_calls)


class ChunkUsage(msgspec.Struct):
    """Tokens as the server counts them; some write 3.0."""

    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None


class Chunk(msgspec.Struct):
    """One event's data, or the body of a response that isn't streamed."""

    choices: list[ChunkChoice] | None = None
    usage: ChunkUsage | None = None
    error: Any = None
    object: str | None = None
    message: Any = None

    @property
    def refusal(self) -> str | None:
        """What the server says went wrong; None where nothing did."""
        error = self.message if self.object == "error" else self.error
        if error is None:
            return None if self.object != "error" else "an error without a message"
        return str(error.get("message", error)) if isinstance(error, dict) else str(error)


# A token may end within a character: some servers send half of its pair, which msgspec refuses.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_decode = msgspec.json.Decoder(Chunk).decode


def decode_chunk(data: bytes) -> Chunk:
    """Fields that a Chunk lacks are skipped. Raises msgspec.DecodeError (ValueError)."""
    try:
        return _decode(data)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
    except msgspec.DecodeError:
        whole = _SURROGATE.sub(rb"\\ufffd", data)
        if whole == data:
            raise
        return decode_chunk(whole)
