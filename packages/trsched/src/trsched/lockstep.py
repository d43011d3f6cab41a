"""Lockstep execution, what the asynchronous subservers are measured against."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from trcore import PeerRing


class Lockstep:
    """All active requests are synchronised at every step, as if they shared one model's batch.

    One model steps at a time, and only once every active request waits in some model. The last
    model with any goes first: its requests come back before the models before it go on. Shared by
    the subservers of a group; inboxes: theirs, woken when a turn may have come.
    """

    def __init__(self, inboxes: Sequence[PeerRing]) -> None:
        self._inboxes = inboxes
        self._lock = threading.Lock()
        self._waiting = [0] * len(inboxes)
        self._stepping: int | None = None

    def begin(self, index: int, waiting: int, active: int) -> bool:
        """Whether model `index`, where `waiting` requests wait, steps now; `end` must follow."""
        with self._lock:
            news = self._waiting[index] != waiting
            self._waiting[index] = waiting
            last = max((i for i, n in enumerate(self._waiting) if n), default=-1)
            free = self._stepping is None and sum(self._waiting) >= active
            begins = free and last == index
            if begins:
                self._stepping = index
        if news and not begins:
            self._wake_others(index)
        return begins

    def end(self, index: int, waiting: int) -> None:
        """Model `index` does not step, or no longer; `waiting` requests wait there now."""
        with self._lock:
            if self._stepping == index:
                self._stepping = None
            self._waiting[index] = waiting
        self._wake_others(index)

    def _wake_others(self, index: int) -> None:
        for other, inbox in enumerate(self._inboxes):
            if other != index:
                inbox.wake()
