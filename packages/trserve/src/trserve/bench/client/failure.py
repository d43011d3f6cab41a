"""Why a request failed: one of a few kinds, and the first words of what was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from trserve.bench.client.completion_chunk import decode_chunk
from trserve.bench.client.connection import BrokenResponseError, NotConnectedError

Kind = Literal[
    "refused",
    "unreachable",
    "timeout",
    "status_429",
    "status_4xx",
    "status_5xx",
    "status_other",
    "disconnected",
    "broken_stream",
    "error_event",
]
"""refused: no one listens. unreachable: no connection for another reason (name, TLS, route).
timeout: --timeout passed. disconnected: the connection ended before a status came.
broken_stream: it ended, or brought what makes no sense, before the response was complete.
error_event: the server said in the stream, or instead of it, that it failed."""

_LONGEST = 200  # characters of a message


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed.

    kind: what is counted.
    message: one line, for people.
    """

    kind: Kind
    message: str


def failure(kind: Kind, message: str) -> Failure:
    """With the message cut to one short line."""
    line = " ".join(message.split())
    return Failure(kind, line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…")


def failure_of_status(status: int, body: bytes) -> Failure:
    """Of a response whose status isn't 200."""
    kind: Kind = "status_other"
    if status == 429:
        kind = "status_429"
    elif 400 <= status < 500:
        kind = "status_4xx"
    elif 500 <= status < 600:
        kind = "status_5xx"
    return failure(kind, f"{status}: {_said(body)}")


def failure_of_error_event(data: bytes) -> Failure:
    """Of an event that the server named an error."""
    return failure("error_event", _said(data))


def failure_to_stream(body: bytes) -> Failure:
    """Of one JSON document with status 200 where a stream was asked for."""
    said = _refusal(body)
    if said is None:
        return failure("broken_stream", "it did not stream; use --no-stream")
    return failure("error_event", said)


def _said(body: bytes) -> str:
    return _refusal(body) or body.decode("utf-8", "replace")


def _refusal(body: bytes) -> str | None:
    try:
        return decode_chunk(body).refusal
    except msgspec.DecodeError:
        return None


def failure_of_exception(error: Exception, status: int | None) -> Failure:
    """Of what was raised.

    status: the response's, None if none had come.
    """
    if isinstance(error, TimeoutError):
        return failure("timeout", "no complete response in time")
    if isinstance(error, NotConnectedError):
        refused = isinstance(error.error, ConnectionRefusedError)
        return failure("refused" if refused else "unreachable", str(error))
    said = str(error) if isinstance(error, BrokenResponseError) else repr(error)
    return failure("disconnected" if status is None else "broken_stream", said)
