"""Requests that wait for admission to a group, first come first served."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass

from trsched.loops.stream import Stream


@dataclass(frozen=True, slots=True)
class Waiting:
    """deadline: monotonic seconds, infinite for none."""

    stream: Stream
    deadline: float


class AdmissionQueue:
    """Filled by any thread, emptied by the client loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: deque[Waiting] = deque()
        self._closed = False
        self._timed = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, stream: Stream, limit: int) -> bool:
        """Add a request; False when `limit` are waiting already or the queue is closed."""
        timeout = stream.request.timeout_s
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self._lock:
            if self._closed or len(self._items) >= limit:
                return False
            self._items.append(Waiting(stream, deadline))
            self._timed += deadline < math.inf
            return True

    @property
    def timed(self) -> bool:
        """Whether any that waits has a deadline; the loop asks at every turn, so it is counted."""
        return self._timed > 0

    def close(self) -> list[Waiting]:
        """Take no more; who waits still."""
        with self._lock:
            self._closed = True
            return list(self._items)

    def first(self) -> Waiting | None:
        """Who is next, left in the queue."""
        with self._lock:
            return self._items[0] if self._items else None

    def remove(self, item: Waiting) -> None:
        """Take one out."""
        with self._lock:
            self._items.remove(item)
            self._timed -= item.deadline < math.inf

    def find(self, stream: Stream) -> Waiting | None:
        """The entry of a stream, if it waits here."""
        with self._lock:
            return next((item for item in self._items if item.stream is stream), None)

    def overdue(self, now: float) -> list[Waiting]:
        """Those whose deadline has passed."""
        with self._lock:
            return [item for item in self._items if item.deadline <= now]
