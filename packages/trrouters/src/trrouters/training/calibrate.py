"""`trrouters calibrate`: a threshold for a wanted share of the large model, or for a recall."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trrouters.training.ranking import float32_beside, threshold_at_rate
from trrouters.training.trained_algorithm import ALGORITHMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trrouters.checkpoint import RouterCheckpoint
    from trrouters.training.rows import Rows


@dataclass(frozen=True)
class CalibratedThreshold:
    """A threshold and what it does on the rows it was chosen on (answers of the large model).

    Attributes:
        threshold: for the router's configuration.
        rate: share of rows handed over.
        recall: share of the divergent rows handed over; None where no row is divergent.
    """

    threshold: float
    rate: float
    recall: float | None


def doubt_for(
    rows: Rows,
    doubts: NDArray[np.float32],
    *,
    rate: float | None = None,
    recall: float | None = None,
) -> float:
    """The doubt from which on a row is handed over, for one of two aims.

    Raises:
        ValueError: without exactly one aim, for an aim outside of 0 to 1, or without a divergent
            row.
    """
    if (rate is None) == (recall is None):
        raise ValueError("give one aim: a rate or a recall")
    aim = rate if rate is not None else recall
    assert aim is not None
    if not 0 < aim <= 1:
        raise ValueError(f"the aim must be above 0 and at most 1, not {aim}")
    if rate is not None:
        return threshold_at_rate(doubts, rate)
    divergent = (rows.divergent == 1).numpy()
    if not divergent.any():
        raise ValueError("no row is divergent: nothing to find")
    return threshold_at_rate(doubts[divergent], aim)


def calibrate_checkpoint(
    checkpoint: RouterCheckpoint,
    rows: Rows,
    *,
    rate: float | None = None,
    recall: float | None = None,
) -> tuple[RouterCheckpoint, CalibratedThreshold]:
    """The checkpoint with the threshold for one aim, and what that does on ``rows``."""
    algorithm = ALGORITHMS[checkpoint.algorithm]
    scores = algorithm.scores(checkpoint.build(algorithm.network), rows)
    doubt = doubt_for(rows, algorithm.doubts(scores), rate=rate, recall=recall)
    threshold = algorithm.threshold(doubt)
    found = _calibration(rows, threshold, algorithm.hands_over(scores, threshold))
    aim = {"rate": rate} if recall is None else {"recall": recall}
    training = {**checkpoint.training, "threshold_for": {**aim, "rows": len(rows)}}
    return replace(checkpoint, threshold=threshold, training=training), found


def calibrate_entropy(
    rows: Rows, *, rate: float | None = None, recall: float | None = None
) -> CalibratedThreshold:
    """R-Stitch's τ for one aim, as the share of small-model tokens that are handed over."""
    entropy = rows.entropy.numpy()
    tau = float32_beside(doubt_for(rows, entropy, rate=rate, recall=recall), -1.0)
    return _calibration(rows, tau, entropy > np.float32(tau))


def _calibration(rows: Rows, threshold: float, handed: NDArray[np.bool_]) -> CalibratedThreshold:
    divergent = (rows.divergent == 1).numpy()
    recall = float(handed[divergent].mean()) if divergent.any() else None
    return CalibratedThreshold(threshold, float(handed.mean()), recall)
