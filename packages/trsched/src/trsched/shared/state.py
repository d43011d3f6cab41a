"""What the subservers of a group share besides their rings, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from trsched.plan.check import GroupPlan
from trsched.shared.active_count import ActiveCount
from trsched.shared.arena import Arena
from trsched.shared.counters import SubserverStats
from trsched.shared.device_turns import DeviceTurns
from trsched.shared.lockstep import Lockstep
from trsched.shared.step_counters import StepCounters
from trsched.shared.thresholds import Thresholds


class SharedState:
    """Each part has one writer, but for turns and lockstep, which the mutex protects.

    mutex: excludes all who use the arena's memory.
    wake: makes a model's loop look again.
    turns: None unless the models share a device.
    lockstep: None unless execution is lockstep.
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
        self.turns: DeviceTurns | None = None
        self.lockstep: Lockstep | None = None
        if config.execution == "lockstep":
            self.lockstep = Lockstep(models, mutex, wake, arena)
        elif not config.overlap:
            self.turns = DeviceTurns(models, mutex, wake, arena)

    @classmethod
    def bytes(cls, plan: GroupPlan) -> int:
        """What it takes of an arena."""
        arena = Arena()
        cls(plan, arena, nullcontext(), lambda index: None)
        return arena.used

    def bury(self, index: int) -> None:
        """Model `index` has died, and can't give back what it held."""
        self.stats[index].alive = False
        if self.lockstep is not None:
            self.lockstep.end(index, 0)
        elif self.turns is not None:
            self.turns.leave(index)
