"""`trrouters eval`: how well routers find divergent tokens, on prompts they never saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trrouters.training.ranking import roc_auc, threshold_at_rate
from trrouters.training.trained_algorithm import ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trrouters.checkpoint import RouterCheckpoint
    from trrouters.training.rows import Rows

RATES = (0.1, 0.3, 0.5)


def evaluate(checkpoints: Sequence[RouterCheckpoint], rows: Rows) -> dict[str, dict[str, float]]:
    """Measures of each router, by its folder, and of R-Stitch's entropy beside them.

    ``roc_auc``: for divergent against other tokens (rows that were cut off are left out).
    ``rate``, ``recall``: at the checkpoint's threshold. ``recall_at_R``: when the share R of all
    tokens is handed over; handing over at random finds R.

    Raises:
        ValueError: when no row is divergent, or every one.
    """
    rows = rows.where(rows.divergent >= 0)
    if len(set(rows.divergent.tolist())) < 2:
        raise ValueError("evaluating takes rows of both kinds, divergent and not")
    report = {}
    for checkpoint in checkpoints:
        algorithm = ALGORITHMS[checkpoint.algorithm]
        scores = algorithm.scores(checkpoint.build(algorithm.network), rows)
        handed = algorithm.hands_over(scores, checkpoint.threshold)
        divergent = (rows.divergent == 1).numpy()
        at_threshold = {
            "threshold": checkpoint.threshold,
            "rate": float(handed.mean()),
            "recall": float(handed[divergent].mean()),
        }
        report[checkpoint.source] = _ranking(rows, algorithm.doubts(scores)) | at_threshold
    report["entropy (r_stitch)"] = _ranking(rows, rows.entropy.numpy())
    return report


def _ranking(rows: Rows, doubts: NDArray[np.float32]) -> dict[str, float]:
    divergent = (rows.divergent == 1).numpy()
    found = {"rows": len(rows), "roc_auc": roc_auc(doubts, divergent)}
    for rate in RATES:
        handed = doubts >= threshold_at_rate(doubts, rate)
        found[f"recall_at_{rate}"] = float(handed[divergent].mean())
    return found
