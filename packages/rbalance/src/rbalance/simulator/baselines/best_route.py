"""BEST-Route (Ding et al., ICML 2025): the cheapest option that is likely to match the best model.

A classifier says how likely each model's answer is at least as good as the reference model's. With
best-of-n a model may be asked n times, which counts as 1 − (1 − p)^n and costs n times as much.
The article's classifier is a DeBERTa; ours are logistic heads on the embeddings that the other
policies use, so that policies are compared and not encoders. What scoring costs is a matter of
deployment: see rbalance.simulator.scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.model_first import ModelChoice
from rbalance.simulator.baselines.logistic import Logistic, fit_logistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.labels.embedded_labels import Labelled
    from rbalance.policies.batch import RequestBatch


@dataclass(frozen=True, slots=True, eq=False)
class BestRoute:
    """The router, as `fit_best_route` makes it.

    classifier: how likely each model's answer matches the reference's.
    reference: the model that answers when nothing cheaper is likely enough.
    cost: float64 [M], USD a request.
    threshold: t, the least probability of a match.
    best_of: how often the same model may be asked, at most.
    """

    uses_vectors: ClassVar[bool] = True
    classifier: Logistic
    cost: NDArray[np.float64]
    reference: int
    threshold: float
    best_of: int = 1

    @property
    def fallback(self) -> int:
        """The reference, for requests without vectors."""
        return self.reference

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The cheapest that is likely to match the reference, asked as often as that takes."""
        assert batch.vectors is not None
        match = self.classifier.probability(batch.vectors)
        model, times = cheapest_match(
            match, self.cost, self.reference, self.threshold, self.best_of
        )
        also = {
            int(row): (int(model[row]),) * int(times[row] - 1) for row in np.flatnonzero(times > 1)
        }
        return ModelChoice(model, also)


def cheapest_match(
    match: NDArray[np.float64],
    cost: NDArray[np.float64],
    reference: int,
    threshold: float,
    best_of: int = 1,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Model and number of answers, intp [R] each, from match [R, M] and cost [M].

    The reference, asked once, always matches itself.
    """
    times = np.arange(1, best_of + 1)
    likely = 1 - (1 - match[:, :, None]) ** times >= threshold  # [R, M, n]
    likely[:, reference, 0] = True
    price = np.where(likely, cost[:, None] * times, np.inf).reshape(len(match), -1)
    model, extra = np.divmod(price.argmin(axis=1), best_of)
    return model, extra + 1


def fit_best_route(data: Labelled, threshold: float, best_of: int = 1) -> BestRoute:
    """Train the heads; the reference is the model with the best mean score."""
    return BestRoute(_classifier(data), data.mean_cost, data.strongest, threshold, best_of)


@lru_cache(maxsize=4)  # the same for every threshold
def _classifier(data: Labelled) -> Logistic:
    matches = data.quality >= data.quality[:, [data.strongest]]
    return fit_logistic(data.vectors, matches.astype(np.float64))
