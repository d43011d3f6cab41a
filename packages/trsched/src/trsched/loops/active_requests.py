"""The requests that a group has admitted and that haven't ended: their slots and deadlines."""

from __future__ import annotations

import numpy as np

from trcore import PendingTable, State
from trsched.loops.active_request import ActiveRequest
from trsched.loops.admission import Waiting
from trsched.loops.stream import Stream
from trsched.shared.active_count import ActiveCount


class ActiveRequests:
    """Used by the client loop's thread; others may ask for the length.

    slots: most requests at once.
    count: kept up to date, for the subservers.
    """

    def __init__(self, slots: int, count: ActiveCount) -> None:
        self._handles = PendingTable(slots, 1)
        self._expired = np.empty(slots, dtype=np.int64)
        self._count = count
        self._by_handle: dict[int, ActiveRequest] = {}
        self._by_stream: dict[Stream, ActiveRequest] = {}
        self._timed = 0

    def __len__(self) -> int:
        return len(self._by_handle)

    def __contains__(self, active: ActiveRequest) -> bool:
        return self._by_handle.get(active.handle) is active

    def all(self) -> list[ActiveRequest]:
        """Those of this moment, in order of admission."""
        return list(self._by_handle.values())

    def get(self, handle: int) -> ActiveRequest | None:
        """The one with that handle, if it hasn't ended."""
        return self._by_handle.get(handle)

    def of(self, stream: Stream) -> ActiveRequest | None:
        """The one of that stream, if it was admitted and hasn't ended."""
        return self._by_stream.get(stream)

    def add(self, item: Waiting) -> ActiveRequest | None:
        """Admit a request, at model 0 for now; None while all slots are in use."""
        handle = self._handles.allocate(State.RUNNING, item.deadline)
        if handle < 0:
            return None
        active = ActiveRequest(item.stream, handle, owner=0)
        self._by_handle[handle] = self._by_stream[item.stream] = active
        self._timed += active.stream.request.timeout_s is not None
        self._count.change(1, routed=active.routed)
        return active

    def remove(self, active: ActiveRequest) -> None:
        """The request has ended: its handle is dead from now on, its slot free."""
        del self._by_handle[active.handle]
        del self._by_stream[active.stream]
        self._timed -= active.stream.request.timeout_s is not None
        self._count.change(-1, routed=active.routed)
        self._handles.transition(active.handle, State.RUNNING, State.FINISHED)
        self._handles.release(active.handle)

    @property
    def timed(self) -> bool:
        """Whether any has a deadline; the loop asks at every turn, so it is counted."""
        return self._timed > 0

    def overdue(self, now: float) -> list[ActiveRequest]:
        """Those whose deadline, in monotonic seconds, has passed."""
        if not self._timed:
            return []
        found = self._handles.expire(now, self._expired)
        return [self._by_handle[handle] for handle in self._expired[:found].tolist()]
