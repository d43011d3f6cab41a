"""What a decision cost, as far as it can be told once its request has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbalance import Terms, Weights


def regret_estimate(terms: Terms, weights: Weights, seconds: float) -> float:
    """By how much the score was too high, given how long the request really took; at least 0.

    The next best instance scored no more than the chosen one: had its prediction come true, this
    is the most that was lost by not choosing it. 0 where all candidates were equally fast.
    """
    share = 1.0 - terms.latency  # of the slowest candidate's time (article, section 3)
    if share <= 0.0 or terms.seconds <= 0.0:
        return 0.0
    slowest = terms.seconds / share
    return max(0.0, weights.latency * (seconds - terms.seconds) / slowest)
