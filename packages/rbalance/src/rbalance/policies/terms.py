"""Why an instance was chosen: its score and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """One request on one instance, as scored when it was decided (article, section 3, S(r,i)).

    quality, cost, latency: the score's terms without their weights, the larger the better; cost and
        latency are 1 less the share of the most that a candidate takes.
    usd, seconds: predicted.
    """

    quality: float
    cost: float
    latency: float
    score: float
    usd: float
    seconds: float
