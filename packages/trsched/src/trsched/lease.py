"""Turns on the cores that several engines of one process share."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Lease:
    """A first-come-first-served lock.

    Two llama.cpp contexts stepping at once with all cores each would spin on one another's
    barriers; taking turns is faster (the article's non-overlap batching). A plain lock would let
    one model's loop take its turn again before the other, already waiting, wakes up.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._waiters: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._mutex:
            if not self._held:
                self._held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiters.append(turn)
        turn.acquire()  # released by the holder, which passes the lease on

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._mutex:
            if self._waiters:
                self._waiters.popleft().release()
            else:
                self._held = False
