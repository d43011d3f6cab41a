"""When a subserver may start a batch: delayed batching, turns on a shared device, or lockstep."""

from __future__ import annotations

from typing import Protocol

from trcore import may_start
from trsched.shared.active_count import ActiveCount
from trsched.shared.counters import SubserverStats
from trsched.shared.device_turns import DeviceTurns
from trsched.shared.lockstep import Lockstep
from trsched.shared.state import SharedState
from trsched.shared.thresholds import Thresholds


class BatchStart(Protocol):
    """Asked at every turn of the decode loop."""

    def begin(self, waiting: int, *, at_once: bool = False) -> bool:
        """Whether a batch of the `waiting` requests starts now; `end` must follow if so.

        at_once: one of them waits for no others, as it may be the only one that ever comes here.
        """

    def end(self, waiting: int) -> None:
        """The step is over, or there was none; so many requests wait now."""


def batch_start(index: int, shared: SharedState) -> BatchStart:
    """What says when model `index` may start a batch."""
    if shared.lockstep is not None:
        return LockstepStart(index, shared.lockstep, shared.active)
    own = DelayedBatching(index, shared.thresholds, shared.active, shared.stats[index])
    return own if shared.turns is None else TurnTaking(index, shared.turns, own)


class DelayedBatching:
    """Model `index` starts when B requests wait (TokenRouter, arXiv 2610.12242, section 4).

    B is for the requests that are routed: only those can come to wait where others do.
    """

    def __init__(
        self, index: int, thresholds: Thresholds, active: ActiveCount, stats: SubserverStats
    ) -> None:
        self._index = index
        self._thresholds = thresholds
        self._active = active
        self._stats = stats

    def begin(self, waiting: int, *, at_once: bool = False) -> bool:
        """Whether a batch of the `waiting` requests starts now."""
        threshold = self._thresholds.at(self._active.routed)[self._index]
        self._stats.threshold = threshold
        return at_once or may_start(waiting, threshold)

    def end(self, waiting: int) -> None:
        """The step is over, or there was none; so many requests wait now."""


class TurnTaking:
    """Model `index` starts when it may by itself and has the shared device's turn.

    The turn lasts from a batch's choice to its last hand-off. What arrives while others have
    theirs joins the batch.
    """

    def __init__(self, index: int, turns: DeviceTurns, own: BatchStart) -> None:
        self._index = index
        self._turns = turns
        self._own = own

    def begin(self, waiting: int, *, at_once: bool = False) -> bool:
        """Whether a batch of the `waiting` requests starts now."""
        if self._own.begin(waiting, at_once=at_once):
            return self._turns.take(self._index)
        self._turns.leave(self._index)  # it may have queued for requests that have ended since
        return False

    def end(self, waiting: int) -> None:
        """The step is over, or there was none; so many requests wait now."""
        self._turns.leave(self._index)
        self._own.end(waiting)


class LockstepStart:
    """Model `index` starts when all active requests wait, and none behind it."""

    def __init__(self, index: int, lockstep: Lockstep, active: ActiveCount) -> None:
        self._index = index
        self._lockstep = lockstep
        self._active = active

    def begin(self, waiting: int, *, at_once: bool = False) -> bool:
        """Whether a batch of the `waiting` requests starts now."""
        del at_once  # it steps with all others
        return self._lockstep.begin(self._index, waiting, self._active.value)

    def end(self, waiting: int) -> None:
        """The step is over, or there was none; so many requests wait now."""
        self._lockstep.end(self._index, waiting)
