"""The policy of delayed batching."""

from collections.abc import Sequence

def deadlock_free(thresholds: Sequence[int], active: int) -> bool:
    """Whether some model can always start: sum(B_i - 1) < N, N = requests now active.

    If every model waited with at most B_i - 1 requests, all together would hold at most
    sum(B_i - 1) requests; with N above that, one of them has B_i. A threshold below 1 counts as 1.
    """

def effective_thresholds(thresholds: Sequence[int], active: int) -> list[int]:
    """The given thresholds, the largest of them lowered one by one until `active` cannot deadlock.

    To be evaluated again at every arrival and finish. With no active request all are 1.
    """

def may_start(waiting: int, threshold: int) -> bool:
    """Whether an idle model with `waiting` requests starts a batch (it then takes all of them).

    Delayed batching (TokenRouter, arXiv 2610.12242, section 4): a batch starts only when B requests
    wait, so that a hand-off that arrives a moment later shares the forward.
    """
