"""How well a score tells two kinds of rows apart."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def roc_auc(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve: the chance that a positive row scores above a negative one.

    Args:
        scores: ``[n]``, higher meaning positive; ties count half.
        positive: ``[n]``.

    Raises:
        ValueError: when all rows are of one kind.
    """
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        raise ValueError("ranking needs rows of both kinds")
    _, kinds, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[kinds]  # of tied rows: their mean
    above = ranks[positive].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def threshold_at_rate(scores: NDArray[np.floating], rate: float) -> float:
    """The score that a share ``rate`` of the rows reaches: the lowest of the highest so many."""
    count = max(1, math.ceil(round(rate * len(scores), 9)))  # 0.07 * 100 is more than 7
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])


def float32_beside(score: float, towards: float) -> float:
    """The next float32, in the fewest digits that mean it; ``score`` itself if it is there."""
    return float(str(np.nextafter(np.float32(score), np.float32(towards))))
