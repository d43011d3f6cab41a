"""What a turn of the client loop has for its clients: new tokens, final events."""

from __future__ import annotations

from collections import Counter

from trsched.loops.active_request import ActiveRequest
from trsched.loops.stream import Deliver, Stream
from trsched.request import Event, FinalEvent


class Delivery:
    """Collects events of a turn; `flush` hands them out all together.

    deliver: takes them.
    finished: requests that have ended, by reason.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._changed: dict[ActiveRequest, None] = {}
        self._finals: list[tuple[Stream, list[Event]]] = []
        self.finished: Counter[str] = Counter()

    def changed(self, active: ActiveRequest) -> None:
        """The request has new events."""
        self._changed[active] = None

    def end(self, active: ActiveRequest, final: FinalEvent) -> None:
        """The request's last events."""
        self._changed.pop(active, None)
        self._end(active.stream, [*active.take_events(), final])

    def end_waiting(self, stream: Stream, final: FinalEvent) -> None:
        """The only event of a request that was never admitted."""
        self._end(stream, [final])

    def flush(self) -> None:
        """Deliver what there is."""
        batch = [(active.stream, active.take_events()) for active in self._changed]
        self._changed.clear()
        batch.extend(self._finals)
        self._finals = []
        if batch:
            self._deliver(batch)

    def _end(self, stream: Stream, events: list[Event]) -> None:
        final = events[-1]
        assert isinstance(final, FinalEvent)
        self.finished[final.reason] += 1
        self._finals.append((stream, events))
