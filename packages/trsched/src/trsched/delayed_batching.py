"""Delayed batching as a group's configuration asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trcore import PeerRing
from trsched.active_count import ActiveCount
from trsched.check import GroupPlan
from trsched.stats import SubserverStats
from trsched.thresholds import FixedThresholds, Thresholds, TunedThresholds
from trsched.tuning.tuner import Tuner
from trsched.tuning.tuner_thread import TunerThread


def delayed_batching(
    plan: GroupPlan,
    stats: Sequence[SubserverStats],
    rings: Sequence[PeerRing],
    active: ActiveCount,
    report: Callable[[str], None],
) -> tuple[Thresholds, TunerThread | None]:
    """The thresholds that subservers read, and what tunes them, not yet started (None: nothing).

    rings: the subservers' inboxes. report: gets what the tuner has to say.
    """
    config = plan.config
    configured = [model.threshold for model in config.models]
    if config.delayed_batching != "auto" or config.execution == "lockstep" or len(stats) == 1:
        return FixedThresholds(configured), None

    def wake_all() -> None:
        for ring in rings:
            ring.wake()

    thresholds = TunedThresholds(configured)
    tuner = Tuner(
        [each.step_counters for each in stats],
        thresholds,
        largest_batch=plan.max_active,
        shared_device=not config.overlap,
        changed=wake_all,
    )
    return thresholds, TunerThread(tuner, active, stats, report)
