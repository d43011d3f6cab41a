"""How many tokens a whole answer says it has."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec

_MOST_TOKENS = 10_000_000  # more are no count


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def usage_of(body: bytes) -> tuple[int, int] | None:
    """Tokens of prompt and answer; None: it doesn't say.

    Raises ValueError: the body is no JSON object, not even by Python's looser rules. Those allow
    -Infinity, which servers in Python send as a log-probability, and half characters.
    """
    usage = _usage(body)
    return None if usage is None else (usage.prompt_tokens or 0, usage.completion_tokens or 0)


def credible(tokens: int) -> int:
    """What may be counted of what a server says."""
    return min(max(0, tokens), _MOST_TOKENS)


def _usage(body: bytes) -> _Usage | None:
    try:
        return _ANSWER.decode(body).usage
    except (msgspec.DecodeError, UnicodeDecodeError):
        given = json.loads(body)
        if not isinstance(given, dict):
            raise ValueError("no object") from None
        with suppress(msgspec.ValidationError):
            return msgspec.convert(given.get("usage"), _Usage | None)
        return None
