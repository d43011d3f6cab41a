"""When a subserver may start a batch: delayed batching, or lockstep."""

from __future__ import annotations

from typing import Protocol

from trcore import may_start
from trsched.active_count import ActiveCount
from trsched.lockstep import Lockstep
from trsched.stats import SubserverStats
from trsched.thresholds import Thresholds


class Starts(Protocol):
    """Asked at every turn of the decode loop."""

    def begin(self, waiting: int) -> bool:
        """Whether a batch of the `waiting` requests starts now; `end` must follow if so."""

    def end(self, waiting: int) -> None:
        """The step is over, or there was none; so many requests wait now."""


class DelayedStarts:
    """Model `index` starts when B requests wait (TokenRouter, arXiv 2610.12242, section 4)."""

    def __init__(
        self, index: int, thresholds: Thresholds, active: ActiveCount, stats: SubserverStats
    ) -> None:
        self._index = index
        self._thresholds = thresholds
        self._active = active
        self._stats = stats

    def begin(self, waiting: int) -> bool:
        """See `Starts`."""
        threshold = self._thresholds.at(self._active.value)[self._index]
        self._stats.threshold = threshold
        return may_start(waiting, threshold)

    def end(self, waiting: int) -> None:
        """See `Starts`."""


class LockstepStarts:
    """Model `index` starts when all active requests wait, and none behind it."""

    def __init__(self, index: int, lockstep: Lockstep, active: ActiveCount) -> None:
        self._index = index
        self._lockstep = lockstep
        self._active = active

    def begin(self, waiting: int) -> bool:
        """See `Starts`."""
        return self._lockstep.begin(self._index, waiting, self._active.value)

    def end(self, waiting: int) -> None:
        """See `Starts`."""
        self._lockstep.end(self._index, waiting)
