"""The client's end of one request: committed tokens in order of position, then one final event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue

from trsched.request import Event, FinalEvent, GenerateRequest, TokenEvent

Deliver = Callable[[list[tuple["Stream", list[Event]]]], None]
"""Takes what one turn of the client loop has for its streams, at least one event for each.

Called on that loop's thread.
"""


class Stream:
    """Created by `Group.submit`; iterate for events, unless the group has its own `deliver`."""

    def __init__(self, request: GenerateRequest) -> None:
        self.request = request
        self._events: SimpleQueue[Event] = SimpleQueue()

    def put(self, events: list[Event]) -> None:
        """Called by the group's client loop."""
        for event in events:
            self._events.put(event)

    def __iter__(self) -> Iterator[Event]:
        """Events in order; ends after the final one. Blocks."""
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, FinalEvent):
                return

    def drained(self) -> bool:
        """Whether no event waits to be taken."""
        return self._events.empty()

    def result(self) -> tuple[list[TokenEvent], FinalEvent]:
        """All tokens and the final event. Blocks until the request has ended."""
        *tokens, final = self
        assert isinstance(final, FinalEvent)
        return [token for token in tokens if isinstance(token, TokenEvent)], final


def deliver_to_streams(batch: list[tuple[Stream, list[Event]]]) -> None:
    """The default `deliver`: each stream's own queue."""
    for stream, events in batch:
        stream.put(events)
