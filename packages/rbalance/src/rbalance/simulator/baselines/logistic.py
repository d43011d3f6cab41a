"""Logistic regression on vectors: one head for each of several yes-or-no questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rbalance.errors import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """Fitted heads.

    weights: float64 [D, H].
    bias: float64 [H].
    """

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]

    def probability(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """float64 [R, H], of yes."""
        return _sigmoid(vectors @ self.weights + self.bias)


def fit_logistic(
    vectors: NDArray[np.float32], yes: NDArray[np.float64], l2: float = 1e-4
) -> Logistic:
    """Minimise mean log loss + l2/2 · |w|², head by head.

    yes: float [N, H], 0 to 1; soft labels are allowed. Raises MissingExtraError without scipy.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as missing:
        raise MissingExtraError("scipy", "baselines") from missing
    x = np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float64)
    heads = []
    for target in yes.T:

        def loss(
            w: NDArray[np.float64], y: NDArray[np.float64] = target
        ) -> tuple[float, NDArray[np.float64]]:
            z = x @ w
            penalty = l2 * np.append(w[:-1], 0.0)
            value = np.mean(np.logaddexp(0.0, z) - y * z) + 0.5 * (penalty @ w)
            return float(value), x.T @ (_sigmoid(z) - y) / len(y) + penalty

        found: Any = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B")
        heads.append(found.x)
    fitted = np.array(heads).T
    return Logistic(fitted[:-1], fitted[-1])


def _sigmoid(z: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * z)), np.float64)
