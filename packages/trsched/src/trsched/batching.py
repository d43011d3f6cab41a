"""Delayed batching as pure functions: when may a subserver start a batch?

TokenRouter (arXiv 2610.12242), section 4: a batch starts only when B requests wait, so that a
hand-off that arrives a moment later shares the forward instead of waiting for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence


def deadlock_free(thresholds: Sequence[int], active: int) -> bool:
    """Whether some model can always start: sum(B_i - 1) < N, N = requests now active.

    If every model waited with at most B_i - 1 requests, all together would hold at most
    sum(B_i - 1) requests; with N above that, one of them has B_i.
    """
    return sum(b - 1 for b in thresholds) < active


def effective_thresholds(thresholds: Sequence[int], active: int) -> list[int]:
    """The given thresholds, the largest of them lowered one by one until `active` cannot deadlock.

    To be evaluated again at every arrival and finish. With no active request all are 1.
    """
    effective = [max(1, b) for b in thresholds]
    while max(effective) > 1 and not deadlock_free(effective, active):
        largest = len(effective) - 1 - effective[::-1].index(max(effective))
        effective[largest] -= 1
    return effective


def may_start(waiting: int, threshold: int) -> bool:
    """Whether an idle model with `waiting` requests starts a batch (it then takes all of them)."""
    return waiting >= max(1, threshold)
