"""Turns on a device that several models share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from ctypes import c_int64

from trsched.shared.arena import Arena


class DeviceTurns:
    """First come, first served; nobody waits here, who has to is woken when its turn has come.

    Two llama.cpp contexts stepping at once with all cores each would spin on one another's
    barriers; taking turns is faster (the article's non-overlap batching). A plain lock would let
    one model's loop take its turn again before the other, already waiting, wakes up.

    mutex: excludes all who share the arena.
    wake: makes a model's loop ask again.

    Each change is one store, so whoever is killed leaves a queue in order, though still in it:
    `leave` on its behalf.
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
        self._tickets = arena.take(c_int64 * models)  # 0: not in the queue; the lowest goes first

    def take(self, index: int) -> bool:
        """Whether it is the turn of model `index`, which lasts until it leaves; else it queues."""
        with self._mutex:
            tickets = list(self._tickets)
            if not tickets[index]:
                tickets[index] = self._tickets[index] = max(tickets) + 1
            return _first(tickets) == index

    def leave(self, index: int) -> None:
        """The turn of model `index` is over, or it does not want one any more."""
        with self._mutex:
            had_the_turn = _first(list(self._tickets)) == index
            self._tickets[index] = 0
            following = _first(list(self._tickets))
        if had_the_turn and following is not None:
            self._wake(following)


def _first(tickets: list[int]) -> int | None:
    queued = [index for index, ticket in enumerate(tickets) if ticket]
    return min(queued, key=tickets.__getitem__, default=None)
