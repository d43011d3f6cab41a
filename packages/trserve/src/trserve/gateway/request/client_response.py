"""What goes back to one client; nothing does before `start`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.types import Message, Send

from trserve.gateway.upstream.headers import Headers
from trserve.gateway.upstream.stored_answer import StoredAnswer
from trserve.http.errors import ApiError
from trserve.openai.sse import DONE, error_event

_LAST_WORD_S = 2.0


class ClientResponse:
    """One HTTP response.

    begun: its status has been sent, so it can only go on.
    status: that was sent; 0 before.
    """

    __slots__ = ("_events", "_send", "begun", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._events = False
        self.begun = False
        self.status = 0

    async def start(self, status: int, headers: Headers, *, events: bool = False) -> None:
        """The status line and the head.

        events: the body is a stream of events.
        """
        self.begun = True
        self.status = status
        self._events = events
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """A piece of the body; waits while the client reads more slowly than it comes."""
        message: Message = {"type": "http.response.body", "body": data, "more_body": more}
        await self._send(message)

    async def whole(self, answer: StoredAnswer) -> None:
        """An instance's answer as it is."""
        length = (b"content-length", str(len(answer.body)).encode())
        await self.start(answer.status, [*answer.headers, length])
        await self.write(answer.body, more=False)

    async def break_off(self, error: ApiError) -> None:
        """End what has begun so that its client can see it: by an error event, else by a cut."""
        if self._events:
            with suppress(TimeoutError):  # of a client that reads no more
                async with asyncio.timeout(_LAST_WORD_S):
                    await self.write(error_event(error.body()) + DONE, more=False)
