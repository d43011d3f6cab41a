"""Lockstep execution, what the asynchronous subservers are measured against."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from ctypes import c_int64

from trsched.shared.arena import Arena


class Lockstep:
    """All active requests are synchronised at every step, as if they shared one model's batch.

    One model steps at a time, and only once every active request waits in some model. The last
    model with any goes first: its requests come back before the models before it go on.

    mutex: excludes all who share the arena.
    wake: makes a model's loop ask again.

    Each change is sound by itself, so a model that is killed only has to be ended on its behalf.
    """

    def __init__(
        self,
        models: int,
        mutex: AbstractContextManager[object],
        wake: Callable[[int], None],
        arena: Arena,
    ) -> None:
        self._mutex = mutex
        self._wake = wake
        self._waiting = arena.take(c_int64 * models)
        self._stepping = arena.take(c_int64 * models)  # 1 for the one that steps, if any does

    def begin(self, index: int, waiting: int, active: int) -> bool:
        """Whether model `index`, where `waiting` requests wait, steps now; `end` must follow."""
        with self._mutex:
            news = self._waiting[index] != waiting
            self._waiting[index] = waiting
            numbers = list(self._waiting)
            last = max((i for i, n in enumerate(numbers) if n), default=-1)
            free = not any(self._stepping) and sum(numbers) >= active
            begins = free and last == index
            if begins:
                self._stepping[index] = 1
        if news and not begins:
            self._wake_others(index)
        return begins

    def end(self, index: int, waiting: int) -> None:
        """Model `index` does not step, or no longer; `waiting` requests wait there now."""
        with self._mutex:
            self._stepping[index] = 0
            self._waiting[index] = waiting
        self._wake_others(index)

    def _wake_others(self, index: int) -> None:
        for other in range(len(self._waiting)):
            if other != index:
                self._wake(other)
