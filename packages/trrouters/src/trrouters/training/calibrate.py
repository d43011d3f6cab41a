"""`trrouters calibrate`: a threshold for a wanted share of the large model, or for a recall."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trrouters.training.algorithms import ALGORITHMS
from trrouters.training.ranking import threshold_at_rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trrouters.checkpoint import RouterCheckpoint
    from trrouters.training.rows import Rows


@dataclass(frozen=True)
class Calibration:
    """A threshold and what it does on the rows it was chosen on (answers of the large model).

    Attributes:
        threshold: for the router's configuration.
        rate: share of rows handed over.
        recall: share of the divergent rows handed over.
    """

    threshold: float
    rate: float
    recall: float


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
) -> tuple[RouterCheckpoint, Calibration]:
    """The checkpoint with the threshold for one aim, and what that does on ``rows``."""
    algorithm = ALGORITHMS[checkpoint.algorithm]
    doubts = algorithm.doubts(checkpoint.build(algorithm.network), rows).numpy()
    doubt = doubt_for(rows, doubts, rate=rate, recall=recall)
    found = _calibration(rows, doubts, doubt, algorithm.threshold(doubt))
    return replace(checkpoint, threshold=found.threshold), found


def calibrate_entropy(
    rows: Rows, *, rate: float | None = None, recall: float | None = None
) -> Calibration:
    """R-Stitch's τ for one aim, as the share of small-model tokens that are handed over."""
    doubts = rows.entropy.numpy()
    doubt = doubt_for(rows, doubts, rate=rate, recall=recall)
    return _calibration(rows, doubts, doubt, doubt)


def _calibration(
    rows: Rows, doubts: NDArray[np.float32], doubt: float, threshold: float
) -> Calibration:
    handed = doubts >= doubt
    divergent = (rows.divergent == 1).numpy()
    recall = float(handed[divergent].mean()) if divergent.any() else float("nan")
    return Calibration(round(threshold, 6), float(handed.mean()), recall)
