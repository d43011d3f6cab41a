"""Delayed batching as a group's configuration asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trcore import PeerRing
from trsched.plan.check import GroupPlan
from trsched.shared.state import SharedState
from trsched.tuning.tuner import Tuner
from trsched.tuning.tuner_thread import POLL_S, TunerThread


def tuner_thread(
    plan: GroupPlan,
    shared: SharedState,
    inboxes: Sequence[PeerRing],
    report: Callable[[str], None],
    poll_s: float = POLL_S,
) -> TunerThread | None:
    """What tunes the group's thresholds, not yet started (None: they stay as configured).

    inboxes: the subservers'.
    report: gets what the tuner has to say.
    poll_s: seconds between its looks at what has happened.
    """
    config = plan.config
    models = len(config.models)
    if config.delayed_batching != "auto" or config.execution == "lockstep" or models == 1:
        return None

    def wake_all() -> None:
        for inbox in inboxes:
            inbox.wake()

    tuner = Tuner(
        [each.step_counters for each in shared.stats],
        shared.thresholds,
        largest_batch=plan.max_active,
        shared_device=not config.overlap,
        changed=wake_all,
    )
    return TunerThread(tuner, shared.active, shared.stats, report, poll_s)
