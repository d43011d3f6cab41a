"""Server-sent events as OpenAI's servers write them."""

from __future__ import annotations

import msgspec

DONE = b"data: [DONE]\n\n"

_LINE_ENDS = {"\u2028": b"\\u2028", "\u2029": b"\\u2029", "\x85": b"\\u0085"}

_encode = msgspec.json.Encoder().encode


def json_text(text: str) -> bytes:
    """A JSON string; characters that some clients take for line ends are escaped."""
    encoded = _encode(text)
    if not text.isascii():
        for character, escaped in _LINE_ENDS.items():
            if character in text:
                encoded = encoded.replace(character.encode(), escaped)
    return encoded


def error_event(body: bytes) -> bytes:
    """An error object, after the response has begun."""
    return b"data: " + body + b"\n\n"
