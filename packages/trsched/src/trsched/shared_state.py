"""What the subservers of a group share besides their rings, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from trsched.active_count import ActiveCount
from trsched.arena import Arena
from trsched.check import GroupPlan
from trsched.lockstep import Lockstep
from trsched.starts import DelayedStarts, LockstepStarts, Starts, TurnStarts
from trsched.stats import SubserverStats
from trsched.step_counters import StepCounters
from trsched.thresholds import Thresholds
from trsched.turns import Turns


class SharedState:
    """Each part has one writer, but for turns and lockstep, which the mutex protects.

    mutex: excludes all who use the arena's memory. wake: makes a model's loop look again.
    """

    def __init__(
        self,
        plan: GroupPlan,
        arena: Arena,
        mutex: AbstractContextManager[object],
        wake: Callable[[int], None],
    ) -> None:
        config = plan.config
        models = len(config.models)
        self.active = arena.take(ActiveCount)
        self.thresholds = Thresholds(
            [model.threshold for model in config.models], plan.max_active, arena
        )
        self.stats = [
            SubserverStats(model.name, StepCounters(models, plan.max_active, arena), arena)
            for model in config.models
        ]
        self._turns = self._lockstep = None
        if config.execution == "lockstep":
            self._lockstep = Lockstep(models, mutex, wake, arena)
        elif not config.overlap:
            self._turns = Turns(models, mutex, wake, arena)

    @classmethod
    def bytes(cls, plan: GroupPlan) -> int:
        """What it takes of an arena."""
        arena = Arena()
        cls(plan, arena, nullcontext(), lambda index: None)
        return arena.used

    def starts(self, index: int) -> Starts:
        """Says when model `index` may start a batch."""
        if self._lockstep is not None:
            return LockstepStarts(index, self._lockstep, self.active)
        own = DelayedStarts(index, self.thresholds, self.active, self.stats[index])
        return own if self._turns is None else TurnStarts(index, self._turns, own)

    def bury(self, index: int) -> None:
        """Model `index` has died, and can't give back what it held."""
        self.stats[index].alive = False
        self.starts(index).end(0)
