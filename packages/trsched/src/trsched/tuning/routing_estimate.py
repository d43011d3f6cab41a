"""P and C of delayed batching's model, estimated from what steps did."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WINDOW = 500.0
"""Request steps of a model over which its old ones lose their weight (to 1/e)."""

_PRIOR_STEPS = 2.0
_PRIOR_STAYS = 0.8


class RoutingEstimate:
    """Exponentially weighted counts with a Dirichlet prior (Beta for two models).

    The prior weighs as much as 2 steps, of which 80 % stay in their model, and doesn't fade.
    """

    def __init__(self, models: int) -> None:
        away = (1.0 - _PRIOR_STAYS) / max(1, models - 1)
        self._prior = np.full((models, models), _PRIOR_STEPS * away)
        np.fill_diagonal(self._prior, _PRIOR_STEPS * _PRIOR_STAYS if models > 1 else _PRIOR_STEPS)
        self._moves = np.zeros((models, models))
        self._tokens = np.zeros((models, models))

    def add(self, model: int, moves: NDArray[np.float64], tokens: NDArray[np.float64]) -> None:
        """New steps of requests in `model`, as `StepCounters` counts them."""
        new = float(moves.sum())
        if not new:
            return
        kept = float(np.exp(-new / WINDOW))
        weight = WINDOW * (1.0 - kept) / new  # of each: new ones fade among themselves, too
        self._moves[model] = self._moves[model] * kept + moves * weight
        self._tokens[model] = self._tokens[model] * kept + tokens * weight

    @property
    def routing(self) -> NDArray[np.float64]:
        """P: `[models, models]`, rows sum to 1."""
        counts = self._moves + self._prior
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    @property
    def commits(self) -> NDArray[np.float64]:
        """C: `[models, models]`, tokens committed by a step from i that ends at j.

        1 where none has been seen, and never more: of a step just read between two counters there
        may be the token without the move.
        """
        return np.minimum(1.0, (self._tokens + 1e-3) / (self._moves + 1e-3))
