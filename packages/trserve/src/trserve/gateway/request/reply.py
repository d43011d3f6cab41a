"""What goes back to one client; nothing does before `start`."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from starlette.types import Message, Send

from trserve.http.errors import ApiError
from trserve.openai.sse import DONE, error_event

_LAST_WORD_S = 2.0
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

Headers = list[tuple[bytes, bytes]]

_NOT_PASSED_ON = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"server",
        b"date",
        b"x-request-id",
    )
)
"""Of a response: hop by hop (RFC 9110, 7.6.1), or this server's own to set."""


class Reply:
    """One HTTP response. begun: its status has been sent, so it can only go on."""

    __slots__ = ("_events", "_send", "begun", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._events = False
        self.begun = False
        self.status = 0

    async def start(self, status: int, headers: Headers, *, events: bool = False) -> None:
        """The status line and the head. events: of a stream of events."""
        self.begun = True
        self.status = status
        self._events = events
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """A piece of the body; waits while the client reads more slowly than it comes."""
        message: Message = {"type": "http.response.body", "body": data, "more_body": more}
        await self._send(message)

    async def break_off(self, error: ApiError) -> None:
        """End what has begun so that its client can see it: by an error event, else by a cut."""
        if self._events:
            with suppress(TimeoutError):  # of a client that reads no more
                async with asyncio.timeout(_LAST_WORD_S):
                    await self.write(error_event(error.body()) + DONE, more=False)


def passed_on(upstream: tuple[tuple[bytes, bytes], ...]) -> Headers:
    """An instance's response headers, less those that are not the client's, or are none.

    An instance may be a gateway itself: the client is told of this one's decision.
    """
    return [
        (name, value)
        for raw, value in upstream
        if (name := raw.lower()) not in _NOT_PASSED_ON
        and not name.startswith(b"x-routebalance-")
        and _NAME.fullmatch(name)
        and _VALUE.fullmatch(value)
    ]
