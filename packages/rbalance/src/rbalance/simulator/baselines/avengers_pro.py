"""Avengers-Pro (Zhang et al., 2025): each cluster of prompts has its ranking of models.

Training prompts are clustered by their vectors. In each cluster a model has a performance p (mean
score) and a cost q, both scaled to 0–1 over the models; its score is p_w · p + (1 − p_w) · (1 − q).
A request takes the model with the best score over its nearest clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.errors import MissingExtraError
from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.labels.embedded_labels import Labelled
    from rbalance.policies.batch import RequestBatch

CLUSTERS = 32
TOP_K = 1
BETA = 9.0


@dataclass(frozen=True, slots=True, eq=False)
class AvengersPro:
    """The router, as `fit_avengers_pro` makes it.

    centres: float [C, D] of length 1.
    score: float [C, M], of each model in each cluster.
    top_k: so many of the nearest clusters count.
    beta: how much more the nearer ones count.
    """

    uses_vectors: ClassVar[bool] = True
    centres: NDArray[np.float64]
    score: NDArray[np.float64]
    top_k: int = TOP_K
    beta: float = BETA

    @property
    def fallback(self) -> int:
        """The model with the best mean score, for requests without vectors."""
        return int(self.score.mean(axis=0).argmax())

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The best-scoring model over the nearest clusters, weighted by softmax(β · cosine)."""
        assert batch.vectors is not None
        near = batch.vectors @ self.centres.T
        top = np.argpartition(-near, min(self.top_k, near.shape[1] - 1), axis=1)[:, : self.top_k]
        cosine = np.take_along_axis(near, top, axis=1)
        weights = np.exp(self.beta * (cosine - cosine.max(axis=1, keepdims=True)))
        score = np.einsum("rk,rkm->rm", weights, self.score[top])
        return ModelChoice(score.argmax(axis=1))


def fit_avengers_pro(
    data: Labelled,
    performance_weight: float,
    clusters: int = CLUSTERS,
    top_k: int = TOP_K,
    seed: int = 0,
) -> AvengersPro:
    """Cluster and rank.

    performance_weight: p_w, 0 (cheapest) to 1 (best).

    Raises MissingExtraError without scipy.
    """
    try:
        from scipy.cluster.vq import kmeans2
    except ImportError as missing:
        raise MissingExtraError("scipy", "baselines") from missing
    k = min(clusters, len(data.vectors))
    centres, label = kmeans2(data.vectors.astype(np.float64), k, minit="++", rng=seed)
    kept = np.unique(label)  # a cluster may end up empty
    quality = np.array([np.nanmean(data.quality[label == each], axis=0) for each in kept])
    cost = np.array([data.cost[label == each].mean(axis=0) for each in kept])
    score = performance_weight * _scaled(quality) + (1 - performance_weight) * (1 - _scaled(cost))
    centres = centres[kept]
    centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return AvengersPro(centres, score, top_k=min(top_k, len(kept)))


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0))
