"""From the group's client-loop thread to the asyncio tasks that wait for its events."""

from __future__ import annotations

import asyncio

from trsched.loops.stream import Stream
from trsched.request import FinalEvent
from trserve.server.group.event_queue import EventQueue, StreamEvents


class EventDelivery:
    """Give `deliver` to `Group.open`; the server binds its event loop when it starts.

    Streams are registered on the event loop in the same callback as their submission, and batches
    arrive there by `call_soon_threadsafe`, so no event can overtake its registration.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: dict[Stream, EventQueue] = {}

    def bind(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """The loop whose tasks wait for events; None when it is about to close."""
        self._loop = loop

    def register(self, stream: Stream, queue: EventQueue) -> None:
        """Send the stream's events to `queue`, up to and with its final event."""
        self._queues[stream] = queue

    def forget(self, stream: Stream) -> None:
        """Drop whatever else comes for the stream."""
        self._queues.pop(stream, None)

    def deliver(self, batch: StreamEvents) -> None:
        """Called on the group's thread: one wake-up of the event loop for the whole turn."""
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._enqueue, batch)
        except RuntimeError:
            if not loop.is_closed():
                raise

    def _enqueue(self, batch: StreamEvents) -> None:
        queues = self._queues
        for stream, events in batch:
            queue = queues.get(stream)
            if queue is not None:
                queue.put(stream, events)
                if type(events[-1]) is FinalEvent:
                    del queues[stream]
