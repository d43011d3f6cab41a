"""The events of one HTTP request, queued for the one task that waits for them."""

from __future__ import annotations

import asyncio

from trsched.loops.stream import Stream
from trsched.request import Event

StreamEvents = list[tuple[Stream, list[Event]]]
"""Streams with their new events, in order."""


class EventQueue:
    """Holds the events of all streams of the request; everything happens on the event loop."""

    __slots__ = ("_closed", "_queued", "_waiter")

    def __init__(self) -> None:
        self._queued: StreamEvents = []
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, stream: Stream, events: list[Event]) -> None:
        """Add the next events of a stream."""
        self._queued.append((stream, events))
        self._wake()

    def close(self) -> None:
        """Nobody wants the events any more: `get` returns at once."""
        self._closed = True
        self._wake()

    async def get(self) -> StreamEvents:
        """All that came since the last call, at least one item; empty when closed."""
        if not self._queued and not self._closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        queued, self._queued = self._queued, []
        return queued

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
