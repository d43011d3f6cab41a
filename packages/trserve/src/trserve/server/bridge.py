"""From the group's client-loop thread to the asyncio tasks that wait for its events."""

from __future__ import annotations

import asyncio

from trsched.loops.stream import Stream
from trsched.request import Event, FinalEvent

Batch = list[tuple[Stream, list[Event]]]


class Inbox:
    """Events of the streams of one HTTP request; one task waits for them."""

    __slots__ = ("_batch", "_closed", "_waiter")

    def __init__(self) -> None:
        self._batch: Batch = []
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, stream: Stream, events: list[Event]) -> None:
        """Called on the event loop."""
        self._batch.append((stream, events))
        self._wake()

    def close(self) -> None:
        """Nobody wants the events any more: `get` returns at once."""
        self._closed = True
        self._wake()

    async def get(self) -> Batch:
        """All that came since the last call, at least one item; empty when closed."""
        if not self._batch and not self._closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch, self._batch = self._batch, []
        return batch

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Bridge:
    """Give `deliver` to `Group.open`; the server binds its event loop when it starts.

    Streams are registered on the event loop in the same callback as their submission, and batches
    arrive there by `call_soon_threadsafe`, so no event can overtake its registration.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inboxes: dict[Stream, Inbox] = {}

    def bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """The loop whose tasks wait for events; None when it is about to close."""
        self._loop = loop

    def register(self, stream: Stream, inbox: Inbox) -> None:
        """Send the stream's events to `inbox`, up to and with its final event."""
        self._inboxes[stream] = inbox

    def forget(self, stream: Stream) -> None:
        """Drop whatever else comes for the stream."""
        self._inboxes.pop(stream, None)

    def deliver(self, batch: Batch) -> None:
        """Called on the group's thread: one wake-up of the event loop for the whole turn."""
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._dispatch, batch)
        except RuntimeError:
            if not loop.is_closed():
                raise

    def _dispatch(self, batch: Batch) -> None:
        inboxes = self._inboxes
        for stream, events in batch:
            inbox = inboxes.get(stream)
            if inbox is not None:
                inbox.put(stream, events)
                if type(events[-1]) is FinalEvent:
                    del inboxes[stream]
