"""B of every model as a function of N, the requests now active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Array, c_int32

from trcore import effective_thresholds
from trsched.shared.arena import Arena


class Thresholds:
    """A row a number of active requests, a column a model; no row can deadlock.

    Read by every subserver at every turn; written by the tuner, if there is one. A reader may see a
    row that is partly the old one: whoever writes wakes the readers afterwards.

    start: what holds where nothing else was found, lowered where few requests are active.
    """

    def __init__(self, start: Sequence[int], most_active: int, arena: Arena | None = None) -> None:
        arena = arena or Arena()
        self._start = tuple(start)
        self._rows = arena.take((c_int32 * len(start)) * (most_active + 1))
        if arena.is_new:
            self.replace({})

    def at(self, active: int) -> Array[c_int32]:
        """Thresholds, a model each, with which `active` requests cannot deadlock."""
        return self._rows[active]

    def replace(self, found: Mapping[int, tuple[int, ...]]) -> None:
        """From now on these, by N; for an N that isn't among them, those of the next N below."""
        nearest: Sequence[int] = self._start
        for active, row in enumerate(self._rows):
            nearest = found.get(active, nearest)
            row[:] = effective_thresholds(nearest, active)
