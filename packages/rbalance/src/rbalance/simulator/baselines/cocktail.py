"""An ensemble in the manner of Cocktail (Gunasekaran et al., NSDI 2022): several models answer, the
majority by weight counts, and models are dropped while the rest is expected to be good enough.

Votes are weighted by expected quality. How good an ensemble is follows from its members' qualities
if they err independently, which is Cocktail's own estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rbalance.policies.model_first import ModelChoice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rbalance.policies.batch import RequestBatch


@dataclass(frozen=True, slots=True)
class Cocktail:
    """The router.

    cheapest_first: the models by cost.
    target: the quality that is good enough.
    members: of an ensemble, at most.
    """

    uses_vectors: ClassVar[bool] = False
    cheapest_first: tuple[int, ...]
    target: float
    members: int = 3

    @property
    def fallback(self) -> int:
        """The dearest model."""
        return self.cheapest_first[-1]

    def models(self, batch: RequestBatch) -> ModelChoice:
        """The first model of each request's ensemble; the others answer at the same time."""
        first, also = [], {}
        for row, quality in enumerate(batch.predictions.quality):
            leader, *others = self._ensemble(quality)
            first.append(leader)
            if others:
                also[row] = tuple(others)
        return ModelChoice(np.array(first, np.intp), also)

    def _ensemble(self, quality: NDArray[np.float32]) -> list[int]:
        """The smallest of the nested ensembles, best model first, that reaches the target."""
        best_first = sorted(self.cheapest_first, key=lambda model: -quality[model])
        good = [model for model in self.cheapest_first if quality[model] >= self.target]
        if good:
            return good[:1]
        ensembles = [best_first[:size] for size in range(1, self.members + 1, 2)]
        for chosen in ensembles:
            if majority_quality(quality[chosen]) >= self.target:
                return chosen
        return max(ensembles, key=lambda chosen: majority_quality(quality[chosen]))


def majority_quality(quality: NDArray[np.float32]) -> float:
    """How likely a majority, weighted by quality, is right if members err independently."""
    total = float(quality.sum())
    likely = 0.0
    for right in product((False, True), repeat=len(quality)):
        votes = np.array(right)
        if quality[votes].sum() > total / 2:
            likely += float(np.where(votes, quality, 1 - quality).prod())
    return likely
