"""How many neighbours to ask and how far to trust them, found on the training prompts.

The article takes 10 neighbours and nothing else. With scores that are 0 or 1 their mean is so noisy
that routing by it can do worse than always taking the best model, so both numbers are chosen here:
those with the least squared error when every training prompt is predicted from all the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rbalance.predict.nearest import NearestPrompts
from rbalance.predict.neighbour_average import nearness, neighbour_average

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NEIGHBOURS = (10, 20, 40, 80)
PRIOR_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_ASKED = 4000  # prompts predicted from the others, at most


def best_neighbourhood(
    vectors: NDArray[np.float32],
    quality: NDArray[np.float32],
    prior: NDArray[np.float32],
    neighbours: Sequence[int] = NEIGHBOURS,
) -> tuple[int, float]:
    """The best of `neighbours` and of PRIOR_WEIGHTS; of equals the smallest.

    vectors: float32 [N, D] of length 1.
    quality: float32 [N, M], NaN for no label.
    prior: [M].
    """
    asked = np.arange(len(vectors))
    if len(asked) > _ASKED:
        asked = np.random.default_rng(0).choice(asked, _ASKED, replace=False)
    similarity, rows = NearestPrompts(vectors).search(vectors[asked], max(neighbours) + 1)
    weights = nearness(similarity)
    weights[rows == asked[:, None]] = 0.0  # itself
    true = quality[asked]
    scored = np.isfinite(true)
    best = (np.inf, neighbours[0], PRIOR_WEIGHTS[0])
    for k in neighbours:
        for prior_weight in PRIOR_WEIGHTS:
            # k + 1, for one of them is the prompt itself
            mean, _ = neighbour_average(
                weights[:, : k + 1], quality[rows[:, : k + 1]], prior, prior_weight
            )
            error = float(np.square(mean - true)[scored].mean(dtype=np.float64))
            best = min(best, (error, k, prior_weight))
    return best[1:]
