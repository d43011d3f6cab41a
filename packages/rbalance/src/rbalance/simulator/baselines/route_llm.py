"""RouteLLM's matrix factorisation (Ong et al., 2024): strong model or weak, by win rate.

A model's merit at a prompt is w · (v_model ∘ (U · x + c)), x the prompt's vector; the strong model
wins with probability σ(merit of strong − merit of weak). Trained on labels: a win is a better
score; a tie goes to the weak model, which is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.labels.embedded_labels import Labelled
    from rbalance.policies.batch import RequestBatch

RANK = 64
STEPS = 300
LEARNING_RATE = 0.01
WEIGHT_DECAY = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """What was factorised.

    apart: float64 [K], w ∘ (v_strong − v_weak).
    project: float64 [D, K].
    bias: float64 [K].
    """

    apart: NDArray[np.float64]
    project: NDArray[np.float64]
    bias: NDArray[np.float64]

    def win_rate(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """float64 [R]: how likely the strong model's answer is the better one."""
        merit = (vectors @ self.project + self.bias) @ self.apart
        return np.asarray(0.5 * (1 + np.tanh(0.5 * merit)), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class RouteLLM:
    """The strong model answers where its win rate is at least `threshold`."""

    uses_vectors: ClassVar[bool] = True
    factors: Factors
    strong: int
    weak: int
    threshold: float

    @property
    def fallback(self) -> int:
        """The strong model, for requests without vectors."""
        return self.strong

    def models(self, batch: RequestBatch) -> ModelChoice:
        """Strong or weak, by the win rate."""
        assert batch.vectors is not None
        strong = self.factors.win_rate(batch.vectors) >= self.threshold
        return ModelChoice(np.where(strong, self.strong, self.weak))


def fit_route_llm(
    data: Labelled,
    threshold: float | None = None,
    strong_share: float = 0.5,
    rank: int = RANK,
    seed: int = 0,
) -> RouteLLM:
    """Train on the strongest model and the cheapest.

    threshold: of win rate; None calibrates it, as RouteLLM does, so that `strong_share` of the
    training prompts go to the strong model.
    """
    strong, weak = data.strongest, int(data.cheapest_first[0])
    factors = _factors(data, strong, weak, rank, seed)
    if threshold is None:
        threshold = float(np.quantile(factors.win_rate(data.vectors), 1 - strong_share))
    return RouteLLM(factors, strong, weak, threshold)


@lru_cache(maxsize=4)  # the same for every threshold
def _factors(data: Labelled, strong: int, weak: int, rank: int, seed: int) -> Factors:
    wins = (data.quality[:, strong] > data.quality[:, weak]).astype(np.float64)
    return factorise(data.vectors.astype(np.float64), wins, rank, seed)


def factorise(
    x: NDArray[np.float64], wins: NDArray[np.float64], rank: int = RANK, seed: int = 0
) -> Factors:
    """Minimise log loss by Adam over the whole set. x: [N, D]; wins: [N], 0 to 1."""
    random = np.random.default_rng(seed)
    project = random.normal(0, 1 / np.sqrt(x.shape[1]), (x.shape[1], rank))
    parameters = [random.normal(0, 1 / np.sqrt(rank), rank), project, np.zeros(rank)]
    first = [np.zeros_like(each) for each in parameters]
    second = [np.zeros_like(each) for each in parameters]
    for step in range(1, STEPS + 1):
        apart, project, bias = parameters
        hidden = x @ project + bias
        error = (0.5 * (1 + np.tanh(0.5 * (hidden @ apart))) - wins) / len(x)
        back = error[:, None] * apart
        gradients = [hidden.T @ error, x.T @ back, back.sum(axis=0)]
        for each, gradient, mean, square in zip(parameters, gradients, first, second, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            unbiased = np.sqrt(square / (1 - 0.999**step)) + 1e-8
            each -= LEARNING_RATE * (mean / (1 - 0.9**step) / unbiased + WEIGHT_DECAY * each)
    return Factors(*parameters)
