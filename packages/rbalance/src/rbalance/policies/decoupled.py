"""RouteBalance taken apart, for comparison: the same score chooses the model without any load, then
load alone chooses the instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from rbalance.cluster import Cluster
    from rbalance.policies.batch import RequestBatch
    from rbalance.policies.weights import Weights


class Decoupled:
    """Scores models as RouteBalance would score idle instances of them."""

    uses_vectors: ClassVar[bool] = False

    def __init__(self, weights: Weights, cluster: Cluster) -> None:
        self._weights = weights
        of_model = {tier.model: tier for tier in reversed(cluster.tiers)}
        tiers = [of_model[model] for model in cluster.models]
        self._price_in = np.array([tier.price_in for tier in tiers])
        self._price_out = np.array([tier.price_out for tier in tiers])
        self._tpot_s = np.array([tier.tpot_s for tier in tiers])

    @property
    def fallback(self) -> int:
        """The cheapest model."""
        return int(self._price_out.argmin())

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The best-scoring model of each request."""
        quality, cost, latency = self._weights
        length = batch.predictions.length
        usd = batch.prompt_tokens[:, None] * self._price_in + length * self._price_out
        seconds = self._tpot_s * length
        score = quality * batch.predictions.quality
        for weight, term in ((cost, usd), (latency, seconds)):
            largest = term.max(axis=1, keepdims=True)
            score = score + weight * (1 - term / np.where(largest > 0, largest, 1))
        return ModelChoice(score.argmax(axis=1))
